// Totals of runs: overall, and by day, owner, model, role, tool and agent, each with a bar.

import { get, path } from "./api.js";
import { alertLine, announce, appendVisible, el, factList, fill, loading, pageOf } from "./dom.js";
import { costOf, duration, tokensOf } from "./format.js";

/** The selectable periods, in days; 0 for all time. */
const SPANS = [[7, "7 days"], [30, "30 days"], [90, "90 days"], [0, "All time"]];

const TABLES = [["days", "Day", "Runs"], ["owners", "Owner", "Runs"], ["models", "Model", "Calls"], ["roles", "Role", "Calls"], ["tools", "Tool", "Calls"], ["agents", "Agent", "Times"]];

const DAY = 86_400_000;

export class StatsPage {
  constructor() {
    this.title = "Statistics";
    this.span = el("select", { class: "field", "aria-label": "Time", on: { change: () => this.choose() } }, SPANS.map(([days, text]) => el("option", { value: String(days), text, selected: days === 30 })));
    this.body = el("div", { class: "stats" });
    this.node = pageOf(this.title, el("div", { class: "wide-column" }, el("div", { class: "stats-head" }, el("h1", { text: "Statistics" }), this.span), this.body));
  }

  open() {
    fill(this.body, loading());
    return this.load();
  }

  /** Shows the selected period, and announces it. */
  async choose() {
    const stats = await this.load();
    if (stats) announce(`Statistics: ${this.span.selectedOptions[0].text}${stats.total.runs ? "" : ", no runs"}`);
  }

  /** Loads what is shown, and returns it, or undefined if that failed or is no longer needed. */
  async load() {
    const days = Number(this.span.value);
    const since = days ? path`?since=${new Date(Date.now() - days * DAY).toISOString()}` : "";
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const stats = await get(`/stats${since}`);
      // A later choice may have been answered first.
      if (asked !== this.asked) return undefined;
      fill(this.body, ...shown(stats));
      return stats;
    } catch (problem) {
      if (asked === this.asked) fill(this.body, alertLine(problem.message));
    }
    return undefined;
  }

  close() {
    this.asked = undefined;
  }
}

function shown(stats) {
  const { total } = stats;
  if (!total.runs) return [el("p", { class: "empty", text: "No runs in this period." })];
  const facts = [["Runs", total.runs.toLocaleString("en")], ["Failed", total.failures.toLocaleString("en")], ["Model calls", total.calls.toLocaleString("en")], ["Tokens", tokensOf(total.usage, "total_tokens")], ["Cost", cost(total) || "unknown"], ["Median", duration(total.latency.p50_ms)], ["95th percentile", duration(total.latency.p95_ms)]];
  // A user who sees nobody else's runs needs no table of owners.
  const tables = TABLES.filter(([kind]) => stats[kind].length > (kind === "owners" ? 1 : 0)).map(([kind, name, unit]) => table(name, unit, kind === "days" ? [...stats[kind]].reverse() : stats[kind], kind));
  return [factList(facts, "big"), ...tables];
}

function table(name, unit, rows, kind) {
  const heads = [name, unit, "Failed", "Tokens", "Cost", "Median", "95th percentile", ""];
  const size = measure(rows, kind);
  const largest = Math.max(1, ...rows.map(size));
  const body = rows.map((row) => el("tr", {},
    appendVisible(el("th", { scope: "row", title: row.name }), row.name),
    el("td", { class: "right", text: count(row, kind).toLocaleString("en") }),
    el("td", { class: `right ${row.failures ? "" : "none"}`, text: row.failures.toLocaleString("en") }),
    ...[kind === "tools" ? "" : tokensOf(row.usage, "total_tokens"), cost(row), duration(row.latency.p50_ms), duration(row.latency.p95_ms)].map((text) => el("td", { class: "right", text })),
    el("td", { class: "stats-bar", "aria-hidden": "true" }, barOf(size(row) / largest, row.failures / count(row, kind)))));
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": `By ${name.toLowerCase()}` }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, at) => head ? el("th", { scope: "col", text: head, class: at > 0 ? "right" : undefined }) : el("td")))), el("tbody", {}, body)));
}

/** What the bars of a table show: cost if any is known, else tokens, else counts. */
function measure(rows, kind) {
  if (kind !== "tools" && rows.some((row) => row.cost_micro_usd)) return (row) => row.cost_micro_usd;
  if (kind !== "tools" && rows.some((row) => row.usage.total_tokens)) return (row) => row.usage.total_tokens;
  return (row) => count(row, kind);
}

function count(row, kind) {
  return kind === "days" || kind === "owners" ? row.runs : row.calls;
}

/** A bar of the given length, of which a part is red. */
function barOf(part, failed) {
  const red = failed > 0 && el("i");
  if (red) red.style.width = `${failed * 100}%`;
  const bar = el("span", {}, red);
  bar.style.width = `${part ? Math.max(1, part * 100) : 0}%`;
  return bar;
}

function cost(row) {
  return row.cost_micro_usd ? costOf(row) : "";
}
