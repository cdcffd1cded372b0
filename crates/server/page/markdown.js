// Markdown as models write it, rendered to nodes: paragraphs, headings, lists, tables, quotations, code.
//
// A growing text is rendered block by block: complete blocks stay, and so does the unchanged part of the last block. A long text is
// rendered in portions, so the page stays responsive.

import { appendInOrder, copyButton, el } from "./dom.js";
import { appendCode } from "./highlight.js";
import { appendInline } from "./inline.js";

/** After the backticks, further ones may follow only after a language; otherwise it is inline code. */
const FENCE = /^( {0,3})(`{3,}(?!`)(?=[^`]*$|[\w+#.-]+\s(?!.*```))|~{3,})\s*([\w+#.-]*).*$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?\s*#*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*))?$/;
/** Turns the paragraph above it into a heading. */
const UNDERLINE = /^ {0,3}(={3,}|-{3,})\s*$/;
const INDENTED = /^(?: {4}|\t)/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
/** The start of a formula that ends on another line. */
const MATH = /^ {0,3}(?:(\$\$)(?!.*\$\$)|\\\[(?=\s|$)(?!.*\\\]))/;
/** The maximum number of lines of such a formula. */
const MOST_LINES = 50;
const DEEPEST = 6;

/** Renders a whole text in a node. */
export function render(node, text) {
  node.replaceChildren(...blocks(text.split(/\r\n?|\n/)));
  return node;
}

/** How many characters are rendered at a time. */
const PORTION = 20_000;

/** A growing text in a node. */
export class Growing {
  constructor(node) {
    this.node = node;
    this.text = "";
    /** How much of the text is rendered permanently. */
    this.settled = 0;
    this.kept = 0;
    this.timer = undefined;
    /** How long to wait before rendering again: the longer it takes, the less often it runs. */
    this.wait = 30;
  }

  /** Sets the whole text. */
  set(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text.slice(0, this.settled))) {
      this.settled = 0;
      this.kept = 0;
      this.node.replaceChildren();
    }
    this.text = text;
    this.timer ??= setTimeout(() => this.layOut(), this.wait);
  }

  /** Whether all of the text is rendered. */
  get isWhole() {
    return this.timer === undefined;
  }

  /** Renders the latest text without waiting. */
  flush() {
    if (this.timer === undefined) return;
    clearTimeout(this.timer);
    this.layOut();
  }

  layOut() {
    this.timer = undefined;
    const began = performance.now();
    const rest = this.text.slice(this.settled);
    const end = border(rest);
    const made = end > 0 ? blocks(lines(rest.slice(0, end))) : [];
    const kept = this.kept + made.length;
    const tail = rest.slice(end);
    const isMore = tail.length > PORTION && border(tail) > 0;
    if (!isMore) made.push(...blocks(lines(tail)));
    becomeAll(this.node, made, this.kept);
    this.settled += end;
    this.kept = kept;
    this.wait = Math.min(1000, 30 + (performance.now() - began) * 4);
    if (isMore) this.timer = setTimeout(() => this.layOut(), 0);
  }
}

/** Updates a node's children from a position on to match newly created ones. */
function becomeAll(node, made, from = 0) {
  const old = [...node.childNodes].slice(from);
  made.forEach((fresh, at) => (old[at] ? become(old[at], fresh) : node.append(fresh)));
  for (const left of old.slice(made.length)) left.remove();
}

/** Updates a node to match another. Unchanged nodes and texts that only grew stay, because the user may have selected or scrolled them. */
function become(old, fresh) {
  if (old.nodeName !== fresh.nodeName || !hasSameAttributes(old, fresh)) old.replaceWith(fresh);
  else if (old.nodeType === Node.TEXT_NODE) {
    if (fresh.data.startsWith(old.data)) old.appendData(fresh.data.slice(old.data.length));
    else old.data = fresh.data;
  } else if (old.nodeName === "PRE") {
    const isAtEnd = old.scrollTop > 0 && old.scrollHeight - old.scrollTop - old.clientHeight < 4;
    becomeAll(old, [...fresh.childNodes]);
    if (isAtEnd) old.scrollTop = old.scrollHeight;
  } else if (old.nodeName !== "BUTTON") {
    if (fresh.source !== undefined) old.source = fresh.source;
    becomeAll(old, [...fresh.childNodes]);
  }
}

/** Whether two nodes differ only in their content. A button's own attributes are ignored. */
function hasSameAttributes(one, other) {
  if (one.nodeName === "BUTTON" || one.attributes === undefined) return true;
  return one.attributes.length === other.attributes.length && [...one.attributes].every(({ name, value }) => other.getAttribute(name) === value);
}

const lines = (text) => text.split(/\r\n?|\n/);

/** Returns where the last complete block of the first portion ends: after an empty line that is not in code, a list or a quotation.
 *  Indented code continues after empty lines, as a list does. */
function border(text) {
  let fence = "";
  let at = 0;
  let last = 0;
  let isInList = false;
  while (at < text.length && (at < PORTION || last === 0)) {
    const next = text.indexOf("\n", at);
    if (next < 0) break;
    const line = text.slice(at, next);
    const mark = FENCE.exec(line)?.[2];
    if (!fence && MATH.test(line)) {
      const ahead = text.slice(at).split("\n", MOST_LINES + 1);
      const end = mathEnd(ahead.slice(0, -1), 0);
      // It is not known yet whether this is a formula.
      if (end === undefined && ahead.length <= MOST_LINES) break;
      if (end > 0) {
        at += ahead.slice(0, end + 1).join("\n").length + 1;
        continue;
      }
    }
    if (mark && !fence) fence = mark;
    else if (fence && closes(line, fence)) fence = "";
    else if (!fence && line.trim() === "") {
      // The following lines may still belong to a list.
      if (!isInList) last = next + 1;
    } else if (!fence && INDENTED.test(line)) isInList = true;
    else if (!fence && !/^\s/.test(line)) {
      const isItem = ITEM.test(line);
      if (isInList && !isItem && text[at - 2] === "\n") last = at;
      isInList = isItem || (isInList && text[at - 2] !== "\n");
    }
    at = next + 1;
  }
  return last;
}

const closes = (line, fence) => new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`).test(line);

function blocks(all, depth = 0) {
  const made = [];
  let at = 0;
  while (at < all.length) {
    if (all[at].trim() === "") {
      at += 1;
      continue;
    }
    const [node, next] = depth > DEEPEST ? paragraph(all, at, depth) : block(all, at, depth);
    made.push(node);
    at = next;
  }
  return made;
}

function block(all, at, depth) {
  const line = all[at];
  const fence = FENCE.exec(line);
  if (fence) return code(all, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [appendInline(el(`h${Math.min(6, heading[1].length + 2)}`), heading[2] ?? ""), at + 1];
  if (RULE.test(line)) return [el("hr"), at + 1];
  if (QUOTE.test(line)) return quotation(all, at, depth);
  if (ITEM.test(line)) return list(all, at, depth);
  if (isTable(all, at)) return table(all, at);
  const end = mathEnd(all, at);
  if (end > 0) return [el("p", {}, appendInOrder(el("code", { class: "math" }), all.slice(at, end + 1).join("\n"))), end + 1];
  // Nested blocks are indented for other reasons.
  if (depth === 0 && INDENTED.test(line)) return indented(all, at);
  return paragraph(all, at, depth);
}

/** Returns the last line of a formula that starts here, 0 if there is none, or undefined while such a line may still follow. */
function mathEnd(all, at) {
  const begin = MATH.exec(all[at]);
  if (!begin) return 0;
  const close = begin[1] ?? "\\]";
  // Two dollar signs may be followed by a sentence about them.
  const mayBeText = begin[1] && all[at].trim() !== close && !/[\\^_=]/.test(all[at]);
  for (let end = at + 1; end < at + MOST_LINES; end += 1) {
    if (all[end] === undefined) return undefined;
    if (mayBeText && (all[end].trim() === "" || ITEM.test(all[end]))) return 0;
    if (all[end].includes(close)) return all[end].trimEnd().endsWith(close) && all[end].split(close).length === 2 ? end : 0;
    if (FENCE.test(all[end])) return 0;
  }
  return 0;
}

function code(all, at, [, indent, mark, language]) {
  const begin = at + 1;
  let end = begin;
  while (end < all.length && !closes(all[end], mark)) end += 1;
  const strip = new RegExp(`^ {0,${indent.length}}`);
  const text = all.slice(begin, end).map((line) => (indent ? line.replace(strip, "") : line)).join("\n");
  return [codeBlock(text, language), end + 1];
}

function indented(all, at) {
  let end = at + 1;
  for (let next = end; next < all.length && INDENTED.test(all[next]); next = behindEmpty(all, end)) end = next + 1;
  return [codeBlock(all.slice(at, end).map((line) => line.replace(INDENTED, "")).join("\n")), end];
}

/** Renders code with the name of its language and a copy button. */
export function codeBlock(text, language = "") {
  const label = language || "text";
  const figure = el("figure", { class: "code", dir: "ltr" },
    el("figcaption", { lang: "en" }, el("span", { text: label }), copyButton(() => figure.source, "Copy code")),
    el("pre", { tabindex: "0", role: "group", "aria-label": `Code, ${label}` }, appendCode(el("code"), text, language)));
  // The exact text, without characters replaced by code points, and updated as it grows.
  figure.source = text;
  return figure;
}

function quotation(all, at, depth) {
  let end = at;
  while (end < all.length && (QUOTE.test(all[end]) || (all[end].trim() !== "" && !starts(all[end])))) end += 1;
  const inner = all.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [el("blockquote", { dir: "auto" }, blocks(inner, depth + 1)), end];
}

function list(all, at, depth) {
  const [, indent, mark] = ITEM.exec(all[at]);
  const isOrdered = /\d/.test(mark);
  const begin = isOrdered ? Number.parseInt(mark, 10) : 1;
  const items = [];
  let next = at;
  while (next < all.length) {
    const item = ITEM.exec(all[next]);
    if (!item || item[1].length > indent.length + 1 || item[1].length < indent.length || /\d/.test(item[2]) !== isOrdered) break;
    const width = item[1].length + item[2].length + 1;
    const outside = new RegExp(`^\\s{0,${width}}`);
    const inner = [item[3] ?? ""];
    next += 1;
    for (let end = belongs(all, next, width, inner); end > next; end = belongs(all, next, width, inner)) {
      while (next < end) inner.push(all[next++].replace(outside, ""));
    }
    items.push(listItem(inner, depth));
    const following = behindEmpty(all, next);
    if (ITEM.test(all[following] ?? "")) next = following;
  }
  // Setting the direction last: otherwise it would be recomputed with each added item as long as none has a letter.
  const node = el(isOrdered ? "ol" : "ul", { start: isOrdered && begin !== 1 ? begin : undefined }, items);
  node.dir = "auto";
  return [node, next];
}

/** Returns where the lines that continue an item end: empty lines before an indented one, an indented line, or one that continues a
 *  paragraph. */
function belongs(all, at, width, inner) {
  const next = behindEmpty(all, at);
  if (next === all.length) return at;
  const isIndented = indentOf(all[next]) >= Math.min(width, 2);
  return isIndented || (next === at && !starts(all[at]) && inner.at(-1).trim() !== "") ? next + 1 : at;
}

/** Returns the index of the next line that is not empty. */
function behindEmpty(all, at) {
  let next = at;
  while (next < all.length && all[next].trim() === "") next += 1;
  return next;
}

const indentOf = (line) => line.length - line.trimStart().length;

function listItem(inner, depth) {
  const task = /^\[([ xX])\]\s+/.exec(inner[0]);
  if (task) inner[0] = inner[0].slice(task[0].length);
  const made = blocks(inner, depth + 1);
  // A list of single lines is rendered compactly.
  const flat = made.map((node, place) => (place === 0 && node.tagName === "P" ? [...node.childNodes] : [node])).flat();
  if (!task) return el("li", {}, flat);
  const isDone = task[1] !== " ";
  return el("li", { class: "task" }, el("span", { class: `tick ${isDone ? "done" : ""}`, role: "img", "aria-label": isDone ? "done" : "open" }), flat);
}

/** Whether a line starts a block other than a paragraph. */
function starts(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

/** Whether a table starts here: a line of cells above a divider line with as many cells. */
function isTable(all, at) {
  const [line, divider] = [all[at], all[at + 1] ?? ""];
  return line.includes("|") && DIVIDER.test(divider) && cells(line).length === cells(divider).length;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(all, at) {
  const sides = cells(all[at + 1]).map((cell) => (/^:-+:$/.test(cell) ? "center" : /-:$/.test(cell) ? "right" : ""));
  const row = (line, tag) => el("tr", {}, sides.map((side, place) => appendInline(el(tag, { class: side || undefined, scope: tag === "th" ? "col" : undefined }), cells(line)[place] ?? "")));
  const head = row(all[at], "th");
  const body = [];
  let next = at + 2;
  while (next < all.length && all[next].includes("|") && all[next].trim() !== "") body.push(row(all[next++], "td"));
  const node = el("table", {}, el("thead", {}, head), el("tbody", {}, body));
  return [el("div", { class: "table", dir: "auto", tabindex: "0", role: "region", "aria-label": "Table" }, node), next];
}

function paragraph(all, at, depth) {
  let end = at + 1;
  while (end < all.length && all[end].trim() !== "" && !(depth <= DEEPEST && (starts(all[end]) || UNDERLINE.test(all[end]) || isTable(all, end) || mathEnd(all, end) > 0))) end += 1;
  const level = UNDERLINE.exec(all[end] ?? "")?.[1][0];
  const node = el(level === undefined ? "p" : level === "=" ? "h3" : "h4");
  return [appendInline(node, all.slice(at, end).map((line) => line.trimStart()).join("\n")), level === undefined ? end : end + 1];
}
