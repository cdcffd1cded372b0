// Makes elements. Texts become text nodes and nothing else: nothing that a model or a tool wrote is ever read as HTML.

import { clock, exactly } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element. `props`: `class`, `text`, `on` (listeners by event), `data`, and other attributes or properties. */
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

/** What is told of an element to people. */
const TOLD = new Set(["title", "aria-label"]);

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected", "max", "min", "step"]);

/** An icon of the sheet in the page; decoration alone. */
export function icon(name, className = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon ${className}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** A button with an icon, a text, or both. `label` is what it is called where no text is shown. */
export function button({ name, text, label, className = "", onClick, ...rest }) {
  const props = { type: "button", class: `button ${className}`, "aria-label": text ? undefined : label, title: label, ...rest };
  return el("button", { ...props, on: { click: onClick } }, name && icon(name), text && el("span", { text }));
}

/** A button that copies what `read` returns, and says so. `shown` returns the element in which that is laid out, if it is: for an
 *  office, whose tables are no text. */
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
      announce("The browser does not let this page copy");
    }
  });
  return node;
}

/** What an element holds as HTML, but for what is there for this page alone. */
function htmlOf(node) {
  const copy = node.cloneNode(true);
  for (const part of copy.querySelectorAll("button, figcaption")) part.remove();
  return new XMLSerializer().serializeToString(copy);
}

/** Hands the focus on before what has it is taken away or hidden: the browser would begin at the top of the page again. */
export function passFocus(from, to) {
  if (from.contains(document.activeElement)) to?.focus({ preventScroll: true });
}

/** What is to be said in the next frame. */
let said = [];

/** Says something to who cannot see the page. What is said at once is heard as a whole, and once: another text in the same place would
 *  take the place of the one before. */
export function announce(text) {
  document.getElementById("announcements").textContent = "";
  if (!said.includes(text)) said.push(text);
  if (said.length === 1) requestAnimationFrame(speak);
}

/** Says it, but not behind a dialog, where nothing is heard: it is said once that is closed. */
function speak() {
  if (said.length === 0 || document.querySelector("dialog[open]")) return;
  document.getElementById("announcements").textContent = said.join(". ");
  said = [];
}

/** A line for what goes wrong, there once something does. */
export function alertLine(text = "") {
  return el("p", { class: "line-note error", role: "alert", hidden: !text, text });
}

/** Says in such a line what went wrong; nothing if the text is empty. */
export function setAlert(line, text) {
  line.hidden = !text;
  line.textContent = text;
}

/** What went wrong, where it takes the place of what was asked for. `more` stands beneath. */
export function failure({ title, message }, ...more) {
  return el("div", { class: "failure", role: "alert" }, el("strong", { text: title || "This did not work" }), appendVisible(el("p"), message), more);
}

/** A time for people, as short as it can be; pointed at, as a whole, with `more` before it. */
export function timeOf(at, more = "") {
  return el("time", { datetime: at, title: `${more}${exactly(at)}`, text: clock(at) });
}

/** What stands where something will be that is on its way. */
export function loading() {
  return el("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, el("i"), el("i"), el("i"));
}

/** What is known of something, each by its name. */
export function factList(facts, className = "") {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: `facts-list ${className}` }, known.map(([name, value]) => el("div", {}, el("dt", { text: name }), appendVisible(el("dd"), String(value)))));
}

/** Asks for something before the page goes on: opens a form under a title. `name` begins the id of the title. */
export function openDialog(name, title, form) {
  form.prepend(el("h2", { id: `${name}-title`, text: title }));
  const dialog = el("dialog", { class: "dialog", "aria-labelledby": `${name}-title`, on: { close: () => {
    dialog.remove();
    // What stood behind it is heard again a frame later.
    requestAnimationFrame(() => requestAnimationFrame(speak));
  } } }, form);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Does the work that a form asks for, which nobody can change or send again meanwhile, and says in a line what went wrong. */
export function submitOnce(form, line, work) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    // A key may still reach a field that was just disabled.
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

/** Whether a key belongs to an input method, such as an Enter that takes its word: it is not meant for the page. Safari tells the
 *  last one of a word by its code alone. */
export function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}

/** Whether this page is used with fingers, whose keyboards have no key that begins a line but Enter. */
export function isByFinger() {
  return matchMedia("(pointer: coarse)").matches;
}

/** Whether a key sends what is written: Enter, but with Shift. Where fingers write, it does so with Ctrl or Cmd alone. */
export function isSending(event) {
  return event.key === "Enter" && !event.shiftKey && (!isByFinger() || event.ctrlKey || event.metaKey);
}

/** Replaces what an element holds. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter(Boolean));
  return node;
}

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** Those of them that change the order of others. Joiners and marks, which words and faces are made of, are none, and neither are the
 *  marks of direction that Hebrew and Arabic are written with (U+061C, U+200E, U+200F): they turn no letter around. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/gu;

/** A text in which the signs that change the order of others stand by their numbers, where there is no room for more than text. */
export function inOrder(text) {
  return String(text).replace(TURNING, numberOf);
}

/** Whether a text has any sign that can be seen. */
export function isSeen(text) {
  return text.replace(ODD, "").trim() !== "";
}

const numberOf = (sign) => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Appends a text of which only the signs that change the order of others are shown by their numbers. */
export function appendInOrder(node, text) {
  return appendVisible(node, text, TURNING);
}

/** Appends a text in which signs that cannot be seen, or that change the order of others, are shown by their numbers. */
export function appendVisible(node, text, signs = ODD) {
  let from = 0;
  for (const match of text.matchAll(signs)) {
    node.append(text.slice(from, match.index), el("span", { class: "odd", text: numberOf(match[0]) }));
    from = match.index + match[0].length;
  }
  node.append(text.slice(from));
  return node;
}

/** A text as it is, in a box that scrolls, with a button that copies it. */
export function codeBox(text, { label = "", className = "" } = {}) {
  const pre = el("pre", { tabindex: "0", "aria-label": label || "Text" });
  appendVisible(pre, text.length > MOST ? text.slice(0, MOST) : text);
  const rest = text.length - MOST;
  if (rest > 0) {
    const more = button({ text: `Show the other ${rest.toLocaleString("en")} characters`, className: "quiet small rest" });
    more.addEventListener("click", () => { passFocus(more, pre); more.remove(); appendVisible(pre, text.slice(MOST)); });
    pre.after(more);
    return el("div", { class: `box ${className}` }, copyButton(() => text), pre, more);
  }
  return el("div", { class: `box ${className}` }, copyButton(() => text), pre);
}

/** How much of a text is laid out before somebody asks for more. */
const MOST = 50_000;

/** Runs `work` with the newest arguments at most once in each frame. */
export function eachFrame(work) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; work(); });
  };
}
