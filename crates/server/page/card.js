// A card on which a person decides: how an answer is sent, the token where that needs it, and what goes wrong.

import { keep, key, mayDecide, whereItIs } from "./access.js";
import { alertLine, announce, el, setAlert } from "./dom.js";

let count = 0;

export class Card {
  /** `next` is called once somebody entered the token. */
  constructor(next) {
    this.id = `ask-${(count += 1)}`;
    this.problem = alertLine();
    this.secret = el("input", { class: "field", type: "password", id: `${this.id}-token`, autocomplete: "off", spellcheck: "false", on: { input: () => setAlert(this.problem, "") } });
    /** There while nothing is kept, or once the server did not take what was. */
    this.token = el("form", { class: "token", hidden: true, on: { submit: (event) => { event.preventDefault(); next(); } } },
      el("label", { for: this.secret.id, text: "Deciding needs the server's token" }), this.secret, whereItIs());
    this.onKept = () => { this.token.hidden = this.problem.hidden = true; };
    /** What sends an answer. */
    this.controls = [];
    this.node = el("section", { class: "ask", role: "group", tabindex: "-1", "aria-labelledby": `${this.id}-title` });
    if (!key()) this.askForToken();
  }

  /** The row of what sends an answer, or why nothing would be taken. */
  answerRow(...parts) {
    if (mayDecide()) return el("div", { class: "row answers" }, ...parts);
    return el("p", { class: "line-note warn", text: "The key of this page may not decide: somebody has to whose key has the scope approve." });
  }

  /** Asks for the token until another one is kept, which may be entered on another card. */
  askForToken() {
    this.token.hidden = false;
    addEventListener("access", this.onKept, { once: true });
  }

  /** Sends an answer and says whether the server took it. What it did not take for another reason than the token goes to `refused`.
   *  `doing` is what needs the token. */
  async answer(doing, request) {
    if (!this.token.hidden && this.secret.value.trim()) keep(this.secret.value);
    if (!key()) return this.complain(`${doing} needs the token.`, this.secret);
    // The focus is lost with what has it.
    const focused = this.node.querySelector(":focus");
    const scroller = focused && this.node.closest(".scroller");
    this.setBusy(true);
    try {
      await request();
      if (scroller) requestAnimationFrame(() => this.leave(scroller));
      return true;
    } catch (problem) {
      if (this.isSettled) return this.tellSettled(scroller);
      this.setBusy(false);
      if (document.activeElement === document.body) focused?.focus({ preventScroll: true });
      if (problem.status !== 401) return this.refused(problem);
      this.askForToken();
      return this.complain(key() ? "The server does not accept this token or key." : problem.message, this.secret);
    }
  }

  /** Says that nothing is asked any more: the server took the answer and what it said of that was lost, or somebody was faster. */
  tellSettled(scroller) {
    if (scroller) this.leave(scroller);
    announce("It is decided by now");
  }

  /** Takes the card away: what it asks is settled. */
  remove() {
    const scroller = this.node.contains(document.activeElement) && this.node.closest(".scroller");
    this.node.remove();
    this.isSettled = true;
    if (scroller) this.leave(scroller);
  }

  /** Gives the focus to the next card that is open, whose buttons are further on, or to the conversation. Whoever went elsewhere
   *  meanwhile stays there. */
  leave(scroller) {
    const { activeElement } = document;
    if (activeElement !== document.body && !this.node.contains(activeElement)) return;
    const next = [...scroller.querySelectorAll(".ask:has(.answers)")].find((node) => node !== this.node);
    (next ?? scroller).focus({ preventScroll: true });
    // A pointer may be on its way to something: nothing moves beneath it.
    if (next?.matches(":focus-visible")) next.scrollIntoView({ block: "nearest" });
  }

  complain(text, field) {
    setAlert(this.problem, text);
    field?.focus();
  }

  /** Whether an answer of this page is on its way, or was taken. */
  get isBusy() {
    return this.node.getAttribute("aria-busy") === "true";
  }

  setBusy(is) {
    for (const control of this.controls) control.disabled = is;
    this.node.setAttribute("aria-busy", String(is));
  }
}
