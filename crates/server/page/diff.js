// Changes of files in readable form: a unified diff, or the full content of a file that is written.

import { appendVisible, button, el, passFocus } from "./dom.js";

/** How many lines are shown until the user asks for more. */
const MOST = 400;

/** Names a file in a V4A patch. */
const V4A_FILE = /^\*\*\* (Add|Update|Delete) File: (.*)$/;

/** Names the new path of such a file. */
const V4A_MOVE = /^\*\*\* Move to: (.*)$/;

/** Shows a unified diff or a V4A patch, file by file, with at most this many lines of each at first. */
export function showDiff(text, most = MOST) {
  const files = /^\*\*\* Begin Patch\s*$/m.test(text) ? filesOfV4a(text) : filesOf(text);
  return el("div", { class: "diffs" }, files.map((file) => shown(file.name || "Changes", file.lines.filter((line, at) => line || at < file.lines.length - 1).map(kindOf), most, file.isDeleted)));
}

function filesOfV4a(text) {
  const files = [];
  const before = [];
  for (const line of text.split(/\r?\n/)) {
    const named = V4A_FILE.exec(line);
    if (named) files.push({ lines: files.length === 0 ? before : [], name: named[2], isDeleted: named[1] === "Delete" });
    const moved = V4A_MOVE.exec(line);
    if (moved && files.length > 0) files.at(-1).name = moved[1];
    (files.at(-1)?.lines ?? before).push(line);
  }
  return files.length === 0 ? [{ lines: before, name: "" }] : files;
}

function filesOf(text) {
  const files = [];
  for (const line of text.split("\n")) {
    if (/^(diff |--- )/.test(line) && !(files.at(-1)?.isHead)) files.push({ lines: [], isHead: true, name: "" });
    if (files.length === 0) files.push({ lines: [], isHead: true, name: "" });
    const file = files.at(-1);
    const named = /^(?:\+\+\+|---) (?:[ab]\/)?(.*?)(?:\t.*)?$/.exec(line);
    if (file.isHead && named && named[1] !== "/dev/null") file.name = named[1];
    if (line.startsWith("@@")) file.isHead = false;
    file.lines.push(line);
  }
  return files;
}

function kindOf(line) {
  if (/^(diff |index |--- |\+\+\+ |new file|deleted file|similarity|rename |\*\*\* )/.test(line)) return ["head", line];
  if (line.startsWith("@@")) return ["place", line];
  if (line.startsWith("+")) return ["added", line];
  if (line.startsWith("-")) return ["removed", line];
  return ["", line];
}

/** Shows the new content of a file. */
export function showContent(path, content, most = MOST) {
  return el("div", { class: "diffs" }, shown(path, content.split("\n").filter((line, at, all) => line || at < all.length - 1).map((line) => ["added", `+${line}`]), most));
}

/** Shows the changes of a file. A V4A patch does not say how many lines a deleted file has. */
function shown(name, lines, most, isDeleted = false) {
  const count = (kind) => lines.filter(([it]) => it === kind).length;
  // If all lines are new, they need no markers.
  const line = lines.every(([kind]) => kind === "added") ? plainLine : toldLine;
  const body = el("pre", { tabindex: "0", role: "group", "aria-label": `Changes of ${name}` }, lines.slice(0, most).map(line));
  const figure = el("figure", { class: "diff" },
    el("figcaption", {}, appendVisible(el("span", { class: "path" }), name),
      isDeleted ? [el("span", { class: "minus", text: "deleted" })] : [el("span", { class: "plus", text: `+${count("added")}` }), el("span", { class: "minus", text: `−${count("removed")}` })]), body);
  if (lines.length > most) {
    const more = button({ text: `Show the other ${(lines.length - most).toLocaleString("en")} lines`, className: "quiet small rest", onClick: () => { passFocus(more, body); more.remove(); body.append(...lines.slice(most).map(line)); } });
    figure.append(more);
  }
  return figure;
}

function plainLine([kind, text]) {
  return appendVisible(el("span", { class: `line ${kind}` }), text || " ");
}

/** The roles of lines for users who do not see the color: a hyphen is seldom spoken. */
const ROLES = { added: "insertion", removed: "deletion" };

function toldLine(line) {
  const node = plainLine(line);
  if (ROLES[line[0]]) node.setAttribute("role", ROLES[line[0]]);
  return node;
}
