// Searching all sessions at the server: for those that contain a text, and those whose id starts with it.

import { get, path } from "./api.js";
import { lastUsed } from "./format.js";

/** How long typing must pause before the server is asked, in milliseconds. */
const PAUSE = 250;

/** How many sessions are found before the user asks for more. */
const ENOUGH = 20;

/** The maximum number of characters of a text to search for. */
export const MOST = 200;

/** A text that may be the beginning of an id. */
const ID = /^[\w.:-]{1,128}$/;

export class Search {
  /** `changed` is called when something was found, and when the search ended. */
  constructor(changed) {
    this.changed = changed;
    this.set("");
  }

  /** Searches for another text in place of the previous one; an empty text ends the search. */
  set(text) {
    clearTimeout(this.soon);
    this.stopped?.abort();
    this.stopped = new AbortController();
    Object.assign(this, { text, found: [], next: undefined, failed: undefined, isBusy: text !== "" });
    if (this.isBusy) this.soon = setTimeout(() => this.run(() => this.begin()), PAUSE);
  }

  /** Continues where the search stopped because it had found enough, or failed. */
  more() {
    if (this.isBusy) return;
    Object.assign(this, { isBusy: true, failed: undefined });
    this.changed();
    this.run(() => (this.hasBegun ? this.continue() : this.begin()));
  }

  /** Whether there may be more to find. */
  get isMore() {
    return !this.isBusy && Boolean(this.next || this.failed);
  }

  async run(work) {
    const { signal } = this.stopped;
    const failed = await work().then(() => undefined, (problem) => problem);
    // Another text is searched for by now.
    if (signal.aborted) return;
    Object.assign(this, { isBusy: false, failed });
    this.changed();
  }

  async begin() {
    this.hasBegun = false;
    if (ID.test(this.text)) await this.request(path`prefix=${this.text}`);
    this.hasBegun = true;
    await this.continue();
  }

  /** Follows the pages, of which many may be empty, until enough is found. */
  async continue() {
    const wanted = this.found.length + ENOUGH;
    do this.next = await this.request(path`q=${this.text}` + (this.next ? path`&after=${this.next}` : ""));
    while (this.next && this.found.length < wanted);
  }

  /** Adds a page to what was found, which stays sorted like the list: an id may lead to an old session first. Returns where the next page
   *  begins, if there is one. */
  async request(query) {
    const { signal } = this.stopped;
    const page = await get(`/sessions?limit=${ENOUGH}&${query}`, { signal });
    signal.throwIfAborted();
    const known = new Set(this.found.map(({ id }) => id));
    const others = page.sessions.filter(({ id }) => !known.has(id));
    this.found = [...this.found, ...others].sort((one, other) => new Date(lastUsed(other)) - new Date(lastUsed(one)));
    if (others.length > 0) this.changed();
    return page.next;
  }
}
