// The waterfall of a run: what models and tools did when, for how long, with what usage, and what failed on the way.

import { appendVisible, el, icon } from "./dom.js";
import { costOf, duration, tokensOf } from "./format.js";
import { briefOf, messageOf, taskOf } from "./tool.js";

/** How many bars are shown until the user asks for more. */
export const MOST_BARS = 400;

/** The label of a bar for each purpose of a model call. */
const PURPOSES = { turn: "Model", last_answer: "Last answer", compaction: "Summary", self_check: "Draft check", gather: "Gathering", routing: "Model choice" };

/** Pauses between two attempts below this duration are not shown, in milliseconds. */
const SHORT = 100;

/** Creates the bars of a run from its records, in order of their start. `parent` is the bar of the call that an agent works for. For a
 *  run in progress, `now` is the end of bars without an end. */
function barsOf(records, now = 0) {
  const bars = [];
  const calls = new Map();
  const asks = new Map();
  const parents = new Map();
  const tasks = new Map();
  const tried = new Map();
  const time = (record) => new Date(record.at).getTime();
  let isOver = false;
  for (const record of records) {
    const end = time(record);
    const parent = parents.get(record.agent);
    const base = { seq: record.seq, agent: record.agent, task: tasks.get(record.agent), parent, depth: parent ? parent.depth + 1 : record.agent === "a0" ? 0 : 1, end, begin: end - (record.duration_ms ?? 0), facts: [] };
    if (record.type === "llm_call" || record.type === "llm_failed") bars.push(...paused(record, base, tried), modelBar(record, base));
    else if (record.type === "tool_call") {
      const bar = { ...base, begin: end, kind: "tool", name: record.name, call: record, detail: "", isOpen: true };
      calls.set(record.tool_call_id, bar);
      for (const agent of record.agents ?? []) {
        parents.set(agent, bar);
        tasks.set(agent, taskOf(agent, record.agents, record.arguments));
      }
      bars.push(bar);
    } else if (record.type === "tool_failed") {
      bars.push({ ...base, kind: "failed", name: record.name, detail: `attempt ${record.attempt}: ${messageOf(record.value)}` });
    } else if (record.type === "tool_result") {
      closeWaits(asks, record, end, record.status === "done" ? "answered" : "not answered");
      const open = calls.get(record.tool_call_id);
      const bar = open ?? { ...base, name: record.name };
      if (!open) bars.push(bar);
      Object.assign(bar, { end, isOpen: false, kind: record.status === "done" ? "tool" : "failed", detail: record.status === "done" ? record.value?.summary ?? "" : messageOf(record.value) });
    } else if (record.type === "approval_requested") {
      bars.push(waitBar(asks, record.tool_call_id, { ...base, name: record.name, call: record, detail: "waiting for approval" }));
    } else if (record.type === "waiting") {
      const tools = record.pending.filter((pending) => pending.kind === "client_tool");
      for (const { tool_call_id: id, name } of tools) bars.push(waitBar(asks, id, { ...base, name: name ?? calls.get(id)?.name ?? "Tool", detail: "waiting for a client" }));
    } else if (record.type === "approval_decided") {
      const word = { approve: "approved by a user", deny: "denied by a user" }[record.decision] ?? record.decision;
      closeWaits(asks, record, end, word);
    } else if (record.type === "final" || record.type === "run_failed") {
      if (record.agent !== "a0") continue;
      closeWaits(asks, {}, end, "not decided");
      isOver = true;
    }
  }
  const last = records.length ? Math.max(isOver ? 0 : now, time(records.at(-1))) : 0;
  for (const bar of bars) if (bar.isOpen) bar.end = last;
  return bars.sort((a, b) => a.begin - b.begin || a.seq - b.seq);
}

function modelBar(record, base) {
  const name = PURPOSES[record.purpose] ?? record.purpose;
  const cost = costOf(record);
  if (record.type === "llm_failed") return { ...base, kind: "failed", name, detail: `attempt ${record.attempt}: ${record.error?.message ?? record.error?.kind ?? ""}`, facts: ["", cost] };
  const usage = record.reply?.usage ?? {};
  const again = record.attempt > 1 ? `attempt ${record.attempt}, ` : "";
  return { ...base, kind: "model", name, detail: record.reply?.model?.model ?? record.served_by, first: record.first_delta_ms, facts: [`${again}${tokensOf(usage, "prompt_tokens")} → ${tokensOf(usage, "completion_tokens")}`, cost] };
}

/** Returns the pause before an attempt, if it is long enough to be shown. */
function paused(record, base, tried) {
  const key = `${record.agent} ${record.content_index}`;
  const before = tried.get(key);
  tried.set(key, base.end);
  if (before === undefined || base.begin - before < SHORT) return [];
  return [{ ...base, seq: record.seq - 0.5, kind: "wait", begin: before, end: base.begin, name: "Pause", detail: `before attempt ${record.attempt}` }];
}

function waitBar(asks, id, bar) {
  const made = { ...bar, begin: bar.end, kind: "wait", isOpen: true };
  asks.set(id, made);
  return made;
}

/** Ends what waits for an answer to this call, or everything that waits. */
function closeWaits(asks, { tool_call_id: id }, end, detail) {
  for (const [open, bar] of asks) {
    if (id !== undefined && open !== id) continue;
    Object.assign(bar, { end, isOpen: false, detail });
    asks.delete(open);
  }
}

/** Maps times to positions from 0 to 1. Each wait for a user takes at most a twelfth, because it would otherwise leave no room. */
function scaleOf(records, bars) {
  const begin = records.length ? new Date(records[0].at).getTime() : 0;
  const end = Math.max(begin + 1, ...records.slice(-1).map((record) => new Date(record.at).getTime()), ...bars.map((bar) => bar.end));
  const waits = merged(bars.filter((bar) => bar.kind === "wait"));
  const waited = waits.reduce((sum, [from, to]) => sum + to - from, 0);
  const active = Math.max(1, end - begin - waited);
  const most = active / 12;
  const cuts = waits.map(([from, to]) => [from, to, Math.max(0, to - from - most)]);
  const cut = (at) => cuts.reduce((sum, [from, to, less]) => sum + (at >= to ? less : at <= from ? 0 : (less * (at - from)) / (to - from)), 0);
  const whole = end - begin - cut(end);
  return { place: (at) => Math.min(1, Math.max(0, (at - begin - cut(at)) / whole)), whole, isCut: cuts.some(([, , less]) => less > 0) };
}

function merged(bars) {
  const spans = [];
  for (const { begin, end } of [...bars].sort((a, b) => a.begin - b.begin)) {
    const last = spans.at(-1);
    if (last && begin <= last[1]) last[1] = Math.max(last[1], end);
    else spans.push([begin, end]);
  }
  return spans;
}

const LEGEND = [["model", "Model, paler until its first output"], ["tool", "Tool"], ["failed", "Failed"], ["wait", "Waiting"]];

/** The positions of the times shown above the bars. */
const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** Updates a rendered waterfall to the current time. Its rows stay, because one may be being pressed. */
export function grow(node, records, now) {
  const bars = new Map(barsOf(records, now).map((bar) => [String(bar.seq), bar]));
  const scale = scaleOf(records, [...bars.values()]);
  for (const row of node.querySelectorAll(".bar-row")) {
    const bar = bars.get(row.dataset.seq);
    if (bar) stretch(row.querySelector(".bar"), row.querySelector(".bar-took"), bar, scale);
  }
  node.querySelectorAll(".ticks span").forEach((tick, at) => { tick.textContent = duration(scale.whole * TICKS[at]); });
}

/** Positions a bar, and shows its duration. */
function stretch(line, took, bar, scale) {
  const [from, to] = [scale.place(bar.begin), scale.place(bar.end)];
  line.style.left = `${from * 100}%`;
  line.style.width = `${Math.max(0.3, (to - from) * 100)}%`;
  took.textContent = duration(bar.end - bar.begin);
}

/** Renders the waterfall. `choose` receives the record number of a chosen bar, `fold` that of a bar to collapse or expand; `chosen` and
 *  the set `folded` are the current state. */
export function waterfall(records, { choose, fold, chosen, folded, shown = MOST_BARS, now }) {
  const all = barsOf(records, now);
  if (all.length === 0) return el("p", { class: "empty", text: "No model or tool was called." });
  const scale = scaleOf(records, all);
  // The bars with children; also contains undefined, for bars without a parent.
  const owners = new Set(all.map((bar) => bar.parent));
  const seen = all.filter((bar) => !isFolded(bar, folded));
  const rows = seen.slice(0, shown).map((bar) => row(bar, scale, { choose, fold, isChosen: bar.seq === chosen, isOpen: owners.has(bar) ? !folded.has(bar.seq) : undefined, isTree: owners.size > 1 }));
  const ticks = TICKS.map((part) => {
    const tick = el("span", { text: duration(scale.whole * part) });
    tick.style.left = `${part * 100}%`;
    return tick;
  });
  const kinds = LEGEND.filter(([kind]) => all.some((bar) => bar.kind === kind));
  return el("div", {},
    el("ul", { class: "legend", "aria-label": "What the colors mean" }, kinds.map(([kind, text]) => el("li", {}, el("i", { class: `swatch ${kind}` }, kind === "model" && el("span", { class: "first" })), el("span", { text: kind === "wait" && scale.isCut ? `${text}, drawn shorter` : text })))),
    el("div", { class: "waterfall", role: "list", "aria-label": "Timeline of model and tool calls" },
      el("div", { class: "axis", "aria-hidden": "true" }, el("span"), el("div", { class: "ticks" }, ticks), el("span")), rows));
}

function isFolded(bar, folded) {
  for (let above = bar.parent; above; above = above.parent) if (folded.has(above.seq)) return true;
  return false;
}

/** What calls are about, by record, cached because arguments may be long and rows are rendered often. */
const abouts = new WeakMap();

function aboutOf(record) {
  if (!record) return "";
  if (!abouts.has(record)) abouts.set(record, briefOf(record.name, record.arguments));
  return abouts.get(record);
}

function row(bar, scale, { choose, fold, isChosen, isOpen, isTree }) {
  const line = el("span", { class: `bar ${bar.kind} ${bar.isOpen ? "open" : ""}` });
  const took = el("span", { class: "bar-took" });
  stretch(line, took, bar, scale);
  if (bar.first) {
    const first = el("span", { class: "first" });
    first.style.width = `${Math.min(100, (bar.first / Math.max(1, bar.end - bar.begin)) * 100)}%`;
    line.append(first);
  }
  const indent = `${bar.depth * 1.1}rem`;
  // For a waiting call, its subject distinguishes it from others of the same tool; otherwise its outcome says more.
  const about = aboutOf(bar.call);
  const detail = bar.kind === "wait" ? [about, bar.detail].filter(Boolean).join(" · ") : bar.detail || about;
  const title = [bar.agent !== "a0" && [bar.agent, bar.task].filter(Boolean).join(": "), about, bar.detail].filter(Boolean).join("\n");
  const name = el("span", { class: "bar-name" }, el("i", { class: `swatch ${bar.kind}` }), bar.agent !== "a0" && el("code", { class: "bar-agent", text: bar.agent }), bar.kind === "failed" && el("span", { class: "hidden", text: "failed: " }), appendVisible(el("span"), bar.name), appendVisible(el("span", { class: "bar-detail" }), detail));
  name.style.paddingInlineStart = isTree ? `calc(${indent} + 1.2rem)` : indent;
  const used = bar.facts.filter(Boolean).map((fact) => ` · ${fact}`).join("");
  const facts = el("span", { class: "bar-facts" }, took, el("span", { class: "bar-used", text: used }));
  const whole = el("button", { type: "button", class: "bar-row", title, data: { seq: bar.seq }, "aria-pressed": String(isChosen), on: { click: () => choose(bar.seq) } }, name, el("span", { class: "track" }, line), facts);
  if (isOpen === undefined) return el("div", { role: "listitem" }, whole);
  const toggle = el("button", { type: "button", class: "fold", "aria-expanded": String(isOpen), "aria-label": `Calls made by ${bar.name}`, on: { click: () => fold(bar.seq) } }, icon("chevron"));
  toggle.style.insetInlineStart = indent;
  return el("div", { role: "listitem", class: "folds" }, toggle, whole);
}
