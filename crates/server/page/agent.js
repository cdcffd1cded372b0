// What one agent says and does in a run: its replies with their reasoning, and its tool calls, in their order.

import { whoDecides } from "./access.js";
import { appendInOrder, appendVisible, el, fill, icon } from "./dom.js";
import { duration, partsOf, reasoningOf, textOf, tokensOf } from "./format.js";
import { codeBlock, Growing } from "./markdown.js";
import { beyond } from "./stream.js";
import { ToolView } from "./tool.js";

/** What a reply is for, where it is not for the reader. */
const ASIDE = { compaction: "Summed up the work so far", self_check: "Checked its draft", routing: "Chose a model", gather: "Looked at what it needs" };

/** What several calls add up to, in this order. */
const COUNTED = [["asks", ""], ["client", "waiting for a client"], ["running", "running"], ["queued", "queued"], ["done", "done"], ["ill", "ended with an error"], ["error", "failed"], ["refused", "not allowed"]];

/** States of calls that have no result yet. */
const OPEN = new Set(["queued", "asks", "client", "running"]);

/** The tool calls of one reply. Several stand in one box, which can be folded away. */
class Calls {
  constructor() {
    this.node = el("div", { class: "calls" });
    this.views = [];
  }

  add(view) {
    this.views.push(view);
    view.changed = () => this.count();
    if (this.views.length === 2) {
      this.word = el("span");
      this.list = el("div", { class: "group-calls" }, this.views[0].node);
      this.group = el("details", { class: "group", open: true }, el("summary", {}, this.word, icon("chevron", "chevron")), this.list);
      fill(this.node, this.group);
    }
    (this.list ?? this.node).append(view.node);
    this.count();
  }

  count() {
    if (!this.group) return;
    const counts = {};
    for (const { state } of this.views) counts[state] = (counts[state] ?? 0) + 1;
    const parts = COUNTED.map(([state, word]) => [counts[state] ?? 0, word || `waiting for ${whoDecides()}`]).filter(([count]) => count > 0);
    const isOne = parts.length === 1 && parts[0][1] === "done";
    this.word.textContent = [`${this.views.length} tool calls`, ...(isOne ? ["all done"] : parts.map(([count, word]) => `${count} ${word}`))].join(" · ");
    // Nobody overlooks a question.
    if (this.views.some((view) => view.state === "asks")) this.group.open = true;
  }
}

/** One reply of a model, as it grows and as it is recorded. */
class ReplyView {
  constructor() {
    this.text = el("div", { class: "md" });
    this.growing = new Growing(this.text);
    this.thought = el("div", { class: "md" });
    this.thinking = new Growing(this.thought);
    this.thoughts = "";
    this.word = el("span", { text: "Thinking…" });
    this.reasoning = el("details", { class: "reasoning", hidden: true, on: { toggle: () => this.reasoning.open && this.thinking.set(this.thoughts) } }, el("summary", {}, this.word), this.thought);
    this.notes = el("div");
    this.calls = new Calls();
    this.node = el("div", { class: "reply" }, this.notes, this.reasoning, this.text, this.calls.node);
    this.begin(1);
  }

  begin(attempt) {
    this.attempt = attempt;
    /** What came live, by its block. */
    this.blocks = new Map();
  }

  /** A piece that comes at once: it counts until the record says the same. */
  grow(event) {
    if (this.isRecorded || event.attempt < this.attempt) return;
    if (event.attempt > this.attempt) this.begin(event.attempt);
    const kind = event.type === "text_delta" ? "text" : "reasoning";
    const block = this.blocks.get(event.block) ?? { kind, text: "", known: 0 };
    this.blocks.set(event.block, block);
    const { text, known } = beyond(event, block.known);
    if (!text) return;
    // What was missed stands in the record.
    if (event.offset > block.known) block.text += block.text ? " … " : "… ";
    block.text += text;
    block.known = known;
    this.say(this.textOf("reasoning"), this.textOf("text"));
  }

  textOf(kind) {
    const of = [...this.blocks.entries()].filter(([, block]) => block.kind === kind).sort(([a], [b]) => a - b);
    return of.map(([, block]) => block.text).join("\n\n");
  }

  say(reasoning, text) {
    this.thoughts = reasoning;
    this.reasoning.hidden = !reasoning;
    if (this.reasoning.open) this.thinking.set(reasoning);
    this.node.classList.toggle("thinks", Boolean(reasoning) && !text && !this.isRecorded);
    this.growing.set(text);
  }

  retract() {
    this.blocks.clear();
    this.say("", "");
  }

  record(record) {
    this.isRecorded = true;
    const reasoning = reasoningOf(record.reply).trim();
    const text = textOf(record.reply);
    const { usage } = record.reply ?? {};
    const count = usage?.reasoning_tokens;
    this.word.textContent = count ? `Reasoning · ${tokensOf(usage, "reasoning_tokens")} ${count === 1 ? "token" : "tokens"}` : "Reasoning";
    const aside = ASIDE[record.purpose];
    if (!aside) return this.say(reasoning, text);
    this.say(reasoning, "");
    // A summary without a word is none.
    if (record.purpose === "compaction" && !text.trim()) return undefined;
    this.aside(`${aside} · ${duration(record.duration_ms)}`, text);
    return undefined;
  }

  aside(title, text) {
    const body = el("div", { class: "md" });
    this.notes.append(el("details", { class: "reasoning", on: { toggle: () => body.childNodes.length || body.append(codeBlock(text)) } }, el("summary", {}, el("span", { text: title })), body));
  }

  note(kind, text) {
    this.notes.append(appendVisible(el("p", { class: `line-note ${kind}` }), text));
  }
}

export class AgentView {
  constructor(id, runId) {
    this.id = id;
    this.prefix = `call_${runId.replaceAll("-", "")}_${id}`;
    this.replies = new Map();
    this.calls = new Map();
    this.asked = [];
    /** What the person said in the middle of it, and of that what came too late for the model call under way: its reply goes before. */
    this.said = [];
    this.waiting = [];
    this.node = el("div", { class: "agent" });
  }

  /** How many of these messages a model was sent. */
  get heard() {
    return this.said.length - this.waiting.length;
  }

  /** The reply to one model call. */
  reply(index) {
    let reply = this.replies.get(index);
    if (!reply) {
      reply = new ReplyView();
      this.replies.set(index, reply);
      if (this.waiting.length > 0) this.waiting[0].before(reply.node);
      else this.node.append(reply.node);
      this.newest = reply;
    }
    return reply;
  }

  call(id, name, args) {
    let call = this.calls.get(id);
    if (!call) {
      call = new ToolView(name, args);
      this.calls.set(id, call);
      (this.newest ?? this.reply(-1)).calls.add(call);
    }
    return call;
  }

  /** Leaves out what came live and was never recorded. */
  dropUnrecorded() {
    for (const [index, reply] of this.replies) {
      if (reply.isRecorded || reply.blocks.size === 0) continue;
      reply.retract();
      if (reply.notes.hasChildNodes()) continue;
      reply.node.remove();
      this.replies.delete(index);
    }
  }

  /** A recorded reply: its calls get their places before any of them runs. */
  replied(record) {
    const reply = this.reply(record.content_index);
    // A message may have come since it began.
    this.newest = reply;
    reply.record(record);
    const calls = partsOf(record.reply, "tool_call");
    this.asked = calls.map((part, at) => `${this.prefix}_${record.content_index}_${at}`);
    const { heard } = this;
    this.callIsOver(record.purpose);
    if (ASIDE[record.purpose] && record.purpose !== "gather") return;
    if (calls.length === 0) Object.assign(this, { answer: reply, answered: heard });
    calls.forEach((part, at) => this.call(this.asked[at], part.name, part.arguments));
  }

  /** What was found about the calls of the last reply. Whatever is found after that is about some of them, anew. */
  judged(record) {
    record.calls.forEach((found, at) => {
      const call = this.calls.get(this.asked[at]);
      if (!call) return;
      call.rule = found.rule;
      if (found.verdict === "run" && found.grant !== undefined) call.say("", found.reason ?? "");
    });
    this.asked = [];
  }

  /** A line in the conversation that is nobody's words. */
  note(kind, text) {
    const line = appendVisible(el("p", { class: `line-note ${kind}` }), text);
    this.node.append(line);
    this.newest = undefined;
    return line;
  }

  /** What the person said in the middle of it. The model hears it after its calls, or after what it is about to say. */
  steered(text) {
    const node = el("div", { class: "said steered" }, appendInOrder(el("div", { class: "bubble" }), text));
    this.node.append(node);
    this.said.push(node);
    const isCalling = [...this.calls.values()].some((call) => OPEN.has(call.state));
    if (!isCalling) this.waiting.push(node);
    this.newest = undefined;
  }

  /** A model call is over. The next one hears what was said meanwhile, unless this one was only to prepare it. */
  callIsOver(purpose) {
    if (purpose !== "compaction" && purpose !== "routing") this.waiting = [];
  }

  /** What the model had said of a reply that was stopped: that has no record. */
  cut(text) {
    this.dropUnrecorded();
    this.reply(-2).growing.set(text);
  }

  /** The agent has ended, and no model heard so many of the last messages: they follow all that it said. */
  leave(unheard) {
    this.waiting = unheard > 0 ? this.said.slice(-unheard) : [];
    const last = [...this.node.children].findLast((node) => node.classList.contains("reply"));
    if (last && this.waiting[0]?.compareDocumentPosition(last) & Node.DOCUMENT_POSITION_FOLLOWING) last.after(...this.waiting);
  }

  /** The reply that the answer stands in: another one if a model heard something since. */
  lastReply() {
    return this.answer && this.answered >= this.heard ? this.answer : this.reply(-2);
  }
}
