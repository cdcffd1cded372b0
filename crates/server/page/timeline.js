// The waterfall of a run: what models and tools did when, how long it took, what it used, and what failed on the way.

import { appendVisible, el } from "./dom.js";
import { duration, money, tokens } from "./format.js";
import { messageOf } from "./tool.js";

/** How many bars are shown before somebody asks for more. */
export const MOST_BARS = 400;

/** What stands in a bar for a purpose of a model call. */
const PURPOSES = { turn: "Model", last_answer: "Last answer", compaction: "Summing up", self_check: "Check of the draft", gather: "Gathering", routing: "Choice of model" };

/** Makes the bars of a run from its records, in order of their beginning. */
export function barsOf(records) {
  const bars = [];
  const calls = new Map();
  const asks = new Map();
  const depths = new Map([["a0", 0]]);
  const time = (record) => new Date(record.at).getTime();
  for (const record of records) {
    const end = time(record);
    const base = { seq: record.seq, agent: record.agent, depth: depths.get(record.agent) ?? 1, end, begin: end - (record.duration_ms ?? 0) };
    if (record.type === "llm_call") {
      const usage = record.reply?.usage ?? {};
      const model = record.reply?.model?.model ?? record.served_by;
      const label = PURPOSES[record.purpose] ?? record.purpose;
      const again = record.attempt > 1 ? `attempt ${record.attempt}, ` : "";
      bars.push({ ...base, kind: "model", name: label, detail: model, first: record.first_delta_ms, facts: [`${again}${tokens(usage.prompt_tokens ?? 0)} → ${tokens(usage.completion_tokens ?? 0)}`, money(record.cost_micro_usd)] });
    } else if (record.type === "llm_failed") {
      bars.push({ ...base, kind: "failed", name: PURPOSES[record.purpose] ?? record.purpose, detail: `attempt ${record.attempt}: ${record.error?.message ?? record.error?.kind ?? ""}`, facts: ["", money(record.cost_micro_usd)] });
    } else if (record.type === "tool_call") {
      const bar = { ...base, begin: end, kind: "tool", name: record.name, detail: "", facts: [], isOpen: true };
      calls.set(record.tool_call_id, bar);
      for (const agent of record.agents ?? []) depths.set(agent, base.depth + 1);
      bars.push(bar);
    } else if (record.type === "tool_failed") {
      bars.push({ ...base, kind: "failed", name: record.name, detail: `attempt ${record.attempt}: ${messageOf(record.value)}`, facts: [] });
    } else if (record.type === "tool_result") {
      const open = calls.get(record.tool_call_id);
      const bar = open ?? { ...base, name: record.name, facts: [] };
      if (!open) bars.push(bar);
      Object.assign(bar, { end, isOpen: false, kind: record.status === "done" ? "tool" : "failed", detail: record.status === "done" ? record.value?.summary ?? "" : messageOf(record.value) });
    } else if (record.type === "approval_requested") {
      const bar = { ...base, begin: end, kind: "wait", name: record.name, detail: "waits for a person", facts: [], isOpen: true };
      asks.set(record.tool_call_id, bar);
      bars.push(bar);
    } else if (record.type === "approval_decided" || record.type === "final" || record.type === "run_failed") {
      for (const [id, bar] of asks) {
        if (record.tool_call_id !== undefined && id !== record.tool_call_id) continue;
        Object.assign(bar, { end, isOpen: false, detail: record.decision ? `${record.decision === "approve" ? "approved" : record.decision === "deny" ? "denied" : record.decision} by a person` : "not decided" });
        asks.delete(id);
      }
    }
  }
  const last = records.length ? time(records.at(-1)) : 0;
  for (const bar of bars) if (bar.isOpen) bar.end = last;
  return bars.sort((a, b) => a.begin - b.begin || a.seq - b.seq);
}

/** Maps times to places from 0 to 1. What a run waits for people takes a twelfth at the most: it would leave no room. */
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

/** Lays the waterfall out. `choose` is told the record of a bar that somebody wants to see. */
export function waterfall(records, { choose, shown = MOST_BARS }) {
  const all = barsOf(records);
  if (all.length === 0) return el("p", { class: "empty", text: "Neither a model nor a tool was called." });
  const scale = scaleOf(records, all);
  const rows = all.slice(0, shown).map((bar) => row(bar, scale, choose));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const tick = el("span", { text: duration(scale.whole * part) });
    tick.style.left = `${part * 100}%`;
    return tick;
  });
  return el("div", { class: "waterfall", role: "list", "aria-label": "Model calls and tools in time" },
    el("div", { class: "axis", "aria-hidden": "true" }, el("span"), el("div", { class: "ticks" }, ticks), el("span", { class: "bar-facts", text: scale.isCut ? "waiting shortened" : "" })), rows);
}

function row(bar, scale, choose) {
  const fill = el("span", { class: `bar ${bar.kind} ${bar.isOpen ? "open" : ""}` });
  const [from, to] = [scale.place(bar.begin), scale.place(bar.end)];
  fill.style.left = `${from * 100}%`;
  fill.style.width = `${Math.max(0.3, (to - from) * 100)}%`;
  if (bar.first) {
    const first = el("span", { class: "first" });
    first.style.width = `${Math.min(100, (bar.first / Math.max(1, bar.end - bar.begin)) * 100)}%`;
    fill.append(first);
  }
  const name = el("span", { class: "bar-name" }, el("i", { class: `swatch ${bar.kind}` }), appendVisible(el("span"), bar.name), appendVisible(el("span", { class: "bar-detail" }), bar.detail));
  name.style.paddingInlineStart = `${bar.depth * 1.1}rem`;
  const facts = [duration(bar.end - bar.begin), ...bar.facts].filter(Boolean).join(" · ");
  return el("div", { role: "listitem" }, el("button", { type: "button", class: "bar-row", title: bar.detail, on: { click: () => choose(bar.seq) } }, name, el("span", { class: "track" }, fill), el("span", { class: "bar-facts", text: facts })));
}
