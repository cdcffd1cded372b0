// The list of sessions at the side: most recently used first, searched, renamed, and deleted after confirmation.

import { get, patch, path } from "./api.js";
import { announce, appendInOrder, button, el, fill, icon, inOrder, isComposing, isSeen, loading, passFocus } from "./dom.js";
import { clock, day, folded, lastUsed, oneLine } from "./format.js";
import { MOST as MOST_SEARCHED, Search } from "./search.js";
import { askForTitle, askToDelete } from "./session.js";

const PAGE = 40;

/** How many sessions are reloaded at once, in whole pages. */
const MOST = 24 * PAGE;

/** How many pages of open questions are searched for sessions that are not loaded. */
const MOST_PAGES = 4;

/** How long the list waits before updating while a run is in progress, in milliseconds. */
const AGAIN = 5_000;

/** How long it waits while runs only wait for a decision, which may be made elsewhere, in milliseconds. */
const AGAIN_WAITING = 15_000;

/** Returns the state of a session's last run, if it has any. */
const stateOf = (session) => session.last_run?.status;

/** Whether a session waits for input. */
const waits = (session) => stateOf(session) === "waiting";

/** The link and the buttons of an entry, in order. */
const controlsOf = (entry) => [...(entry?.querySelectorAll("a, button") ?? [])];

/** Returns a session as lists show it, or undefined if there is none. */
async function listed(id, asks) {
  let page = {};
  do {
    page = await get(path`/sessions?limit=${PAGE}&prefix=${id}` + (page.next ? path`&after=${page.next}` : ""), { asks });
    const found = page.sessions.find((session) => session.id === id);
    if (found) return found;
  } while (page.next);
  return undefined;
}

/** Returns the ids of the sessions that wait for a decision, the oldest run first, and whether there may be more. */
async function awaited(asks) {
  const found = new Set();
  let page = { approvals: [] };
  for (let pages = 0; pages < MOST_PAGES && (pages === 0 || page.next); pages += 1) {
    page = await get(page.next ? path`/approvals?after=${page.next}` : "/approvals", { asks });
    for (const { session_id: id } of page.approvals) found.add(id);
  }
  return { ids: [...found], isMore: Boolean(page.next) };
}

export class SessionList {
  /** `go` opens a session, or without an id a new one. */
  constructor({ go }) {
    this.go = go;
    this.sessions = [];
    /** Of the sessions that are not loaded: those that wait for a decision, whether there may be more of them, and the one that is open. */
    Object.assign(this, { awaiting: [], isMoreAwaiting: false, open: undefined });
    /** What was written here in a new session, before the server has it, and the titles that are being saved, by session. */
    Object.assign(this, { begun: new Map(), titles: new Map() });
    /** The last known state of each session. */
    this.states = new Map();
    this.results = new Search(() => this.showFound());
    this.search = el("input", { type: "search", class: "field", placeholder: "Search titles and messages", maxlength: String(MOST_SEARCHED), "aria-label": "Search all sessions by title, by your messages, or by the start of their id", on: { input: () => this.find(), keydown: (event) => this.clearBy(event) } });
    this.list = el("div", { class: "session-list" });
    this.more = button({ text: "Show more", className: "quiet small", hidden: true, onClick: () => (this.results.text ? this.results.more() : this.showMore()) });
    this.node = el("nav", { class: "sessions", "aria-label": "Sessions" },
      button({ name: "plus", text: "New session", className: "new wide", onClick: () => this.go() }), this.search, this.list, this.more);
  }

  /** Reloads the list after a change, or after the user returned. With `asks: false`, the user is not asked for a key. */
  refresh({ asks = true } = {}) {
    this.lastAwaited = undefined;
    return this.loadNewest(asks);
  }

  /** Reloads the sessions of the list. Those beyond what one request returns stay as they are. */
  loadNewest(asks) {
    // A reload that is still queued will show what this one would.
    this.waiting ??= this.afterwards(() => {
      this.waiting = undefined;
      return this.load(async () => {
        const pages = Math.max(1, Math.ceil(this.sessions.length / PAGE));
        const page = await get(`/sessions?limit=${Math.min(MOST, pages * PAGE)}`, { asks });
        const newest = new Set(page.sessions.map(({ id }) => id));
        // A session that was used meanwhile may have come from behind the others, so only the last one says where these end.
        const last = this.sessions.findIndex(({ id }) => id === page.sessions.at(-1)?.id);
        const behind = page.next && last >= 0 ? this.sessions.slice(last + 1).filter(({ id }) => !newest.has(id)) : [];
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

  /** Runs work after the earlier work has ended, because each changes the list. */
  afterwards(work) {
    const done = (this.last ?? Promise.resolve()).then(work);
    this.last = done.catch(() => {});
    return done;
  }

  async load(work, asks = true) {
    try {
      await work();
      Object.assign(this, { isLoaded: true, failed: undefined });
      this.show();
      // The list is useful without them.
      await this.findOthers(asks).catch(() => {});
    } catch (problem) {
      this.failed = problem;
    }
    this.isLoaded = true;
    this.showNames();
    this.scheduleUpdate();
  }

  /** Schedules an update while a run is in progress or waits, because it may be one that nothing on this page follows, or if the list
   *  could not be loaded. This continues while the page is hidden, because its title may be visible, and it keeps no connection open for
   *  that. */
  scheduleUpdate() {
    clearTimeout(this.soon);
    const states = new Set([...this.sessions, ...this.others].map(stateOf));
    if (!states.has("running") && !states.has("waiting") && !this.failed?.isPassing) return;
    this.soon = setTimeout(() => this.loadNewest(false), states.has("running") ? AGAIN : AGAIN_WAITING);
  }

  /** Finds what is not loaded but must be known: the session that is open, and those that wait for a decision. Looking for these is slower
   *  for the server, so it is done no more often than while runs only wait. */
  async findOthers(asks) {
    const loaded = new Set(this.sessions.map(({ id }) => id));
    const { current } = this;
    const open = current && this.next && !loaded.has(current) ? await listed(current, asks) : undefined;
    if (current === this.current) this.open = open;
    if (!this.next) Object.assign(this, { awaiting: [], isMoreAwaiting: false });
    if (!this.next || performance.now() - this.lastAwaited < AGAIN_WAITING) return;
    this.lastAwaited = performance.now();
    const { ids, isMore } = await awaited(asks);
    const known = new Map(this.awaiting.map((session) => [session.id, session]));
    const others = [];
    for (const id of ids.filter((id) => !loaded.has(id))) others.push(known.get(id) ?? await listed(id, asks));
    Object.assign(this, { awaiting: others.filter(Boolean).reverse(), isMoreAwaiting: isMore });
  }

  /** The known sessions that are not loaded, apart from those that a search found. */
  get others() {
    return [this.open, ...this.awaiting].filter(Boolean);
  }

  /** Returns what is known of a session, at least its id. */
  known(id) {
    const is = (session) => session.id === id;
    return this.sessions.find(is) ?? this.others.find(is) ?? this.results.found.find(is) ?? { id };
  }

  /** Returns a session's name: its title, or else the first line of its first message. Undefined if neither is known or visible. */
  nameOf(session) {
    return this.isTitled(session) ? this.titleOf(session) : this.firstLineOf(session);
  }

  titleOf({ id, title }) {
    return this.titles.get(id) ?? title ?? "";
  }

  isTitled(session) {
    return isSeen(this.titleOf(session));
  }

  firstLineOf({ id, first_message: text }) {
    const line = oneLine(text ?? this.begun.get(id) ?? "", 80);
    return isSeen(line) ? line : undefined;
  }

  /** Names a session that was just created by its first message. */
  call(id, text) {
    this.begun.set(id, text);
  }

  /** Shows the sessions' names wherever they are. */
  showNames() {
    this.show();
    dispatchEvent(new Event("titles"));
  }

  find() {
    this.results.set(this.search.value.trim());
    this.show();
  }

  /** Escape ends a search. Without one, it closes the list on narrow windows. */
  clearBy(event) {
    if (event.key !== "Escape" || isComposing(event) || !this.search.value) return;
    event.preventDefault();
    event.stopPropagation();
    this.search.value = "";
    this.find();
  }

  showFound() {
    this.show();
    if (!this.results.isBusy) announce(this.wordsOfFound);
  }

  get wordsOfFound() {
    const count = this.list.querySelectorAll("li").length;
    if (count === 0 || this.results.failed) return this.list.textContent;
    return `${count} ${count === 1 ? "session" : "sessions"}${this.results.isMore ? ", and maybe more" : ""}`;
  }

  /** Where a search stands, beneath what it found. */
  stateOfSearch(count) {
    const { text, isBusy, failed } = this.results;
    if (isBusy) return el("p", { class: "line-note searching" }, icon("spinner", "spins"), "Searching all sessions…");
    if (failed) return el("p", { class: "line-note error searching", text: `The search failed: ${failed.message}` });
    return count === 0 ? appendInOrder(el("p", { class: "empty" }), `No sessions contain “${text}”.`) : null;
  }

  show() {
    const { text, found } = this.results;
    const words = folded(text);
    const ids = new Set(found.map(({ id }) => id));
    const fits = (session) => ids.has(session.id) || folded(session.id).startsWith(words) || folded(this.nameOf(session) ?? "").includes(words);
    const known = new Set();
    const all = [...this.sessions, ...this.others.filter(waits), ...found].filter(({ id }) => !known.has(id) && known.add(id));
    const sorted = [...all.filter(waits), ...all.filter((session) => !waits(session))];
    this.count([...this.sessions, ...this.others].filter(waits));
    this.announceWaiting([...this.sessions, ...this.others]);
    const shown = text ? sorted.filter(fits) : sorted;
    const isMore = text ? this.results.isMore : Boolean(this.next);
    if (!isMore) passFocus(this.more, [...this.list.querySelectorAll("a")].at(-1) ?? this.search);
    this.more.hidden = !isMore;
    if (!this.isLoaded) return fill(this.list, loading());
    const problem = this.failed && el("p", { class: "line-note error", text: this.failed.message });
    if (this.failed && this.sessions.length === 0) return fill(this.list, problem);
    const state = text ? this.stateOfSearch(shown.length) : shown.length === 0 && el("p", { class: "empty", text: "No sessions yet." });
    const groupOf = (session) => (waits(session) ? this.awaitedName : day(lastUsed(session)));
    const groups = Map.groupBy ? Map.groupBy(shown, groupOf) : new Map([["Sessions", shown]]);
    // An unchanged list stays, because an entry may be being pressed or have the focus.
    const drawn = JSON.stringify([problem?.textContent, state?.textContent, [...groups].map(([name, sessions]) => [name, sessions.map((session) => [session.id, this.nameOf(session), stateOf(session), session.id === this.current])])]);
    if (drawn === this.drawn && this.list.querySelector("section")) return undefined;
    this.drawn = drawn;
    const { activeElement } = document;
    const entry = this.list.contains(activeElement) ? activeElement.closest("li") : undefined;
    const at = entry && controlsOf(entry).indexOf(activeElement);
    fill(this.list, problem, [...groups].map(([name, sessions]) => el("section", {}, el("h2", { text: name }), el("ul", {}, sessions.map((session) => this.entry(session))))), state);
    if (entry) controlsOf(this.list.querySelector(`li[data-id="${CSS.escape(entry.dataset.id)}"]`))[at]?.focus({ preventScroll: true });
    return undefined;
  }

  /** Shows how many sessions wait for input: above them, and on the button that opens the list on narrow windows. */
  count(waiting) {
    const number = new Set(waiting.map(({ id }) => id)).size;
    const count = number && `${number}${this.isMoreAwaiting ? "+" : ""}`;
    this.awaitedName = `Waiting for you · ${count}`;
    const sign = document.getElementById("waiting");
    sign.hidden = !count;
    sign.textContent = count || "";
    sign.parentElement.setAttribute("aria-label", `Open the list of sessions${count ? `; ${count} of them ${count === "1" ? "waits" : "wait"} for input` : ""}`);
  }

  /** Announces that a session has begun to wait, wherever the user is. The view of the open one announces more. */
  announceWaiting(sessions) {
    for (const session of sessions) {
      const { id } = session;
      const isNew = waits(session) && this.states.has(id) && this.states.get(id) !== "waiting";
      if (isNew && id !== this.current) announce(`${inOrder(this.nameOf(session) ?? "A session")} waits for input`);
      this.states.set(id, stateOf(session));
    }
  }

  entry(session) {
    const { id } = session;
    const at = lastUsed(session);
    const title = this.nameOf(session) ?? id;
    const sign = { waiting: () => el("span", { class: "tag warn", text: "waiting" }), running: () => [icon("spinner", "spins"), el("span", { class: "hidden", text: "running" })] }[stateOf(session)]?.();
    const name = el("a", { href: path`#/sessions/${id}`, "aria-current": id === this.current ? "page" : undefined, title: `${title}\n${id}${at ? `, ${clock(at)}` : ""}` }, appendInOrder(el("span", { class: "title", dir: "auto", lang: "" }), title), sign);
    const pencil = button({ name: "pencil", label: `Rename ${title}`, className: "quiet small", onClick: () => this.askForTitle(id) });
    const bin = button({ name: "bin", label: `Delete ${title}`, className: "quiet small", onClick: () => this.ask(id, title) });
    return el("li", { class: id === this.current ? "current" : "", data: { id } }, name, el("span", { class: "tools" }, pencil, bin));
  }

  /** Marks the session that is open, and loads it if it is not in the list. */
  select(id) {
    this.current = id;
    const session = this.known(id);
    // Kept here, because the search that found it may end.
    this.open = session.created_at ? session : undefined;
    this.show();
    if (id && this.isLoaded && !this.open) this.refresh({ asks: false });
  }

  /** Asks for a session's title. `tried` is a title that could not be saved, because of `failure`. */
  askForTitle(id, tried, failure) {
    const session = this.known(id);
    const dialog = askForTitle({ text: tried ?? this.nameOf(session) ?? "", automatic: this.firstLineOf(session) ?? id, failure, save: (title) => this.setTitle(id, title) });
    this.keepFocus(dialog, id, 1);
  }

  /** Gives a session a title, or none if it is empty. It is shown at once; if it cannot be saved, the user is asked again. */
  async setTitle(id, title) {
    const session = this.known(id);
    if (title === this.nameOf(session) || title === this.titleOf(session)) return;
    this.titles.set(id, title);
    this.showNames();
    try {
      // Behind a reload in progress, which would bring the former title back.
      await this.afterwards(async () => {
        const renamed = await patch(path`/sessions/${id}`, { title: title || null });
        for (const copy of [...this.sessions, ...this.others, ...this.results.found]) if (copy.id === id) copy.title = renamed.title;
      });
    } catch (problem) {
      this.settle(id, title);
      return this.askForTitle(id, title, problem.message);
    }
    this.settle(id, title);
    announce(`Renamed to ${inOrder(this.nameOf(this.known(id)) ?? id)}`);
    return undefined;
  }

  /** Shows the stored title again, unless another one is being saved. */
  settle(id, title) {
    if (this.titles.get(id) === title) this.titles.delete(id);
    this.showNames();
  }

  ask(id, title) {
    const dialog = askToDelete(id, title, () => {
      for (const [from, list] of [[this, "sessions"], [this, "awaiting"], [this.results, "found"]]) from[list] = from[list].filter((session) => session.id !== id);
      if (id === this.current) this.go();
      this.show();
    });
    this.keepFocus(dialog, id, 2);
  }

  /** Returns the focus to a control of an entry after a dialog. The entry may have been removed or recreated meanwhile. */
  keepFocus(dialog, id, control) {
    const at = [...this.list.querySelectorAll("li")].findIndex((entry) => entry.dataset.id === id);
    dialog.addEventListener("close", () => {
      if (document.activeElement !== document.body) return;
      const entries = [...this.list.querySelectorAll("li")];
      const entry = entries.find(({ dataset }) => dataset.id === id);
      const node = entry ? controlsOf(entry)[control] : (entries[at] ?? entries.at(-1))?.querySelector("a");
      (node ?? this.search).focus();
    });
  }
}
