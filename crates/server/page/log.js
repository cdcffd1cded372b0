// The records of a run as a list: filtered by kind, agent and words, each unfolded to its JSON.

import { appendVisible, button, codeBox, el, fill } from "./dom.js";
import { oneLine, pretty, reasonOf, textOf } from "./format.js";
import { messageOf } from "./tool.js";

/** How many rows are laid out at a time. */
const PORTION = 200;

export class EventLog {
  constructor() {
    this.records = [];
    this.shown = PORTION;
    this.kind = el("select", { class: "field", "aria-label": "Kind", on: { change: () => this.show() } });
    this.agent = el("select", { class: "field", "aria-label": "Agent", on: { change: () => this.show() } });
    this.words = el("input", { type: "search", class: "field", placeholder: "Search the records", "aria-label": "Search the records", on: { input: () => this.soon() } });
    this.count = el("span", { class: "hint", role: "status" });
    this.list = el("ol", { class: "log" });
    this.more = button({ text: "Show more", className: "small", onClick: () => { this.shown += PORTION; this.show(); } });
    this.node = el("div", {}, el("div", { class: "row wrap filters" }, this.kind, this.agent, this.words, this.count), this.list, this.more);
  }

  set(records) {
    this.records = records;
    const options = (field, name, values) => {
      const before = field.value;
      fill(field, el("option", { value: "", text: name }), [...new Set(values)].sort().map((value) => el("option", { value, text: value.replaceAll("_", " ") })));
      field.value = before;
      if (field.selectedIndex < 0) field.value = "";
    };
    options(this.kind, "Every kind", records.map((record) => record.type));
    options(this.agent, "Every agent", records.map((record) => record.agent));
    this.show();
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.show(), 150);
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
    fill(this.list, found.slice(0, this.shown).map(entry));
    this.more.hidden = found.length <= this.shown;
    if (found.length === 0) fill(this.list, el("li", { class: "empty", text: this.records.length ? "No record is like that." : "Nothing is recorded yet." }));
  }
}

function entry(record) {
  const body = el("div");
  const time = new Date(record.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
  return el("li", {}, el("details", { on: { toggle: () => body.childNodes.length || body.append(codeBox(pretty(record), { label: `Record ${record.seq}` })) } },
    el("summary", {}, el("span", { class: "seq", text: String(record.seq) }), el("span", { class: "time", text: time }), el("span", { class: "agent-id", text: record.agent }),
      el("code", { class: `kind ${/failed|error/.test(record.type) || record.status === "error" ? "bad" : ""}`, text: record.type }), appendVisible(el("span", { class: "says" }), oneLine(gist(record), 200))), body));
}

/** What a record says in a line. */
function gist(record) {
  switch (record.type) {
    case "run_started": return textOf((record.spec?.messages ?? []).at(-1));
    case "decision": return `${record.mode}, ${record.channel}, ${record.role}`;
    case "llm_call": return textOf(record.reply ?? {}) || (record.reply?.parts ?? []).filter((part) => part.type === "tool_call").map((part) => part.name).join(", ");
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
