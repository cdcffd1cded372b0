// One run: the waterfall, the log of its records, and its replay. It grows while the run is in progress.

import { awaitsUser, mayDecide } from "./access.js";
import { get, now, path } from "./api.js";
import { appendInOrder, button, el, factList, failure, fill, inOrder, isSeen, loading, pageOf } from "./dom.js";
import { shownDecision } from "./choices.js";
import { detailOf } from "./detail.js";
import { saveRecords } from "./export.js";
import { withoutTexts } from "./files.js";
import { clock, costOf, duration, oneLine, reasonOf, tokensOf } from "./format.js";
import { EventLog } from "./log.js";
import { Replay } from "./replay.js";
import { ENDED, statusTag } from "./runs.js";
import { Follower } from "./stream.js";
import { MOST_BARS, grow, waterfall } from "./timeline.js";

/** How far the summary above a run in progress may lag behind its records, in milliseconds. */
const BEHIND = 1000;

/** Limits the share of time for drawing while records arrive fast: one part in five. */
const REST = 4;

const TABS = [["timeline", "Waterfall"], ["log", "Events"], ["replay", "Replay"], ["decision", "Decision"]];

export class RunPage {
  constructor(runId) {
    this.runId = runId;
    this.title = "Run";
    this.records = [];
    this.shownBars = MOST_BARS;
    this.folded = new Set();
    this.bars = el("div", { class: "bars" });
    this.aside = el("div", { class: "aside", hidden: true });
    this.tag = el("span");
    this.facts = el("dl");
    this.head = el("header", { class: "run-head" });
    this.notice = el("div");
    this.log = new EventLog();
    this.replay = new Replay();
    this.panels = { timeline: el("div", { class: "panes" }, this.bars, this.aside), log: this.log.node, replay: this.replay.node, decision: el("div", { class: "explained still" }) };
    this.tabs = TABS.map(([name, text]) => el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, text, on: { click: () => this.choose(name), keydown: (event) => this.move(event, name) } }));
    for (const [name, panel] of Object.entries(this.panels)) Object.assign(panel, { id: `panel-${name}` }).setAttribute("role", "tabpanel");
    for (const [name, panel] of Object.entries(this.panels)) panel.setAttribute("aria-labelledby", `tab-${name}`);
    /** Hidden until there is a record, because nothing is known about the run before. */
    this.views = el("div", { class: "views", hidden: true }, el("div", { class: "tabs", role: "tablist", "aria-label": "Views of the run" }, this.tabs), Object.values(this.panels));
    this.node = pageOf(this.title, el("div", { class: "wide-column" }, this.head, this.notice, this.views));
    this.panels.timeline.addEventListener("keydown", (event) => event.key === "Escape" && this.leave());
    this.rest = 0;
    /** The link to the session, where decisions are made too. */
    this.session = el("a", { class: "button small" });
    this.choose("timeline");
  }

  async open() {
    fill(this.notice, loading());
    await this.summarize();
    // If the page was left meanwhile, nothing would stop the follower.
    if (this.isClosed) return;
    this.follower = new Follower({ runId: this.runId, onEvent: (event) => {
      if (event.seq === undefined) return;
      this.records.push(event);
      if (this.views.hidden) fill(this.notice);
      this.views.hidden = false;
      this.drawing ??= setTimeout(() => this.draw(), this.rest);
      if (!this.isOver) this.soon ??= setTimeout(() => this.summarize({ asks: false }), BEHIND);
    }, onState: (state) => state === "over" && this.summarize() });
    this.tick();
    await this.follower.follow().catch((problem) => this.complain(problem));
  }

  /** Shows the state of the run. With `asks: false`, used for intermediate updates, a failure is ignored until the next update. */
  async summarize({ asks = true } = {}) {
    clearTimeout(this.soon);
    this.soon = undefined;
    const asked = (this.asked = {});
    let run;
    try {
      run = await get(path`/runs/${this.runId}`, { asks });
    } catch (problem) {
      return asks ? this.complain(problem) : undefined;
    }
    // A later request may have been answered first.
    if (asked !== this.asked) return undefined;
    this.isOver = ENDED.has(run.status);
    this.run = run;
    const tag = statusTag(run);
    this.tag.replaceWith(tag);
    this.tag = tag;
    this.showFacts();
    this.name();
    this.session.textContent = awaitsUser(run) && mayDecide() ? "Decide in the session" : "Open the session";
    // The rest stays, because the user may be about to use it.
    if (this.head.hasChildNodes()) return undefined;
    this.session.href = path`#/sessions/${run.session_id}`;
    fill(this.head,
      el("div", { class: "row wrap" }, this.tag, this.session,
        button({ name: "save", text: "Export", label: "Save the records as JSON Lines", className: "quiet small", onClick: () => saveRecords(this.runId, this.records) })),
      appendInOrder(el("h1"), withoutTexts(run.text) || "Run"), el("p", { class: "hint" }, el("code", { text: run.run_id })), this.facts);
    return undefined;
  }

  /** Names the view after the user's message: several runs may be open in tabs. */
  name() {
    const text = oneLine(withoutTexts(this.run.text) ?? "", 80);
    const title = isSeen(text) ? `Run: ${text}` : "Run";
    if (title === this.title) return;
    this.title = title;
    this.node.setAttribute("aria-label", inOrder(title));
    dispatchEvent(new Event("titles"));
  }

  /** Shows the facts about the run. Its duration grows until it ends; its working time stops while it waits. */
  showFacts() {
    const { run } = this;
    const used = run.used ?? {};
    const since = (at) => Math.max(0, now() - new Date(at));
    const works = run.status === "running" && run.last_at ? since(run.last_at) : 0;
    const facts = factList([
      ["Started", run.started_at && clock(run.started_at)],
      ["Took", run.started_at && duration(this.isOver ? new Date(run.ended_at ?? run.last_at) - new Date(run.started_at) : since(run.started_at))],
      ["Worked", duration(used.worked_ms === undefined ? undefined : used.worked_ms + works)],
      ["Model calls", `${used.llm_calls ?? 0}${used.llm_failures ? ` + ${used.llm_failures} failed` : ""}`],
      ["Tool calls", `${used.tool_calls ?? 0}${used.tool_errors ? `, ${used.tool_errors} failed` : ""}`],
      ["Tokens", `${tokensOf(used.usage, "prompt_tokens")} → ${tokensOf(used.usage, "completion_tokens")}`],
      ["Cost", costOf(used) || "unknown"],
      ["Ended", run.finish_reason && run.finish_reason !== "stop" ? reasonOf(run.finish_reason) : undefined],
    ], "big");
    // Unchanged facts stay, because the user may be copying them.
    const [shown, known] = [[...this.facts.children], [...facts.children]];
    if (shown.length === known.length) known.forEach((fact, at) => fact.textContent === shown[at].textContent || shown[at].replaceWith(fact));
    else {
      this.facts.replaceWith(facts);
      this.facts = facts;
    }
  }

  /** Updates the growing values each second, until the run ends. */
  tick() {
    if (this.isClosed || this.isOver) return;
    this.ticks = setTimeout(() => this.tick(), 1000);
    if (document.hidden || !this.run) return;
    this.showFacts();
    if (this.chosen === "timeline" && this.records.length > 0) grow(this.bars, this.records, now());
  }

  /** Draws new records. For a fast and long run, drawing each record would be too much: the longer it takes, the less often it is done. */
  draw() {
    const began = performance.now();
    this.show();
    this.rest = (performance.now() - began) * REST;
    this.drawing = undefined;
  }

  complain(problem) {
    fill(this.notice, failure(problem));
  }

  show() {
    if (this.chosen === "timeline") this.showBars();
    if (this.chosen === "log") this.log.set(this.records);
    if (this.chosen === "replay") this.replay.set(this.records);
    if (this.chosen === "decision") {
      const decision = this.records.find((record) => record.type === "decision");
      fill(this.panels.decision, decision ? shownDecision(decision) : el("p", { class: "empty", text: "No policy decision governed this run." }));
    }
  }

  showBars() {
    const more = this.records.length && this.shownBars < this.records.length;
    const hadFocus = this.bars.contains(document.activeElement) ? document.activeElement : undefined;
    fill(this.bars, waterfall(this.records, {
      choose: (seq) => this.inspect(seq === this.inspected ? undefined : seq),
      fold: (seq) => {
        if (!this.folded.delete(seq)) this.folded.add(seq);
        this.showBars();
      },
      chosen: this.inspected, folded: this.folded, shown: this.shownBars, now: this.isOver === false ? now() : undefined,
    }), more && button({ text: "Show all", className: "small", onClick: () => this.showAll() }));
    // The focused element was recreated.
    const row = hadFocus?.closest("[role=listitem]")?.querySelector(".bar-row")?.dataset.seq;
    if (row) this.bars.querySelector(`.bar-row[data-seq="${row}"]`)?.closest("[role=listitem]").querySelector(hadFocus.classList.contains("fold") ? ".fold" : ".bar-row")?.focus();
  }

  showAll() {
    const { length } = this.bars.querySelectorAll(".bar-row");
    this.shownBars = this.records.length;
    this.show();
    this.bars.querySelectorAll(".bar-row")[length]?.focus({ preventScroll: true });
  }

  /** Shows the details of a bar beside the bars. */
  inspect(seq) {
    this.inspected = seq;
    const detail = seq === undefined ? undefined : detailOf(this.records, seq, {
      close: () => this.leave(),
      reveal: (at) => { this.choose("log"); this.log.reveal(at); },
    });
    fill(this.aside, detail);
    this.aside.hidden = !detail;
    this.panels.timeline.classList.toggle("open", Boolean(detail));
    this.showBars();
    this.bars.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest" });
    detail?.focus({ preventScroll: true });
  }

  /** Closes the details beside the bars. */
  leave() {
    const seq = this.inspected;
    if (seq === undefined) return;
    this.inspect(undefined);
    this.bars.querySelector(`.bar-row[data-seq="${seq}"]`)?.focus();
  }

  choose(name) {
    this.chosen = name;
    this.replay.pause();
    this.tabs.forEach((tab, at) => {
      const is = TABS[at][0] === name;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
      this.panels[TABS[at][0]].hidden = !is;
    });
    this.show();
  }

  move(event, name) {
    // With these the browser goes back, for example.
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const at = TABS.findIndex(([it]) => it === name);
    const next = { ArrowRight: (at + 1) % TABS.length, ArrowLeft: (at + TABS.length - 1) % TABS.length, Home: 0, End: TABS.length - 1 }[event.key];
    if (next === undefined) return;
    // Home and End would scroll.
    event.preventDefault();
    this.choose(TABS[next][0]);
    this.tabs[next].focus();
  }

  close() {
    this.isClosed = true;
    for (const timer of [this.soon, this.ticks, this.drawing]) clearTimeout(timer);
    this.follower?.stop();
    this.replay.pause();
  }
}
