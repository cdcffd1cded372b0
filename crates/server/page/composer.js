// The input for messages: sends them, adds them to a run in progress, and stops it.

import { alertLine, button, el, isByFinger, isComposing, isSending, setAlert } from "./dom.js";
import { Choices } from "./choices.js";
import { Files, areSame } from "./files.js";
import { inTab } from "./storage.js";

/** The maximum length of a message, in characters: no model accepts more. A smaller limit on the field would silently truncate pasted
 *  text. */
const MOST = 4_000_000;

/** The storage keys of messages being sent. Any other stored message was being sent when its tab closed. */
const onItsWay = new Set();

/** Returns the keyboard hint. Touch keyboards need none. */
function hintOf(isBusy) {
  const joins = "your message to the run in progress, after the current tool calls";
  if (isByFinger()) return isBusy ? `Adds ${joins}` : "";
  return isBusy ? `Enter adds ${joins}` : "Enter sends, Shift+Enter starts a new line";
}

export class Composer {
  /** `send` receives the text and its files, `stop` nothing. */
  constructor({ send, stop }) {
    this.send = send;
    this.input = el("textarea", { id: "message", rows: "1", class: "message", placeholder: "Ask something…", "aria-label": "Message", "aria-describedby": "message-hint", autocomplete: "off", on: {
      keydown: (event) => this.key(event), input: () => { this.complain(""); this.fit(); },
    } });
    this.choices = new Choices({ draft: () => this.input.value });
    this.files = new Files();
    this.sendButton = button({ name: "up", label: "Send", className: "primary round", onClick: () => this.submit() });
    this.stopButton = button({ name: "stop", label: "Stop the run", className: "round danger", hidden: true, onClick: stop });
    this.problem = alertLine();
    this.hint = el("p", { class: "hint", id: "message-hint", text: hintOf(false) });
    // Stop comes first: it disappears when pressed, and a double click would press the button that moved beneath the pointer.
    this.node = el("form", { class: "composer", "aria-label": "Message", on: { submit: (event) => { event.preventDefault(); this.submit(); }, keydown: (event) => this.leave(event) } },
      this.choices.panel,
      el("div", { class: "composer-box" }, this.files.node, this.input, this.problem, el("div", { class: "composer-row" }, this.choices.node, el("div", { class: "row" }, this.stopButton, this.files.button, this.sendButton))),
      this.hint);
    this.files.takeFrom(this.node);
  }

  key(event) {
    if (isComposing(event)) return;
    if (isSending(event)) {
      event.preventDefault();
      this.submit();
    }
  }

  /** Closes the panel of the choices, wherever in here the focus is. */
  leave(event) {
    if (event.key !== "Escape" || isComposing(event)) return;
    const { activeElement } = document;
    this.choices.fold(true);
    if (!this.choices.panel.hidden) {
      event.stopPropagation();
      this.choices.open(false);
    }
    if (activeElement.getClientRects().length === 0) this.input.focus({ preventScroll: true });
  }

  submit() {
    const text = this.input.value.trim();
    if (text.length > MOST) {
      this.complain(`A message can have up to ${MOST.toLocaleString("en")} characters; this one has ${text.length.toLocaleString("en")}. Shorten it.`);
      return;
    }
    if (!text) {
      if (this.files.files.length > 0) this.complain("Say what to do with the files.");
      return;
    }
    this.complain("");
    if (this.files.isRefused) {
      this.complain("Remove the files that cannot be sent.");
      return;
    }
    this.input.value = "";
    this.fit();
    this.choices.open(false);
    this.choices.fold(true);
    this.send(text, this.files.take());
  }

  /** Shows why nothing was sent. */
  complain(text) {
    setAlert(this.problem, text);
  }

  /** Whether something else is being written. */
  get isInUse() {
    return Boolean(this.input.value) || this.files.files.length > 0;
  }

  /** Restores what could not be sent, before anything being written. */
  restore(text, files = []) {
    this.files.restore(files);
    const isFirst = !this.input.value;
    this.input.setRangeText(isFirst ? text : `${text}\n\n`, 0, 0, isFirst ? "end" : "preserve");
    this.fit();
  }

  /** Removes what was restored to the field, unless it was changed since. */
  drop(text, files) {
    if (this.input.value !== text || !areSame(this.files.files, files)) return;
    this.input.value = "";
    this.files.take();
    this.fit();
  }

  /** Saves the unsent message under a name, for this tab only, and restores what was written there before. */
  keep(name) {
    const { carried } = this;
    this.carry("");
    if (this.place) inTab.remove(this.place);
    this.place = `neuraxis.draft:${name}`;
    this.way = `neuraxis.sending:${name}`;
    const lost = onItsWay.has(this.way) ? "" : inTab.get(this.way);
    this.input.value ||= [lost, inTab.get(this.place)].filter(Boolean).join("\n\n");
    this.fit();
    if (lost) inTab.remove(this.way);
    this.carry(carried);
  }

  /** Keeps a message that is being sent until it is replaced by an empty one. If the tab closes meanwhile, the message is in the field
   *  again. */
  carry(text) {
    if (this.carried) {
      inTab.remove(this.way);
      onItsWay.delete(this.way);
    }
    this.carried = text;
    if (!text) return;
    onItsWay.add(this.way);
    inTab.set(this.way, text);
  }

  fit() {
    this.keepDraft();
    this.input.style.height = "auto";
    this.input.style.height = `${this.input.scrollHeight}px`;
  }

  keepDraft() {
    if (!this.place) return;
    if (this.input.value) inTab.set(this.place, this.input.value);
    else inTab.remove(this.place);
  }

  /** Sets whether a run is in progress, to which a message is then added. */
  setBusy(isBusy) {
    // Hiding the button would lose the focus.
    const hadFocus = document.activeElement === this.stopButton;
    this.stopButton.hidden = !isBusy;
    if (hadFocus && !isBusy) this.focus(this.sendButton);
    this.isBusy = isBusy;
    this.showPlaceholder();
    for (const name of ["aria-label", "title"]) this.sendButton.setAttribute(name, isBusy ? "Send to the run in progress" : "Send");
    this.hint.textContent = hintOf(isBusy);
  }

  /** Sets whether the run in progress waits for the user: a message here decides nothing. */
  setAsked(isAsked) {
    if (isAsked === this.isAsked) return;
    this.isAsked = isAsked;
    this.showPlaceholder();
  }

  showPlaceholder() {
    const busy = this.isAsked ? "Decide above, or add something…" : "Add something while it works…";
    this.input.placeholder = this.isBusy ? busy : "Ask something…";
  }

  /** On touch devices, focusing the input would open a keyboard. The focus then goes to `instead`, if given. */
  focus(instead) {
    (isByFinger() ? instead : this.input)?.focus({ preventScroll: true });
  }
}
