// A card for a user's decision: sending an answer, asking for the token if needed, and reporting failures.

import { key, mayDecide, needsToken, setKey, tokenHint } from "./access.js";
import { now } from "./api.js";
import { alertLine, announce, el, setAlert } from "./dom.js";
import { clock } from "./format.js";

/** How long before a question closes this is announced, in milliseconds. */
const NOTICE = 60_000;

/** The longest delay that browsers support, in milliseconds. */
const LONGEST = 2 ** 31 - 1;

let count = 0;

export class Card {
  /** `next` is called once the user has entered the token. */
  constructor(next) {
    this.id = `ask-${(count += 1)}`;
    this.problem = alertLine();
    this.secret = el("input", { class: "field", type: "password", id: `${this.id}-token`, autocomplete: "off", spellcheck: "false", on: { input: () => setAlert(this.problem, "") } });
    /** Shown while no token is stored, or after the server rejected it. */
    this.token = el("form", { class: "token", hidden: true, on: { submit: (event) => { event.preventDefault(); next(); } } },
      el("label", { for: this.secret.id, text: "Decisions need the server's token" }), this.secret, tokenHint());
    this.onKeyStored = () => { this.token.hidden = this.problem.hidden = true; };
    /** The controls that send an answer. */
    this.controls = [];
    this.node = el("section", { class: "ask", role: "group", tabindex: "-1", "aria-labelledby": `${this.id}-title` });
    if (needsToken()) this.askForToken();
  }

  /** Returns the row of controls that send an answer, or the reason why none would be accepted. */
  answerRow(...parts) {
    if (mayDecide()) return el("div", { class: "row answers" }, ...parts);
    return el("p", { class: "line-note warn", text: "This page's key cannot decide; a key with the scope approve is required." });
  }

  /** Returns a line that says until when the question is open. A minute before that it says so, and it is announced. `name` is that of
   *  the tool or of its server. */
  openUntil(at, name) {
    const line = el("p", { class: "hint", text: `Open until ${clock(at)}` });
    const left = new Date(at) - now() - NOTICE;
    if (left <= 0 || left > LONGEST) return line;
    // Does not keep the view that shows it.
    const shown = new WeakRef(line);
    setTimeout(() => {
      const line = shown.deref();
      // It is gone once the question is settled or the view was left.
      if (!line?.isConnected) return;
      line.className = "line-note warn";
      line.textContent += ": less than a minute is left";
      announce(`${name}: its question closes in a minute`);
    }, left);
    return line;
  }

  /** Asks for the token until a new one is stored, possibly through another card. */
  askForToken() {
    this.token.hidden = false;
    addEventListener("access", this.onKeyStored, { once: true });
  }

  /** Sends an answer and returns whether the server accepted it. A rejection for another reason than the token is passed to `refused`.
   *  `doing` names the action that needs the token. */
  async answer(doing, request) {
    if (!this.token.hidden && this.secret.value.trim()) setKey(this.secret.value);
    if (needsToken()) return this.complain(`${doing} needs the token.`, this.secret);
    // Disabling the focused control loses the focus.
    const focused = this.node.querySelector(":focus");
    const scroller = focused && this.node.closest(".scroller");
    this.setBusy(true);
    try {
      await request();
      if (scroller) requestAnimationFrame(() => this.leave(scroller));
      return true;
    } catch (problem) {
      if (this.isSettled) return this.announceSettled(scroller);
      this.setBusy(false);
      if (document.activeElement === document.body) focused?.focus({ preventScroll: true });
      if (problem.status !== 401) return this.refused(problem);
      this.askForToken();
      return this.complain(key() ? "The server does not accept this token or key." : problem.message, this.secret);
    }
  }

  /** Reports that nothing is asked any more: the server accepted the answer but its response was lost, or another client answered first. */
  announceSettled(scroller) {
    if (scroller) this.leave(scroller);
    announce("It has already been decided");
  }

  /** Removes the card, because its question is settled. */
  remove() {
    const scroller = this.node.contains(document.activeElement) && this.node.closest(".scroller");
    this.node.remove();
    this.isSettled = true;
    if (scroller) this.leave(scroller);
  }

  /** Moves the focus to the next open card, whose buttons come later, or to the conversation. If the user has moved the focus elsewhere
   *  meanwhile, it stays there. */
  leave(scroller) {
    const { activeElement } = document;
    if (activeElement !== document.body && !this.node.contains(activeElement)) return;
    const next = [...scroller.querySelectorAll(".ask:has(.answers)")].find((node) => node !== this.node);
    (next ?? scroller).focus({ preventScroll: true });
    // A pointer may be moving toward something, so nothing scrolls beneath it.
    if (next?.matches(":focus-visible")) next.scrollIntoView({ block: "nearest" });
  }

  complain(text, field) {
    setAlert(this.problem, text);
    field?.focus();
  }

  /** Whether an answer from this page is being sent, or was accepted. */
  get isBusy() {
    return this.node.getAttribute("aria-busy") === "true";
  }

  setBusy(is) {
    for (const control of this.controls) control.disabled = is;
    this.node.setAttribute("aria-busy", String(is));
  }
}
