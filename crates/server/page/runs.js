// All runs, newest first: what each was about, how it ended, and its usage.

import { get, now, path } from "./api.js";
import { alertLine, appendInOrder, button, el, fill, isSeen, loading, pageOf, passFocus, timeOf } from "./dom.js";
import { withoutTexts } from "./files.js";
import { costOf, duration, reasonOf, tokensOf } from "./format.js";

const PAGE = 50;

const HEADS = ["Message", "Status", "Started", "Took", "Model calls", "Tools", "Tokens", "Cost"];

/** The final states of a run. */
export const ENDED = new Set(["done", "failed", "interrupted"]);

export class RunsPage {
  constructor() {
    this.title = "Runs";
    this.body = el("tbody", { role: "rowgroup" });
    this.notice = el("div");
    this.more = button({ text: "Show more", className: "small", hidden: true, onClick: () => this.load() });
    this.node = pageOf(this.title, el("div", { class: "wide-column" }, el("h1", { text: "Runs" }),
      el("div", { class: "table runs", tabindex: "0", role: "region", "aria-label": "All runs" }, el("table", { role: "table" }, el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, HEADS.map((head, at) => el("th", { scope: "col", role: "columnheader", text: head, class: at > 2 ? "right" : undefined })))), this.body)),
      this.notice, this.more));
  }

  open() {
    fill(this.notice, loading());
    return this.load();
  }

  async load() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const page = await get(this.next ? path`/runs?limit=${PAGE}&after=${this.next}` : path`/runs?limit=${PAGE}`);
      this.next = page.next;
      const rows = page.runs.map(row);
      this.body.append(...rows);
      if (!page.next) passFocus(this.more, rows[0]?.querySelector("a"));
      this.more.hidden = !page.next;
      fill(this.notice, this.body.childNodes.length === 0 && el("p", { class: "empty", text: "No runs yet." }));
    } catch (problem) {
      fill(this.notice, alertLine(problem.message));
    } finally {
      this.isLoading = false;
    }
  }

  close() {}
}

/** A run's status, with the reason if there is one. */
export function statusTag(run) {
  const reason = run.finish_reason && run.finish_reason !== "stop" ? reasonOf(run.finish_reason) : "";
  return el("span", { class: `tag status ${run.status}`, title: reason || undefined }, run.status, reason && el("span", { class: "hidden", text: `, ${reason}` }));
}

/** The time from start to end, or until now for a run in progress. */
function tookOf({ started_at: begun, ended_at: ended, last_at: last, status }) {
  const end = ENDED.has(status) ? ended ?? last : now();
  if (!begun || !end) return "";
  return `${duration(Math.max(0, new Date(end) - new Date(begun)))}${ENDED.has(status) ? "" : "…"}`;
}

function row(run) {
  const text = withoutTexts(run.text) ?? "";
  const used = run.used ?? {};
  const total = used.usage?.total_tokens ?? 0;
  // On a narrow screen a row is a card. This layout removes the roles of a table unless they are set explicitly, and the column headers, so
  // a number is followed by its unit.
  const cell = (text, ...more) => el("td", { role: "cell", class: "right" }, text, more);
  const unit = (count, word) => el("span", { class: "unit", text: ` ${word}${count === 1 ? "" : "s"}` });
  const counted = (count, failed, word) => cell(String(count), unit(count, word), failed ? ` (${failed} failed)` : "");
  return el("tr", { role: "row" },
    el("td", { role: "cell" }, appendInOrder(el("a", { href: path`#/runs/${run.run_id}`, title: text }), isSeen(text) ? text : run.run_id)),
    el("td", { role: "cell" }, statusTag(run)),
    el("td", { role: "cell" }, run.started_at && timeOf(run.started_at)),
    cell(tookOf(run)),
    counted(used.llm_calls ?? 0, used.llm_failures, "model call"),
    counted(used.tool_calls ?? 0, used.tool_errors, "tool"),
    cell(tokensOf(used.usage, "total_tokens"), unit(total, "token")),
    cell(costOf(used)));
}
