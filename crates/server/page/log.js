// The records of a run as a list: filtered by kind, agent and words, each expandable to its JSON.

import { announce, appendVisible, button, codeBox, el, passFocus } from "./dom.js";
import { oneLine, partsOf, pretty, reasonOf, textOf } from "./format.js";
import { messageOf } from "./tool.js";

/** How many rows are rendered at a time. */
const PORTION = 200;

export class EventLog {
  constructor() {
    this.records = [];
    this.shown = PORTION;
    this.kind = el("select", { class: "field", "aria-label": "Kind", on: { change: () => this.find() } });
    this.agent = el("select", { class: "field", "aria-label": "Agent", on: { change: () => this.find() } });
    this.words = el("input", { type: "search", class: "field", placeholder: "Search the records", "aria-label": "Search the records", on: { input: () => this.soon() } });
    this.count = el("span", { class: "hint" });
    this.list = el("ol", { class: "log" });
    /** The rendered rows, by record number. */
    this.rows = new Map();
    this.none = el("p", { class: "empty", hidden: true });
    this.more = button({ text: "Show more", className: "small", onClick: () => { this.shown += PORTION; this.show(); } });
    this.node = el("div", {}, el("div", { class: "row wrap filters" }, this.kind, this.agent, this.words, this.count), this.list, this.none, this.more);
  }

  set(records) {
    this.records = records;
    offer(this.kind, "All kinds", records.map((record) => record.type));
    offer(this.agent, "All agents", records.map((record) => record.agent));
    this.show();
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.find(), 150);
  }

  /** Shows the matching records and announces their number. If only the number of a run in progress changes, nothing is announced. */
  find() {
    this.show();
    announce(this.count.textContent);
  }

  /** Shows one record among the others. */
  reveal(seq) {
    this.kind.value = "";
    this.agent.value = "";
    this.words.value = "";
    const at = this.records.findIndex((record) => record.seq === seq);
    this.shown = Math.max(this.shown, at + 20);
    this.show();
    const row = this.list.children[at];
    if (!row) return;
    row.firstChild.open = true;
    row.scrollIntoView({ block: "center" });
    row.firstChild.firstChild.focus();
  }

  show() {
    const words = this.words.value.trim().toLowerCase();
    const fits = (record) => (!this.kind.value || record.type === this.kind.value) && (!this.agent.value || record.agent === this.agent.value) && (!words || JSON.stringify(record).toLowerCase().includes(words));
    const found = this.records.filter(fits);
    this.count.textContent = `${found.length.toLocaleString("en")} of ${this.records.length.toLocaleString("en")} records`;
    this.lay(found.slice(0, this.shown));
    const isAll = found.length <= this.shown;
    if (isAll) passFocus(this.more, this.list.children[this.shown - PORTION]?.querySelector("summary"));
    this.more.hidden = isAll;
    this.none.hidden = found.length > 0;
    this.list.hidden = found.length === 0;
    this.none.textContent = this.records.length ? "No matching records." : "No records yet.";
  }

  /** Renders the rows of these records. Existing rows stay, because the user may be reading them while the run is in progress. */
  lay(records) {
    const rows = new Map(records.map((record) => [record.seq, this.rows.get(record.seq) ?? entry(record)]));
    for (const [seq, row] of this.rows) if (!rows.has(seq)) row.remove();
    let next = this.list.firstChild;
    for (const row of rows.values()) {
      if (row === next) next = next.nextSibling;
      else this.list.insertBefore(row, next);
    }
    this.rows = rows;
  }
}

/** Offers the available values in order. Existing options stay, because the list may be open. */
function offer(field, name, values) {
  if (field.options.length === 0) field.append(el("option", { value: "", text: name }));
  for (const value of new Set(values)) {
    const options = [...field.options];
    if (options.some((option) => option.value === value)) continue;
    field.insertBefore(el("option", { value, text: value.replaceAll("_", " ") }), options.find((option) => option.value > value) ?? null);
  }
}

function entry(record) {
  const body = el("div");
  const time = new Date(record.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
  return el("li", {}, el("details", { on: { toggle: () => body.childNodes.length || body.append(codeBox(pretty(record), { label: `Record ${record.seq}` })) } },
    el("summary", {}, el("span", { class: "seq", text: String(record.seq) }), el("span", { class: "time", text: time }), el("span", { class: "agent-id", text: record.agent }),
      el("code", { class: `kind ${/failed|error/.test(record.type) || record.status === "error" ? "bad" : ""}`, text: record.type }), appendVisible(el("span", { class: "says" }), oneLine(gist(record), 200))), body));
}

/** Summarizes a record in a line, with who sent it if that is on record. */
function gist(record) {
  const by = record.by ? ` (by ${record.by})` : "";
  return `${said(record)}${by}`;
}

function said(record) {
  switch (record.type) {
    case "run_started": return textOf((record.spec?.messages ?? []).at(-1));
    case "decision": return `${record.mode}, ${record.channel}, ${record.role}`;
    case "llm_call": return textOf(record.reply) || partsOf(record.reply, "tool_call").map((part) => part.name).join(", ");
    case "llm_failed": return record.error?.message ?? record.error?.kind ?? "";
    case "verdict": return record.calls.map((call) => `${call.verdict}${call.reason ? `: ${call.reason}` : ""}`).join(" · ");
    case "tool_call": case "approval_requested": return `${record.name} ${record.arguments}`;
    case "tool_result": return `${record.name}: ${record.status === "done" ? record.value?.summary ?? JSON.stringify(record.value) : messageOf(record.value)}`;
    case "tool_failed": return `${record.name}: ${messageOf(record.value)}`;
    case "approval_decided": return `${record.decision}${record.reason ? `: ${record.reason}` : ""}`;
    case "final": case "run_failed": return record.content || reasonOf(record.finish_reason);
    case "steered": return textOf(record.message);
    default: return record.message ?? record.reason ?? record.text ?? "";
  }
}
