// The output and actions of one agent in a run: its replies with their reasoning, and its tool calls, in order.

import { whoDecides } from "./access.js";
import { appendInOrder, appendVisible, el, fill, icon } from "./dom.js";
import { duration, partsOf, reasoningOf, textOf, tokensOf } from "./format.js";
import { codeBlock, Growing } from "./markdown.js";
import { newPart } from "./stream.js";
import { ToolView } from "./tool.js";

/** The labels of replies that are not meant for the reader. */
const ASIDE = { compaction: "Summarized the work so far", self_check: "Checked its draft", routing: "Chose a model", gather: "Gathered information" };

/** The states that several calls are summed up by, in this order. */
const COUNTED = [["asks", ""], ["client", "waiting for a client"], ["running", "running"], ["queued", "queued"], ["done", "done"], ["ill", "ended with an error"], ["error", "failed"], ["refused", "not allowed"]];

/** The states of calls without a result. */
const OPEN = new Set(["queued", "asks", "client", "running"]);

/** The tool calls of one reply. Several are shown in one collapsible box. */
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
    // A question must not be overlooked.
    if (this.views.some((view) => view.state === "asks")) this.group.open = true;
  }
}

/** One reply of a model, as it grows and as it is recorded. */
class ReplyView {
  constructor() {
    this.text = el("div", { class: "md", lang: "" });
    this.growing = new Growing(this.text);
    this.thought = el("div", { class: "md", lang: "" });
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
    /** Live content, by block. */
    this.blocks = new Map();
  }

  /** Adds a live piece, which is shown until the record arrives. */
  grow(event) {
    if (this.isRecorded || event.attempt < this.attempt) return;
    if (event.attempt > this.attempt) this.begin(event.attempt);
    const kind = event.type === "text_delta" ? "text" : "reasoning";
    const block = this.blocks.get(event.block) ?? { kind, text: "", known: 0 };
    this.blocks.set(event.block, block);
    const { text, known } = newPart(event, block.known);
    if (!text) return;
    // The record contains what was missed.
    if (event.offset > block.known) block.text += block.text ? " … " : "… ";
    block.text += text;
    block.known = known;
    this.show(this.textOf("reasoning"), this.textOf("text"));
  }

  textOf(kind) {
    const of = [...this.blocks.entries()].filter(([, block]) => block.kind === kind).sort(([a], [b]) => a - b);
    return of.map(([, block]) => block.text).join("\n\n");
  }

  show(reasoning, text) {
    this.thoughts = reasoning;
    this.reasoning.hidden = !reasoning;
    if (this.reasoning.open) this.thinking.set(reasoning);
    this.node.classList.toggle("thinks", Boolean(reasoning) && !text && !this.isRecorded);
    this.growing.set(text);
  }

  retract() {
    this.blocks.clear();
    this.show("", "");
  }

  record(record) {
    this.isRecorded = true;
    const reasoning = reasoningOf(record.reply).trim();
    const text = textOf(record.reply);
    const { usage } = record.reply ?? {};
    const count = usage?.reasoning_tokens;
    this.word.textContent = count ? `Reasoning · ${tokensOf(usage, "reasoning_tokens")} ${count === 1 ? "token" : "tokens"}` : "Reasoning";
    const aside = ASIDE[record.purpose];
    if (!aside) return this.show(reasoning, text);
    this.show(reasoning, "");
    // An empty summary is not shown.
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
    /** The user's messages added during the run, and those of them that came too late for the current model call, whose reply goes
     *  before them. */
    this.userMessages = [];
    this.waiting = [];
    this.node = el("div", { class: "agent" });
  }

  /** How many of these messages a model has received. */
  get receivedCount() {
    return this.userMessages.length - this.waiting.length;
  }

  /** Returns the reply to one model call. */
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

  /** Removes live content that was never recorded. */
  dropUnrecorded() {
    for (const [index, reply] of this.replies) {
      if (reply.isRecorded || reply.blocks.size === 0) continue;
      reply.retract();
      if (reply.notes.hasChildNodes()) continue;
      reply.node.remove();
      this.replies.delete(index);
    }
  }

  /** Shows a recorded reply: its calls get their places before any of them runs. */
  addReply(record) {
    const reply = this.reply(record.content_index);
    // A message may have been added since the reply began.
    this.newest = reply;
    reply.record(record);
    const calls = partsOf(record.reply, "tool_call");
    this.asked = calls.map((part, at) => `${this.prefix}_${record.content_index}_${at}`);
    const { receivedCount } = this;
    this.endModelCall(record.purpose);
    if (ASIDE[record.purpose] && record.purpose !== "gather") return;
    if (calls.length === 0) Object.assign(this, { answer: reply, answered: receivedCount });
    calls.forEach((part, at) => this.call(this.asked[at], part.name, part.arguments));
  }

  /** Shows the verdicts on the calls of the last reply. Later verdicts concern only some of them again. */
  addVerdicts(record) {
    record.calls.forEach((found, at) => {
      const call = this.calls.get(this.asked[at]);
      if (!call) return;
      call.rule = found.rule;
      if (found.verdict === "run" && found.grant !== undefined) call.addNote("", found.reason ?? "");
    });
    this.asked = [];
  }

  /** Adds a line to the conversation that neither the user nor a model wrote. */
  note(kind, text) {
    const line = appendVisible(el("p", { class: `line-note ${kind}` }), text);
    this.node.append(line);
    this.newest = undefined;
    return line;
  }

  /** Adds a user's message during the run. The model receives it after its calls, or after the reply in progress. */
  addUserMessage(text) {
    const node = el("div", { class: "said steered", role: "group", "aria-label": "Added to the run" }, appendInOrder(el("div", { class: "bubble", lang: "" }), text));
    this.node.append(node);
    this.userMessages.push(node);
    const isCalling = [...this.calls.values()].some((call) => OPEN.has(call.state));
    if (!isCalling) this.waiting.push(node);
    this.newest = undefined;
  }

  /** A model call has ended. The next one receives the messages added meanwhile, unless this one was only preparatory. */
  endModelCall(purpose) {
    if (purpose !== "compaction" && purpose !== "routing") this.waiting = [];
  }

  /** Shows the text of a reply that was stopped, which has no record. */
  showStopped(text) {
    this.dropUnrecorded();
    this.reply(-2).growing.set(text);
  }

  /** The agent has ended, and no model received the last `unreceived` messages: they go after all of its output. */
  moveUnreceived(unreceived) {
    this.waiting = unreceived > 0 ? this.userMessages.slice(-unreceived) : [];
    const last = [...this.node.children].findLast((node) => node.classList.contains("reply"));
    if (last && this.waiting[0]?.compareDocumentPosition(last) & Node.DOCUMENT_POSITION_FOLLOWING) last.after(...this.waiting);
  }

  /** Returns the reply that holds the answer: a new one if a model has received a message since the last. */
  lastReply() {
    return this.answer && this.answered >= this.receivedCount ? this.answer : this.reply(-2);
  }
}
