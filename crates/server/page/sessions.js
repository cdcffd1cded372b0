// The list of sessions at the side: the newest first, found by title or the beginning of an id, deleted after a question.

import { get, path, remove } from "./api.js";
import { announce, appendInOrder, button, el, fill, icon } from "./dom.js";
import { clock, day, oneLine } from "./format.js";

const PAGE = 40;

export class SessionList {
  /** `go` opens a session, or a new one without an id. */
  constructor({ go }) {
    this.go = go;
    this.sessions = [];
    this.titles = new Map();
    this.states = new Map();
    this.search = el("input", { type: "search", class: "field", placeholder: "Search", "aria-label": "Search sessions by title or by the beginning of the id", on: { input: () => this.find() } });
    this.list = el("div", { class: "session-list" });
    this.more = button({ text: "Show more", className: "quiet small", hidden: true, onClick: () => this.load() });
    this.node = el("nav", { class: "sessions", "aria-label": "Sessions" },
      button({ name: "plus", text: "New session", className: "new wide", onClick: () => this.go() }), this.search, this.list, this.more);
  }

  /** Loads the list anew. `asks: false` asks nobody for a key. */
  async refresh({ asks = true } = {}) {
    this.next = undefined;
    await this.load(true, asks);
  }

  async load(anew = false, asks = true) {
    try {
      const after = this.next ? `&after=${encodeURIComponent(this.next)}` : "";
      const page = await get(`/sessions?limit=${PAGE}${after}`, { asks });
      this.sessions = anew ? page.sessions : [...this.sessions, ...page.sessions];
      this.next = page.next;
      this.failed = undefined;
      await this.name(asks);
    } catch (problem) {
      this.failed = problem;
    }
    this.show();
    dispatchEvent(new Event("titles"));
  }

  /** A session is called by the first message that the newest runs tell of it. */
  async name(asks) {
    const { runs } = await get("/runs?limit=300", { asks });
    this.states.clear();
    for (const run of runs) {
      if (!this.states.has(run.session_id)) this.states.set(run.session_id, run.status);
    }
    for (const run of [...runs].reverse()) {
      if (run.text && !this.titles.has(run.session_id)) this.titles.set(run.session_id, oneLine(run.text, 80));
    }
    const unnamed = this.sessions.filter(({ id }) => !this.titles.has(id) && !this.states.has(id)).slice(0, PAGE);
    await Promise.all(unnamed.map(async ({ id }) => {
      const { runs: own } = await get(`/runs?limit=1&session=${encodeURIComponent(id)}`, { asks });
      if (own[0]?.text) this.titles.set(id, oneLine(own[0].text, 80));
    }));
  }

  async find() {
    const prefix = this.search.value.trim();
    const asked = (this.asked = {});
    this.show();
    if (!prefix) return;
    const page = await get(`/sessions?limit=20&prefix=${encodeURIComponent(prefix)}`).catch(() => ({ sessions: [] }));
    if (asked !== this.asked) return;
    const known = new Set(this.sessions.map(({ id }) => id));
    this.found = page.sessions.filter(({ id }) => !known.has(id));
    this.show();
  }

  show() {
    const words = this.search.value.trim().toLowerCase();
    const fits = ({ id }) => id.toLowerCase().startsWith(words) || this.titles.get(id)?.toLowerCase().includes(words);
    const shown = words ? [...this.sessions.filter(fits), ...(this.found ?? [])] : this.sessions;
    this.more.hidden = !this.next || Boolean(words);
    if (this.failed) return fill(this.list, el("p", { class: "line-note error", text: this.failed.message }));
    if (shown.length === 0) return fill(this.list, el("p", { class: "empty", text: words ? "Nothing is called so." : "No sessions yet." }));
    const groups = Map.groupBy ? Map.groupBy(shown, ({ created_at: at }) => day(at)) : new Map([["Sessions", shown]]);
    return fill(this.list, [...groups].map(([name, sessions]) => el("section", {}, el("h2", { text: name }), el("ul", {}, sessions.map((session) => this.entry(session))))));
  }

  entry({ id, created_at: at }) {
    const title = this.titles.get(id) || id;
    const state = this.states.get(id);
    const sign = state === "waiting" ? el("span", { class: "tag warn", text: "waits" }) : state === "running" ? icon("spinner", "spins") : null;
    const name = el("a", { href: `#/sessions/${encodeURIComponent(id)}`, "aria-current": id === this.current ? "page" : undefined, title: `${id}, ${clock(at)}` }, appendInOrder(el("span", { class: "title" }), title), sign);
    const bin = button({ name: "bin", label: `Delete ${title}`, className: "quiet small", onClick: () => this.ask(id, title) });
    return el("li", { class: id === this.current ? "current" : "" }, name, bin);
  }

  select(id) {
    this.current = id;
    this.show();
  }

  ask(id, title) {
    const line = el("p", { class: "line-note error", role: "alert", hidden: true });
    const dialog = el("dialog", { class: "dialog", "aria-labelledby": "delete-title", on: { close: () => dialog.remove() } }, el("div", { class: "stack" },
      el("h2", { id: "delete-title", text: "Delete this session?" }),
      appendInOrder(el("p", { class: "quoted" }), title), el("p", { text: "Its messages and runs are removed for good." }), line,
      el("div", { class: "row end" },
        button({ text: "Keep it", className: "quiet", autofocus: true, onClick: () => dialog.close() }),
        button({ name: "bin", text: "Delete", className: "danger", onClick: async () => {
          try {
            await remove(path`/sessions/${id}`);
            dialog.close();
            announce("Deleted");
            this.sessions = this.sessions.filter((session) => session.id !== id);
            if (id === this.current) this.go();
            this.show();
          } catch (problem) {
            line.hidden = false;
            line.textContent = problem.message;
          }
        } }))));
    document.body.append(dialog);
    dialog.showModal();
  }
}
