// The list of sessions at the side: newest first, searchable by title or by the beginning of an id, deleted after confirmation.

import { get, path, remove } from "./api.js";
import { alertLine, announce, appendInOrder, button, el, fill, icon, isSeen, loading, openDialog, passFocus, submitOnce } from "./dom.js";
import { clock, day, folded, oneLine } from "./format.js";

const PAGE = 40;

/** How many of the newest runs are read for the states and titles of sessions, and how many of them in the frequent updates of the list. */
const NEWEST = 300;
const FEW = 40;

/** How many pages of open questions are searched for older runs. */
const MOST_PAGES = 4;

/** How long typing must pause before the result is announced, in milliseconds. */
const PAUSE = 500;

/** How long the list waits before updating while a run is in progress, in milliseconds. */
const AGAIN = 5_000;

/** How long it waits while runs only wait for a decision, which may be made elsewhere, in milliseconds. */
const AGAIN_WAITING = 15_000;

/** Why a session cannot be deleted yet. */
const AT_WORK = "A run is in progress or waiting. Open the session and press Stop, or delete it once the run has ended.";

/** Whether the state of a run may change soon. */
const isActive = (state) => state === "running" || state === "waiting";

/** Returns the first run of a session, if it has any: lists start with the newest. */
async function firstRun(session, asks) {
  let page = { runs: [] };
  do page = await get(path`/runs?limit=999&session=${session}` + (page.next ? path`&after=${page.next}` : ""), { asks });
  while (page.next);
  return page.runs.at(-1);
}

/** Returns the sessions of the runs that wait for a decision, the oldest run first, and whether there may be more. */
async function awaited(asks) {
  const found = new Map();
  let page = { approvals: [] };
  for (let pages = 0; pages < MOST_PAGES && (pages === 0 || page.next); pages += 1) {
    page = await get(page.next ? path`/approvals?after=${page.next}` : "/approvals", { asks });
    for (const { session_id: id, run_id: run } of page.approvals) if (!found.has(id)) found.set(id, { id, run });
  }
  return { waiting: [...found.values()], isMore: Boolean(page.next) };
}

export class SessionList {
  /** `go` opens a session, or without an id a new one. */
  constructor({ go }) {
    this.go = go;
    this.sessions = [];
    this.titles = new Map();
    this.states = new Map();
    /** The sessions that wait for input, loaded or not; those of them whose runs are not among the newest; and whether there may be more
     *  of these. */
    Object.assign(this, { awaiting: [], olderAwaiting: [], isMoreAwaiting: false });
    /** The server's results for the search, and the sessions whose first message has been requested. */
    this.found = [];
    this.asked = new Set();
    /** All sessions that the list may show, in order, by id. */
    this.listed = new Map();
    this.search = el("input", { type: "search", class: "field", placeholder: "Search", "aria-label": "Search the loaded sessions by title, and all sessions by the start of their id", on: { input: () => this.find() } });
    this.list = el("div", { class: "session-list" });
    this.more = button({ text: "Show more", className: "quiet small", hidden: true, onClick: () => this.showMore() });
    this.node = el("nav", { class: "sessions", "aria-label": "Sessions" },
      button({ name: "plus", text: "New session", className: "new wide", onClick: () => this.go() }), this.search, this.list, this.more);
  }

  /** Reloads the list after a change, or after the user returned. With `asks: false`, the user is not asked for a key. */
  refresh({ asks = true } = {}) {
    this.lastSearch = undefined;
    this.isWhole = true;
    return this.loadNewest(asks);
  }

  /** Reloads the newest sessions of the list; those loaded after them stay. */
  loadNewest(asks) {
    // A reload that is still queued will show what this one would.
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
    this.isWhole = true;
    await this.afterwards(() => this.load(async () => {
      if (!this.next) return;
      const page = await get(path`/sessions?limit=${PAGE}&after=${this.next}`);
      const known = new Set(this.sessions.map(({ id }) => id));
      this.sessions = [...this.sessions, ...page.sessions.filter(({ id }) => !known.has(id))];
      this.next = page.next;
    }));
    this.isLoadingMore = false;
  }

  /** Runs work after the earlier work has ended, because each changes the list. */
  afterwards(work) {
    this.last = (this.last ?? Promise.resolve()).then(work);
    return this.last;
  }

  async load(work, asks = true) {
    try {
      await work();
      this.failed = undefined;
      // A list without some of the titles is still useful.
      await this.name(asks).catch(() => {});
    } catch (problem) {
      this.failed = problem;
    }
    this.isLoaded = true;
    this.show();
    dispatchEvent(new Event("titles"));
    this.scheduleUpdate();
    this.nameOthers();
  }

  /** Schedules an update while a run is in progress or waits, because it may be one that nothing on this page follows, or if the list
   *  could not be loaded. This continues while the page is hidden, because its title may be visible, and it keeps no connection open for
   *  that. */
  scheduleUpdate() {
    clearTimeout(this.soon);
    const states = new Set(this.states.values());
    if (!states.has("running") && !states.has("waiting") && !this.failed?.isPassing) return;
    this.soon = setTimeout(() => this.loadNewest(false), states.has("running") ? AGAIN : AGAIN_WAITING);
  }

  /** Names sessions by their first message. The newest runs contain it for sessions created after the oldest of these runs. They also
   *  give the state of each session, except for runs that have waited since before. */
  async name(asks) {
    const { runs, next, isPart } = await this.newestRuns(asks);
    const states = new Map();
    for (const { session_id: id, status } of runs) if (!states.has(id)) states.set(id, status);
    // An ended run that is not among the few is still ended.
    if (isPart) for (const [id, state] of this.states) if (!states.has(id) && !isActive(state)) states.set(id, state);
    const since = next ? new Date(runs.at(-1).started_at) : 0;
    if (!isPart) Object.assign(this, { since, seen: new Set() });
    if (next && (!isPart || this.seen.size > 0)) for (const { run_id: run } of runs) this.seen.add(run);
    const newer = new Set(this.sessions.filter((session) => !this.isOlder(session, since)).map(({ id }) => id));
    for (const run of [...runs].reverse()) if (!next || newer.has(run.session_id)) this.call(run.session_id, run.text);
    await this.findWaiting(this.seen, asks).catch(() => {});
    for (const { id } of this.olderAwaiting) if (!states.has(id)) states.set(id, "waiting");
    this.awaiting = [...states].filter(([, state]) => state === "waiting").map(([id]) => ({ id })).reverse();
    this.states = states;
  }

  /** Requests the newest runs: only a few if those cover everything that may have changed since. */
  async newestRuns(asks) {
    const { isWhole } = this;
    this.isWhole = false;
    try {
      const few = isWhole ? undefined : await get(`/runs?limit=${FEW}`, { asks });
      const covered = new Set([...(few?.runs ?? []), ...this.olderAwaiting].map(({ session_id: session, id }) => session ?? id));
      const isEnough = few && (!few.next || [...this.states].every(([id, state]) => !isActive(state) || covered.has(id)));
      return isEnough ? { ...few, isPart: Boolean(few.next) } : await get(`/runs?limit=${NEWEST}`, { asks });
    } catch (problem) {
      this.isWhole ||= isWhole;
      throw problem;
    }
  }

  /** Finds waiting runs beyond the newest. This is slower for the server, so it is done no more often than while runs only wait. */
  async findWaiting(newest, asks) {
    if (newest.size === 0) Object.assign(this, { olderAwaiting: [], isMoreAwaiting: false });
    if (newest.size === 0 || performance.now() - this.lastSearch < AGAIN_WAITING) return;
    this.lastSearch = performance.now();
    const { waiting, isMore } = await awaited(asks);
    this.olderAwaiting = waiting.filter(({ run }) => !newest.has(run)).reverse();
    this.isMoreAwaiting = isMore;
  }

  /** Whether the newest runs may lack the title of a session. */
  isOlder({ created_at: at }, since = this.since) {
    return !at || new Date(at) < since;
  }

  /** Names the other sessions one by one while the page is visible: each costs a request. */
  async nameOthers() {
    if (this.isNaming) return;
    this.isNaming = true;
    for (let next = this.unnamed; next && !document.hidden; next = this.unnamed) {
      const first = await firstRun(next.id, false).catch((problem) => problem);
      // A session deleted meanwhile must not prevent the others from being named.
      if (first instanceof Error && first.status !== 404) break;
      this.asked.add(next.id);
      this.call(next.id, first?.text);
      this.rename(next.id);
    }
    this.isNaming = false;
    dispatchEvent(new Event("titles"));
  }

  /** The next session in the list that has no title and whose first message has not been requested. */
  get unnamed() {
    return [...this.listed.values()].find((session) => this.isOlder(session) && !this.titles.has(session.id) && !this.asked.has(session.id));
  }

  /** Shows a session's title without changing the others, one of which may be being pressed. */
  rename(id) {
    const old = this.list.querySelector(`li[data-id="${CSS.escape(id)}"]`);
    if (!old || this.search.value.trim() || old.contains(document.activeElement)) this.show();
    else old.replaceWith(this.entry(this.listed.get(id)));
  }

  /** Sets a session's title to its first message, unless it has a title or the message has no visible characters. */
  call(id, text) {
    const title = oneLine(text ?? "", 80);
    if (isSeen(title) && !this.titles.has(id)) this.titles.set(id, title);
  }

  async find() {
    const prefix = this.search.value.trim();
    const search = (this.newest = {});
    clearTimeout(this.telling);
    this.show();
    if (!prefix) return;
    const page = await get(path`/sessions?limit=20&prefix=${prefix}`).catch(() => ({ sessions: [] }));
    if (search !== this.newest) return;
    this.found = page.sessions;
    this.show();
    this.telling = setTimeout(() => announce(this.wordsOfFound), PAUSE);
    this.nameOthers();
  }

  get wordsOfFound() {
    const count = this.list.querySelectorAll("li").length;
    return count === 0 ? this.list.textContent : `${count} ${count === 1 ? "session" : "sessions"}`;
  }

  show() {
    const words = folded(this.search.value.trim());
    const fits = ({ id }) => folded(id).startsWith(words) || folded(this.titles.get(id) ?? "").includes(words);
    const known = new Set(this.sessions.map(({ id }) => id));
    // A session found by the search also has its creation time.
    const others = [...(words ? this.found : []), ...this.awaiting].filter(({ id }) => !known.has(id) && known.add(id));
    const all = [...this.sessions, ...others];
    const waits = ({ id }) => this.states.get(id) === "waiting";
    const sorted = [...all.filter(waits), ...all.filter((session) => !waits(session))];
    this.listed = new Map(sorted.map((session) => [session.id, session]));
    this.count(all.filter(waits).length);
    const shown = words ? sorted.filter(fits) : sorted;
    if (!this.next) passFocus(this.more, [...this.list.querySelectorAll("a")].at(-1) ?? this.search);
    this.more.hidden = !this.next;
    if (!this.isLoaded) return fill(this.list, loading());
    const problem = this.failed && el("p", { class: "line-note error", text: this.failed.message });
    if (this.failed && this.sessions.length === 0) return fill(this.list, problem);
    if (shown.length === 0) return fill(this.list, el("p", { class: "empty", text: words ? "No loaded session has a matching title, and no session id starts with this text." : "No sessions yet." }));
    const groupOf = (session) => (waits(session) ? this.awaitedName : day(session.created_at));
    const groups = Map.groupBy ? Map.groupBy(shown, groupOf) : new Map([["Sessions", shown]]);
    // An unchanged list stays, because an entry may be being pressed or have the focus.
    const drawn = JSON.stringify([this.failed?.message, [...groups].map(([name, sessions]) => [name, sessions.map(({ id }) => [id, this.titles.get(id), this.states.get(id), id === this.current])])]);
    if (drawn === this.drawn && this.list.querySelector("section")) return undefined;
    this.drawn = drawn;
    const { activeElement } = document;
    const focused = this.list.contains(activeElement) ? [activeElement.closest("li").dataset.id, activeElement.tagName] : undefined;
    fill(this.list, problem, [...groups].map(([name, sessions]) => el("section", {}, el("h2", { text: name }), el("ul", {}, sessions.map((session) => this.entry(session))))));
    if (focused) this.list.querySelector(`li[data-id="${CSS.escape(focused[0])}"] ${focused[1]}`)?.focus({ preventScroll: true });
    return undefined;
  }

  /** Shows how many sessions wait for input: above them, and on the button that opens the list on narrow windows. */
  count(waiting) {
    const count = waiting && `${waiting}${this.isMoreAwaiting ? "+" : ""}`;
    this.awaitedName = `Waiting for you · ${count}`;
    const sign = document.getElementById("waiting");
    sign.hidden = !count;
    sign.textContent = count || "";
    sign.parentElement.setAttribute("aria-label", `Open the list of sessions${count ? `; ${count} of them ${count === "1" ? "waits" : "wait"} for input` : ""}`);
  }

  entry({ id, created_at: at }) {
    const title = this.titles.get(id) || id;
    const state = this.states.get(id);
    const sign = state === "waiting" ? el("span", { class: "tag warn", text: "waiting" }) : state === "running" ? [icon("spinner", "spins"), el("span", { class: "hidden", text: "running" })] : null;
    const name = el("a", { href: path`#/sessions/${id}`, "aria-current": id === this.current ? "page" : undefined, title: `${title}\n${id}${at ? `, ${clock(at)}` : ""}` }, appendInOrder(el("span", { class: "title" }), title), sign);
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
      appendInOrder(el("p", { class: "quoted" }), title), el("p", { text: "Its messages and runs are permanently deleted." }), line,
      el("div", { class: "row end" },
        button({ text: "Keep it", className: "quiet", autofocus: true, onClick: () => dialog.close() }),
        el("button", { class: "button danger" }, icon("bin"), el("span", { text: "Delete" }))));
    submitOnce(form, line, async () => {
      await remove(path`/sessions/${id}`).catch((problem) => { throw problem.kind === "session-busy" && problem.document.run_id ? new Error(AT_WORK) : problem; });
      dialog.close();
      announce("Deleted");
      for (const list of ["sessions", "found", "awaiting", "olderAwaiting"]) this[list] = this[list].filter((session) => session.id !== id);
      if (id === this.current) this.go();
      this.show();
    });
    const at = [...this.list.querySelectorAll("li")].findIndex((entry) => entry.dataset.id === id);
    const dialog = openDialog("delete", "Delete this session?", form);
    // The entry from which the dialog was opened may have been removed or recreated.
    dialog.addEventListener("close", () => {
      if (document.activeElement !== document.body) return;
      const entries = [...this.list.querySelectorAll("li")];
      const button = entries.find((entry) => entry.dataset.id === id)?.querySelector("button");
      (button ?? (entries[at] ?? entries.at(-1))?.querySelector("a") ?? this.search).focus();
    });
  }
}
