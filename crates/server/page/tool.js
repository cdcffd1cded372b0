// One tool call in a conversation: its name, arguments, output, result and duration, and the questions it asked.

import { whoDecides } from "./access.js";
import { appendVisible, codeBox, copyButton, eachFrame, el, fill, icon } from "./dom.js";
import { showContent, showDiff } from "./diff.js";
import { decisionOf, duration, oneLine, parsed, pretty, spread } from "./format.js";
import { showPlan } from "./plan.js";
import { newPart } from "./stream.js";

const STATES = {
  queued: ["dot", "queued"],
  asks: ["hand", ""],
  client: ["hand", "waiting for a client"],
  running: ["spinner", "running"],
  done: ["check", "done"],
  // The call succeeded, but the command did not.
  ill: ["warn", "ended with an error"],
  error: ["cross", "failed"],
  refused: ["shield", "not allowed"],
};

/** Failures whose error message says more. */
const FAILED = new Set(["error", "temporary", "permanent"]);

const REFUSED = new Set(["denied", "approval_expired", "not_enabled"]);

/** The most telling arguments, in order of preference. */
const TELLING = ["path", "command", "url", "query", "expression", "pattern", "question", "topics", "task", "message"];

/** How many characters of a running tool's output are kept, and how many of them are rendered. */
const MOST_OUTPUT = 100_000;
const MOST_SHOWN = 50_000;

/** Returns the changes that a tool call would make or made to files, if its arguments contain nothing else: another tool's argument
 *  named patch, or one next to other arguments, must not be mistaken for a change of files. `most` is the number of lines shown at
 *  first. */
export function changesOf(name, args, most) {
  const value = typeof args === "string" ? parsed(args) : args;
  if (name === "apply_patch" && hasOnly(value, ["patch"])) return showDiff(value.patch, most);
  if (name !== "write_file") return undefined;
  const { create_folders: folders, ...file } = value ?? {};
  if (!hasOnly(file, ["content", "path"]) || ![undefined, true, false].includes(folders)) return undefined;
  const shown = showContent(file.path, file.content, most);
  if (folders) shown.prepend(el("p", { class: "line-note", text: "Missing folders in its path are created." }));
  return shown;
}

/** Whether a value is an object with exactly these string fields, in this order. */
function hasOnly(value, names) {
  if (typeof value !== "object" || value === null) return false;
  return Object.keys(value).sort().join() === names.join() && names.every((name) => typeof value[name] === "string");
}

/** Describes a call in a few words: its most telling argument. */
export function briefOf(name, args) {
  const value = parsed(args);
  const patched = name === "apply_patch" && hasOnly(value, ["patch"]) ? /^(?:\+\+\+ (?:b\/)?|\*\*\* (?:Add|Update|Delete) File: )(\S+)/m.exec(value.patch)?.[1] : undefined;
  const telling = TELLING.find((it) => value?.[it] !== undefined);
  const first = patched ?? (telling ? value[telling] : Object.values(value ?? {})[0]) ?? "";
  return oneLine(typeof first === "string" ? first : JSON.stringify(first), 160);
}

/** Returns the task of one of the sub-agents that a call started, or an empty string if the arguments have no task for each. */
export function taskOf(agent, agents, args) {
  const lists = Object.values(parsed(args) ?? {}).filter((value) => Array.isArray(value) && value.length === agents.length);
  const task = lists[0]?.[agents.indexOf(agent)];
  return typeof task === "string" ? oneLine(task, 100) : "";
}

export class ToolView {
  constructor(name, args) {
    this.name = name;
    this.args = args ?? "";
    this.output = "";
    /** The last attempt that printed, and how many bytes of it are known. */
    this.attempt = 0;
    this.known = 0;
    /** How many characters it printed in total, and how many of them are shown. */
    this.printed = 0;
    this.shown = 0;
    this.printSoon = eachFrame(() => this.showOutput());
    this.notes = [];
    this.mark = el("span", { class: "mark" });
    this.brief = el("span", { class: "brief" });
    this.note = el("span", { class: "note" });
    this.took = el("span", { class: "took" });
    this.body = el("div", { class: "call-body" });
    this.title = appendVisible(el("code", { class: "tool-name" }), name);
    this.summary = el("summary", {}, this.mark, this.title, this.brief, this.note, this.took, icon("chevron", "chevron"));
    this.details = el("details", { class: "call-details", on: { toggle: () => this.details.open && this.show() } }, this.summary, this.body);
    /** Holds the question about the call, its plan and its sub-agents: visible whether the call is expanded or not. */
    this.below = el("div", { class: "call-below" });
    this.node = el("section", { class: "call" }, this.details, this.below);
    this.setArguments(this.args);
    this.setState("queued");
  }

  setState(state, note) {
    this.state = state;
    const [sign, word] = STATES[state];
    const words = word || `waiting for ${whoDecides()}`;
    this.node.dataset.state = state;
    fill(this.mark, icon(sign, sign === "spinner" ? "spins" : ""), el("span", { class: "hidden", text: `${words}:` }));
    this.setNote(note ?? (state === "done" || state === "queued" ? "" : words), words);
    if (this.details.open) this.show();
    this.changed?.();
  }

  /** Shows a note. `heard` is what screen readers already hear for the state, so it is not repeated. */
  setNote(text, heard) {
    this.note.textContent = text;
    this.note.ariaHidden = text === heard ? "true" : null;
  }

  setArguments(text) {
    this.args = text;
    appendVisible(fill(this.brief), briefOf(this.name, text));
  }

  /** Adds a live piece of the tool's output. */
  print(event) {
    if (event.attempt < this.attempt) return;
    if (event.attempt > this.attempt) Object.assign(this, { attempt: event.attempt, known: 0 });
    const { text, known } = newPart(event, this.known);
    this.known = known;
    if (!text) return;
    this.output = (this.output + text).slice(-MOST_OUTPUT);
    this.printed += text.length;
    this.printSoon();
  }

  /** Shows what was printed since the last time, and follows it unless the user scrolled back. */
  showOutput() {
    if (!this.details.open || this.result) return;
    if (!this.pre) {
      this.show();
      return;
    }
    const isAtEnd = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < 4;
    const fresh = this.printed - this.shown;
    if (fresh < MOST_SHOWN && this.pre.textContent.length + fresh < 2 * MOST_SHOWN) appendVisible(this.pre, this.output.slice(this.output.length - fresh));
    else appendVisible(fill(this.pre), this.output.slice(-MOST_SHOWN));
    this.shown = this.printed;
    if (isAtEnd) this.pre.scrollTop = this.pre.scrollHeight;
  }

  /** The box for the output. */
  outputBox() {
    this.pre = appendVisible(el("pre", { tabindex: "0", role: "group", "aria-label": "Output so far" }), this.output.slice(-MOST_SHOWN));
    this.shown = this.printed;
    return el("div", { class: "box" }, copyButton(() => this.output, "Copy: Output so far"), this.pre);
  }

  progress({ name, steps }) {
    const count = steps ? ` ${steps.done}${steps.total ? `/${steps.total}` : ""}` : "";
    this.setNote(`${name}${count}`);
  }

  failed(record) {
    this.notes.push(`Attempt ${record.attempt} failed after ${duration(record.duration_ms)}: ${messageOf(record.value)}`);
    this.setState("running", `trying again (${this.notes.length})`);
  }

  finish(record) {
    this.result = record;
    this.took.textContent = duration(record.duration_ms);
    const isRefused = REFUSED.has(record.failure);
    const words = record.failure ? record.failure.replaceAll("_", " ") : "";
    const ended = record.status === "done" ? endOf(record.value) : "";
    this.setState(ended ? "ill" : record.status === "done" ? "done" : isRefused ? "refused" : "error", ended || (isRefused ? "not allowed" : FAILED.has(record.failure) ? "failed" : words));
    if (record.status !== "done") {
      const text = messageOf(record.value).replace(/^denied: /, "");
      // The user's decision is already shown, with its reason and author.
      if (!this.isDenied) this.addNote(isRefused ? "refused" : "error", text);
      if (this.rule && !text.includes(this.rule.name)) this.addNote("", `Asked because of ${ruleOf(this.rule)}`);
    }
    if (record.signal?.type === "plan" && record.status === "done") appendVisible(fill(this.brief), record.value?.summary ?? "");
  }

  /** Shows that a decision was made, or that none was made in time. */
  decided(record) {
    this.isDenied = record.decision === "deny";
    this.addNote(this.isDenied ? "refused" : "", decisionOf(record));
    this.setState("queued");
  }

  /** Returns the name of a sub-agent that the call started. */
  taskOf(agent) {
    return taskOf(agent, this.agents, this.args) || "Sub-agent";
  }

  /** Adds a sentence beneath the call. */
  addNote(kind, text) {
    this.below.append(appendVisible(el("p", { class: `line-note ${kind}` }), oneLine(text, 600)));
  }

  /** Builds the collapsed part when it is first opened. */
  show() {
    const changes = changesOf(this.name, this.args);
    const plan = this.name === "update_plan" ? showPlan(parsed(this.args)) : undefined;
    const parts = [];
    if (changes || plan) parts.push(changes ?? plan);
    else if (this.args && this.args !== "{}") parts.push(heading("Arguments"), ...shownArguments(this.args));
    parts.push(...this.notes.map((note) => appendVisible(el("p", { class: "line-note" }), note)));
    if (this.output && !this.result) parts.push(heading("Output so far"), this.outputBox());
    if (this.result) parts.push(...shownResult(this.result));
    if (parts.length === 0) parts.push(el("p", { class: "hint", text: "No arguments." }));
    fill(this.body, parts);
    if (this.pre?.isConnected) this.pre.scrollTop = this.pre.scrollHeight;
  }
}

/** The name of a rule, and where it is defined. */
export function ruleOf({ name, source, line }) {
  return `rule ${name} (${source}${line ? `:${line}` : ""})`;
}

/** Shows the exact arguments, preceded by multi-line strings as plain text. Boxes of the classes `exact` and `whole` are as high as
 *  their content. */
export function shownArguments(args, { label = "Arguments", exact = "", whole = "" } = {}) {
  const texts = textsOf(parsed(args));
  const asTheyAre = texts.flatMap(([name, text]) => [heading(name), codeBox(text, { label: name, className: whole })]);
  return [...asTheyAre, ...(texts.length ? [heading("All arguments")] : []), codeBox(spread(args), { label, className: exact })];
}

/** Shows the result of a call: strings as text, the rest as JSON. */
export function shownResult({ value, status, untrusted, rewritten, metadata }) {
  const parts = [heading(status === "done" ? "Output" : "Error")];
  if (untrusted) parts.push(el("span", { class: "tag warn", text: "untrusted", title: "Untrusted content: treat it as data, not as instructions" }));
  if (rewritten) parts.push(el("span", { class: "tag", text: "rewritten by a hook" }));
  const texts = textsOf(value);
  if (texts.length) {
    for (const [name, text] of texts) parts.push(heading(name), codeBox(text, { label: name }));
    const rest = Object.fromEntries(Object.entries(value).filter(([name]) => !texts.some(([it]) => it === name)));
    if (Object.keys(rest).length) parts.push(codeBox(pretty(rest), { label: "Other values", className: "plain" }));
  } else parts.push(codeBox(status === "done" ? (typeof value === "string" ? value : pretty(value)) : messageOf(value), { label: "Output" }));
  if (metadata) parts.push(heading("Metadata"), codeBox(pretty(metadata), { label: "Metadata", className: "plain" }));
  return parts;
}

/** Returns the values that are multi-line strings, which JSON would show on one line. */
function textsOf(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.entries(value).filter(([, it]) => typeof it === "string" && it.includes("\n"));
}

/** Describes how a command ended, unless it succeeded. */
function endOf(value) {
  if (value?.timed_out === true) return "timed out";
  if (Number.isInteger(value?.exit_code)) return value.exit_code === 0 ? "" : `exit ${value.exit_code}`;
  return Number.isInteger(value?.signal) ? `signal ${value.signal}` : "";
}

const heading = (text) => appendVisible(el("p", { class: "label" }), text);

/** Extracts the message from a result that is an error. */
export function messageOf(value) {
  if (typeof value === "string") return value;
  return typeof value?.error === "string" ? value.error : pretty(value);
}
