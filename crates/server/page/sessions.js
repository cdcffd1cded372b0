// The list of sessions at the side: the newest first, found by title or the beginning of an id, deleted after a question.

import { get, path, remove } from "./api.js";
import { alertLine, announce, appendInOrder, button, el, fill, icon, isSeen, loading, openDialog, submitOnce } from "./dom.js";
import { clock, day, oneLine } from "./format.js";

const PAGE = 40;

/** How many sessions are asked for their first message at a time, one after the other. */
const MOST_ASKED = 8;

/** How long the list waits to look again while a run is at work, in milliseconds. */
const AGAIN = 5_000;

/** How long it waits while runs only wait for somebody, who may decide elsewhere, in milliseconds. */
const AGAIN_WAITING = 15_000;

/** Returns the first run of a session, if it has any: lists begin with the newest. */
async function firstRun(session, asks) {
  let page = { runs: [] };
  do page = await get(path`/runs?limit=999&session=${session}` + (page.next ? path`&after=${page.next}` : ""), { asks });
  while (page.next);
  return page.runs.at(-1);
}

export class SessionList {
  /** `go` opens a session, or a new one without an id. */
  constructor({ go }) {
    this.go = go;
    this.sessions = [];
    this.titles = new Map();
    this.states = new Map();
    /** What the server found for the search, and the sessions that were asked for their first message. */
    this.found = [];
    this.asked = new Set();
    this.search = el("input", { type: "search", class: "field", placeholder: "Search", "aria-label": "Search the sessions that are loaded by title, and all by the beginning of the id", on: { input: () => this.find() } });
    this.list = el("div", { class: "session-list" });
    this.more = button({ text: "Show more", className: "quiet small", hidden: true, onClick: () => this.showMore() });
    this.node = el("nav", { class: "sessions", "aria-label": "Sessions" },
      button({ name: "plus", text: "New session", className: "new wide", onClick: () => this.go() }), this.search, this.list, this.more);
  }

  /** Loads the newest of the list anew; what was loaded behind them stays. `asks: false` asks nobody for a key. */
  refresh({ asks = true } = {}) {
    // One that has yet to begin sees what this one would.
    this.waiting ??= this.afterwards(() => {
      this.waiting = undefined;
      return this.load(async () => {
        const page = await get(`/sessions?limit=${PAGE}`, { asks });
        const newest = new Set(page.sessions.map(({ id }) => id));
        const last = this.sessions.findLastIndex(({ id }) => newest.has(id));
        const behind = page.next && last >= 0 ? this.sessions.slice(last + 1) : [];
        this.sessions = [...page.sessions, ...behind];
        if (behind.length === 0) this.next = page.next;
      }, asks);
    });
    return this.waiting;
  }

  async showMore() {
    if (this.isLoadingMore) return;
    this.isLoadingMore = true;
    await this.afterwards(() => this.load(async () => {
      if (!this.next) return;
      const page = await get(path`/sessions?limit=${PAGE}&after=${this.next}`);
      const known = new Set(this.sessions.map(({ id }) => id));
      this.sessions = [...this.sessions, ...page.sessions.filter(({ id }) => !known.has(id))];
      this.next = page.next;
    }));
    this.isLoadingMore = false;
  }

  /** Does something once what was begun before is over: each changes the list that it finds. */
  afterwards(work) {
    this.last = (this.last ?? Promise.resolve()).then(work);
    return this.last;
  }

  async load(work, asks = true) {
    try {
      await work();
      this.failed = undefined;
      // A list without some names is still a list.
      await this.name(asks).catch(() => {});
    } catch (problem) {
      this.failed = problem;
    }
    this.isLoaded = true;
    this.show();
    dispatchEvent(new Event("titles"));
    this.lookAgain();
  }

  /** Looks again before long while a run is at work or waits: it may be one that nothing on this page follows. It does so where
   *  nobody sees the page, too, whose title may be seen, and for which this keeps no connection. */
  lookAgain() {
    clearTimeout(this.soon);
    const states = new Set(this.states.values());
    if (!states.has("running") && !states.has("waiting")) return;
    this.soon = setTimeout(() => this.refresh({ asks: false }), states.has("running") ? AGAIN : AGAIN_WAITING);
  }

  /** A session is called by its first message, which the newest runs tell of those that were made after the oldest of them. */
  async name(asks) {
    const { runs, next } = await get("/runs?limit=300", { asks });
    this.states.clear();
    for (const run of runs) {
      if (!this.states.has(run.session_id)) this.states.set(run.session_id, run.status);
    }
    const since = next ? new Date(runs.at(-1).started_at) : 0;
    const [newer, older] = [[], []];
    for (const session of this.sessions) (new Date(session.created_at) < since ? older : newer).push(session.id);
    for (const run of [...runs].reverse()) if (!next || newer.includes(run.session_id)) this.call(run.session_id, run.text);
    const unnamed = older.filter((id) => !this.titles.has(id) && !this.asked.has(id));
    for (const id of unnamed.slice(0, MOST_ASKED)) {
      const first = await firstRun(id, asks);
      this.asked.add(id);
      this.call(id, first?.text);
    }
  }

  /** Calls a session by its first message, unless it is called something, or nothing of it could be seen. */
  call(id, text) {
    const title = oneLine(text ?? "", 80);
    if (isSeen(title) && !this.titles.has(id)) this.titles.set(id, title);
  }

  async find() {
    const prefix = this.search.value.trim();
    const search = (this.newest = {});
    this.show();
    if (!prefix) return;
    const page = await get(path`/sessions?limit=20&prefix=${prefix}`).catch(() => ({ sessions: [] }));
    if (search !== this.newest) return;
    this.found = page.sessions;
    this.show();
  }

  show() {
    const words = this.search.value.trim().toLowerCase();
    const fits = ({ id }) => id.toLowerCase().startsWith(words) || this.titles.get(id)?.toLowerCase().includes(words);
    const known = new Set(this.sessions.map(({ id }) => id));
    const shown = words ? [...this.sessions, ...this.found.filter(({ id }) => !known.has(id))].filter(fits) : this.sessions;
    this.more.hidden = !this.next;
    if (!this.isLoaded) return fill(this.list, loading());
    const problem = this.failed && el("p", { class: "line-note error", text: this.failed.message });
    if (this.failed && this.sessions.length === 0) return fill(this.list, problem);
    if (shown.length === 0) return fill(this.list, el("p", { class: "empty", text: words ? "None of the sessions that are loaded is called so, and no id begins so." : "No sessions yet." }));
    const groups = Map.groupBy ? Map.groupBy(shown, ({ created_at: at }) => day(at)) : new Map([["Sessions", shown]]);
    // What is as it was stays: it may be pressed at this moment, or have the focus.
    const told = JSON.stringify([this.failed?.message, [...groups].map(([name, sessions]) => [name, sessions.map(({ id }) => [id, this.titles.get(id), this.states.get(id), id === this.current])])]);
    if (told === this.told && this.list.querySelector("section")) return undefined;
    this.told = told;
    const { activeElement } = document;
    const focused = this.list.contains(activeElement) ? [activeElement.closest("li").dataset.id, activeElement.tagName] : undefined;
    fill(this.list, problem, [...groups].map(([name, sessions]) => el("section", {}, el("h2", { text: name }), el("ul", {}, sessions.map((session) => this.entry(session))))));
    if (focused) this.list.querySelector(`li[data-id="${CSS.escape(focused[0])}"] ${focused[1]}`)?.focus({ preventScroll: true });
    return undefined;
  }

  entry({ id, created_at: at }) {
    const title = this.titles.get(id) || id;
    const state = this.states.get(id);
    const sign = state === "waiting" ? el("span", { class: "tag warn", text: "waits" }) : state === "running" ? icon("spinner", "spins") : null;
    const name = el("a", { href: path`#/sessions/${id}`, "aria-current": id === this.current ? "page" : undefined, title: `${title}\n${id}, ${clock(at)}` }, appendInOrder(el("span", { class: "title" }), title), sign);
    const bin = button({ name: "bin", label: `Delete ${title}`, className: "quiet small", onClick: () => this.ask(id, title) });
    return el("li", { class: id === this.current ? "current" : "", data: { id } }, name, bin);
  }

  select(id) {
    this.current = id;
    this.show();
  }

  ask(id, title) {
    const line = alertLine();
    const form = el("form", { class: "stack" },
      appendInOrder(el("p", { class: "quoted" }), title), el("p", { text: "Its messages and runs are removed for good." }), line,
      el("div", { class: "row end" },
        button({ text: "Keep it", className: "quiet", autofocus: true, onClick: () => dialog.close() }),
        el("button", { class: "button danger" }, icon("bin"), el("span", { text: "Delete" }))));
    submitOnce(form, line, async () => {
      await remove(path`/sessions/${id}`);
      dialog.close();
      announce("Deleted");
      for (const list of ["sessions", "found"]) this[list] = this[list].filter((session) => session.id !== id);
      if (id === this.current) this.go();
      this.show();
    });
    const dialog = openDialog("delete", "Delete this session?", form);
  }
}
