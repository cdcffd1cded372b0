// Creates elements. Strings become text nodes and nothing else: text from models and tools is never parsed as HTML.

import { clock, exactly } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** Creates an element. `props`: `class`, `text`, `on` (listeners by event), `data`, and other attributes or properties. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else if (TOLD.has(name)) node.setAttribute(name, inOrder(value));
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** The attributes that users see or hear. */
const TOLD = new Set(["title", "aria-label"]);

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected", "max", "min", "step"]);

/** Creates an icon from the page's sheet; decorative only. */
export function icon(name, className = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon ${className}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Creates a button with an icon, a text, or both. `label` is its accessible name if no text is shown. */
export function button({ name, text, label, className = "", onClick, ...rest }) {
  const props = { type: "button", class: `button ${className}`, "aria-label": text ? undefined : label, title: label, ...rest };
  return el("button", { ...props, on: { click: onClick } }, name && icon(name), text && el("span", { text }));
}

/** Creates a button that copies what `read` returns, and confirms it. `shown` returns the element that displays it, if any, which is
 *  copied too, for office programs whose tables are not text. */
export function copyButton(read, label = "Copy", shown = () => undefined) {
  const node = button({ name: "copy", label, className: "quiet small" });
  const show = (isDone) => {
    node.classList.toggle("done", isDone);
    node.firstChild.replaceWith(icon(isDone ? "check" : "copy"));
  };
  node.addEventListener("click", async () => {
    try {
      const laidOut = window.ClipboardItem && shown();
      if (laidOut) await navigator.clipboard.write([new ClipboardItem({ "text/plain": new Blob([read()], { type: "text/plain" }), "text/html": new Blob([htmlOf(laidOut)], { type: "text/html" }) })]);
      else await navigator.clipboard.writeText(read());
      show(true);
      announce("Copied");
      setTimeout(() => show(false), 1500);
    } catch {
      announce("The browser does not allow this page to copy");
    }
  });
  return node;
}

/** Returns an element's content as HTML, without the parts that only this page needs. */
function htmlOf(node) {
  const copy = node.cloneNode(true);
  for (const part of copy.querySelectorAll("button, figcaption")) part.remove();
  return new XMLSerializer().serializeToString(copy);
}

/** Moves the focus before its element is removed or hidden. Otherwise the browser would restart at the top of the page. */
export function passFocus(from, to) {
  if (from.contains(document.activeElement)) to?.focus({ preventScroll: true });
}

/** What to announce in the next frame. */
let queued = [];

/** Announces something to screen readers. Announcements of the same frame are joined and spoken once, because a second text would
 *  replace the first. */
export function announce(text) {
  document.getElementById("announcements").textContent = "";
  if (!queued.includes(text)) queued.push(text);
  if (queued.length === 1) requestAnimationFrame(speak);
}

/** Speaks the announcements. Behind an open dialog they would not be heard, so they wait until it is closed. */
function speak() {
  if (queued.length === 0 || document.querySelector("dialog[open]")) return;
  document.getElementById("announcements").textContent = queued.join(". ");
  queued = [];
}

/** Creates a line for errors, hidden until there is one. */
export function alertLine(text = "") {
  return el("p", { class: "line-note error", role: "alert", hidden: !text, text });
}

/** Shows an error in such a line, or hides the line if the text is empty. */
export function setAlert(line, text) {
  line.hidden = !text;
  line.textContent = text;
}

/** Shows a failure in place of the requested content. `more` goes beneath. */
export function failure({ title, message }, ...more) {
  return el("div", { class: "failure", role: "alert" }, el("strong", { text: title || "Something went wrong" }), appendVisible(el("p"), message), more);
}

/** Shows a time in its shortest form. The tooltip has the full time, with `more` before it. */
export function timeOf(at, more = "") {
  return el("time", { datetime: at, title: `${more}${exactly(at)}`, text: clock(at) });
}

/** A placeholder for content that is being loaded. */
export function loading() {
  return el("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, el("i"), el("i"), el("i"));
}

/** A view that scrolls. It takes the focus when it is opened, so that keys scroll it and its name is heard. */
export function pageOf(name, ...children) {
  return el("div", { class: "scroller page", tabindex: "-1", role: "region", "aria-label": name }, ...children);
}

/** A list of facts, each with its name. */
export function factList(facts, className = "") {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: `facts-list ${className}` }, known.map(([name, value]) => el("div", {}, el("dt", { text: name }), appendVisible(el("dd"), String(value)))));
}

/** Opens a dialog with a form under a title. `name` is the prefix of the title's id. */
export function openDialog(name, title, form) {
  form.prepend(el("h2", { id: `${name}-title`, text: title }));
  const dialog = el("dialog", { class: "dialog", "aria-labelledby": `${name}-title`, on: { close: () => {
    dialog.remove();
    // The page behind the dialog is accessible again one frame later.
    requestAnimationFrame(() => requestAnimationFrame(speak));
  } } }, form);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Runs a form's action, disables the form meanwhile, and shows a failure in `line`. */
export function submitOnce(form, line, work) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    // A key may still reach a field that has just been disabled.
    if (form.getAttribute("aria-busy") === "true") return;
    const focused = form.querySelector("textarea") ?? document.activeElement;
    setBusy(form, true);
    await work().catch((problem) => setAlert(line, problem.message));
    setBusy(form, false);
    focused.focus();
  });
}

function setBusy(form, busy) {
  for (const control of form.elements) control.disabled = busy;
  form.setAttribute("aria-busy", String(busy));
}

/** Whether a key belongs to an input method, such as an Enter that accepts its suggestion, and is not meant for the page. Safari marks
 *  the last one of a word only by its key code. */
export function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}

/** Whether the page is used by touch, with a keyboard whose only key for a new line is Enter. */
export function isByFinger() {
  return matchMedia("(pointer: coarse)").matches;
}

/** Whether a key sends the message: Enter without Shift. On touch devices, only with Ctrl or Cmd. */
export function isSending(event) {
  return event.key === "Enter" && !event.shiftKey && (!isByFinger() || event.ctrlKey || event.metaKey);
}

/** Replaces the content of an element. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter(Boolean));
  return node;
}

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** Those that change the order of other characters. Joiners and marks, which are parts of words and emoji, do not, and neither do the
 *  direction marks used in Hebrew and Arabic (U+061C, U+200E, U+200F): they reverse no letters. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/gu;

/** Replaces characters that change the order of others by their code points, for places that can hold only text. */
export function inOrder(text) {
  return String(text).replace(TURNING, numberOf);
}

/** Whether a text has any visible character. */
export function isSeen(text) {
  return text.replace(ODD, "").trim() !== "";
}

const numberOf = (sign) => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Appends a text. Only characters that change the order of others are shown as code points. */
export function appendInOrder(node, text) {
  return appendVisible(node, text, TURNING);
}

/** Appends a text. Characters that are invisible or change the order of others are shown as code points. */
export function appendVisible(node, text, signs = ODD) {
  let from = 0;
  for (const match of text.matchAll(signs)) {
    node.append(text.slice(from, match.index), el("span", { class: "odd", text: numberOf(match[0]) }));
    from = match.index + match[0].length;
  }
  node.append(text.slice(from));
  return node;
}

/** Shows a text verbatim, in a scrolling box with a copy button. */
export function codeBox(text, { label = "", className = "" } = {}) {
  const pre = el("pre", { tabindex: "0", role: "group", "aria-label": label || "Text" });
  appendVisible(pre, text.length > MOST ? text.slice(0, MOST) : text);
  // Several boxes may be next to each other.
  const copies = label ? `Copy: ${label}` : "Copy";
  const rest = text.length - MOST;
  if (rest > 0) {
    const more = button({ text: `Show the other ${rest.toLocaleString("en")} characters`, className: "quiet small rest" });
    more.addEventListener("click", () => { passFocus(more, pre); more.remove(); appendVisible(pre, text.slice(MOST)); });
    pre.after(more);
    return el("div", { class: `box ${className}` }, copyButton(() => text, copies), pre, more);
  }
  return el("div", { class: `box ${className}` }, copyButton(() => text, copies), pre);
}

/** How many characters of a text are rendered until the user asks for more. */
const MOST = 50_000;

/** Runs `work` with the latest arguments at most once per frame. */
export function eachFrame(work) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; work(); });
  };
}
