// The files that go with a message: chosen, dropped or pasted, and shown until it is sent; and those of messages that were.

import { alertLine, announce, appendVisible, button, codeBox, el, fill, icon } from "./dom.js";
import { bytes, partsOf } from "./format.js";

/** What the server takes of one message. */
const MOST = 20;
const MOST_BYTES = 7 * 1024 * 1024;
const MOST_BYTES_IN_ALL = 15 * 1024 * 1024;
const MOST_BYTES_OF_TEXT = 1024 * 1024;

/** How many lines say which of them cannot be sent. */
const MOST_LINES = 6;

/** How an archive begins, of which documents of an office are made, and how older ones of these do. */
const ARCHIVE = "PK\u0003\u0004";
const OLDER = "\u00d0\u00cf\u0011\u00e0";

/** What begins so, by the ends of the names. */
const DOCUMENTS = { docx: "a document of Word", doc: "a document of Word", xlsx: "a workbook of Excel", xls: "a workbook of Excel", pptx: "a presentation of PowerPoint", ppt: "a presentation of PowerPoint", msg: "a message of Outlook", odt: "a document of an office", ods: "a spreadsheet of an office", odp: "a presentation of an office" };

export class Files {
  constructor() {
    this.files = [];
    /** Why the server would refuse one of them. */
    this.whys = new WeakMap();
    this.picker = el("input", { type: "file", multiple: true, hidden: true, id: "files", "aria-label": "Files to attach", on: { change: () => { this.add(this.picker.files); this.picker.value = ""; } } });
    this.button = button({ name: "clip", label: "Attach files", className: "quiet round", onClick: () => this.picker.click() });
    this.list = el("ul", { class: "files", hidden: true, "aria-label": "Attached files" });
    this.problem = alertLine();
    this.leaveOutAll = button({ text: "Leave out what cannot be sent", className: "quiet small", hidden: true, onClick: () => this.leaveOutRefused() });
    this.node = el("div", { class: "attaching" }, this.problem, this.leaveOutAll, this.list, this.picker);
  }

  /** Takes what is dropped on or pasted into an element. */
  takeFrom(node) {
    node.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
    node.addEventListener("drop", (event) => this.taken(event, event.dataTransfer.files));
    node.addEventListener("paste", (event) => {
      // Cells and passages of a document come with a picture of themselves.
      const isText = ["text/plain", "text/html"].every((type) => event.clipboardData.types.includes(type));
      if (!isText) this.taken(event, event.clipboardData.files);
    });
  }

  taken(event, files) {
    if (files.length === 0) return;
    event.preventDefault();
    this.add(files);
  }

  /** What cannot be sent stays among the files until it is left out: the message would go without it else. */
  add(files) {
    this.files.push(...files);
    this.show();
    // The line of what is refused is heard of itself.
    if (!this.isRefused) announce("Attached");
    this.check([...files]);
  }

  /** Finds what the server would refuse for its content. What is sent before that is known, the server refuses itself. */
  async check(files) {
    const whys = await Promise.all(files.map((file) => whyNot(file).catch(() => "")));
    const found = files.filter((file, at) => whys[at] && this.files.includes(file));
    if (found.length === 0) return;
    for (const file of found) this.whys.set(file, `${file.name}: ${whys[files.indexOf(file)]}`);
    this.show();
  }

  /** Those that cannot be sent, each with why. */
  get refused() {
    let [count, all] = [0, 0];
    return this.files.map((file) => {
      if (file.size > MOST_BYTES) return [file, `${file.name}: a file may have ${bytes(MOST_BYTES)}`];
      if (this.whys.has(file)) return [file, this.whys.get(file)];
      if (count === MOST || all + file.size > MOST_BYTES_IN_ALL) return [file, `${file.name}: ${MOST} files and ${bytes(MOST_BYTES_IN_ALL)} go with one message`];
      [count, all] = [count + 1, all + file.size];
      return undefined;
    }).filter(Boolean);
  }

  show() {
    this.list.hidden = this.files.length === 0;
    const { refused } = this;
    this.problem.hidden = refused.length === 0;
    this.leaveOutAll.hidden = refused.length < 2;
    const whys = refused.map(([, why]) => why);
    if (whys.length > MOST_LINES) whys.splice(MOST_LINES - 1, whys.length, `and ${whys.length - MOST_LINES + 1} more`);
    appendVisible(fill(this.problem), whys.join("\n"));
    fill(this.list, this.files.map((file) => el("li", { class: "file" }, named(file.name, file.size),
      button({ name: "cross", label: `Leave out ${file.name}`, className: "quiet small", onClick: () => this.leaveOut(file) }))));
  }

  leaveOutRefused() {
    const refused = new Set(this.refused.map(([file]) => file));
    this.files = this.files.filter((file) => !refused.has(file));
    this.show();
    this.button.focus();
  }

  leaveOut(file) {
    const at = this.files.indexOf(file);
    this.files.splice(at, 1);
    this.show();
    const buttons = this.list.querySelectorAll("button");
    (buttons[at] ?? buttons[at - 1] ?? this.button).focus();
  }

  /** Whether one of them cannot be sent. */
  get isRefused() {
    return this.refused.length > 0;
  }

  /** Hands the files over: they go with the message that is sent now. */
  take() {
    const { files } = this;
    this.files = [];
    this.show();
    return files;
  }

  /** Puts files back that could not be sent, before those that were added meanwhile. */
  restore(files) {
    this.files = [...files, ...this.files];
    this.show();
  }
}

/** Whether the same files are chosen, in the same order. */
export function areSame(files, others) {
  return files.length === others.length && files.every((file, at) => file === others[at]);
}

/** What a file is called, and its size if it is known. */
function named(name, size) {
  return [icon("clip"), appendVisible(el("span"), name), size === undefined ? null : el("span", { class: "hint", text: bytes(size) })];
}

/** Why a file cannot be sent, whatever else it is; nothing where that is for the server to say. */
async function whyNot(file) {
  if (file.size === 0) return "it is empty";
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 5).arrayBuffer()));
  const isOlder = head.startsWith(OLDER);
  if (isOlder || head.startsWith(ARCHIVE)) {
    const document = DOCUMENTS[file.name.toLowerCase().split(".").at(-1)] ?? (isOlder && "a document of an office");
    return document ? `it is ${document}, which no model takes: save it as text (or as a PDF, which some models take), and attach that` : "it is an archive, which no model takes: attach what is in it";
  }
  if (!file.type.startsWith("text/") || head === "%PDF-") return "";
  if (file.size > MOST_BYTES_OF_TEXT) return `a text may have ${bytes(MOST_BYTES_OF_TEXT)}`;
  const isText = await file.arrayBuffer().then((content) => new TextDecoder("utf-8", { fatal: true }).decode(content)).then(() => true, (error) => !(error instanceof TypeError));
  return isText ? "" : "it is a text that is not in UTF-8: save it as UTF-8, and attach it again";
}

/** Files as a turn names them. */
export async function encoded(files) {
  return Promise.all(files.map(async (file) => {
    const data = await base64(file).catch(() => {
      const why = `${file.name} cannot be read: it was changed or removed after it was attached. Leave it out, or attach it again.`;
      throw Object.assign(new Error(why), { title: "A file could not be read" });
    });
    return { name: file.name, data };
  }));
}

/** Lets what the server says about a file by its number name it. */
export function namingFiles(problem, files) {
  problem.message = String(problem.message).replace(/^attachment (\d+)\b/, (all, at) => {
    problem.title = "A file cannot be sent";
    return files[at - 1]?.name ?? all;
  });
  return problem;
}

function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

/** What a file is called that no record names. */
const UNNAMED = "attachment";

/** Images that are shown as such; every other kind is named. */
const SHOWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** How a text that is attached stands among what the person says: in a part of its own. */
const TEXT = /^\n\n\[file (?<name>[^\n]*)\]\n(?<text>[^]*)\n\[end of file \k<name>\]$/;

/** What a part of a message is as a file; nothing if it is none. */
function fileOf(part) {
  if (part.type === "media") return { type: part.media_type, data: part.source?.base64 };
  return part.type === "text" ? TEXT.exec(part.text)?.groups : undefined;
}

/** What a run is about, without the texts that are attached: of a run one text is told, with all of them behind the words. */
export const withoutTexts = (text) => text?.split(/\n\n\[file [^\n]*\]\n/, 1)[0];

const filesIn = (message) => (message?.parts ?? []).map(fileOf).filter(Boolean);

/** What a person said in a message, without the files. */
export function wordsOf(message) {
  if (typeof message?.text === "string") return message.text;
  return partsOf(message, "text").filter((part) => !fileOf(part)).map((part) => part.text).join("\n\n");
}

const nameOf = (file) => (file.name === UNNAMED ? undefined : file.name);

/** What is attached to messages that were sent. `files` are the same where this page sent them: no record tells what a picture is
 *  called. */
export function shownFiles(messages, files = []) {
  const all = messages.flatMap(filesIn);
  return all.map(({ name, text, type, data }, at) => {
    const called = name ?? (files.length === all.length ? nameOf(files[at]) : undefined);
    if (text !== undefined) return shownText(called, text);
    if (!data || !SHOWN.has(type)) return el("span", { class: "file" }, named(called ?? type));
    return el("img", { class: "attached", alt: `An attached image, ${called ?? type}`, src: `data:${type};base64,${data}` });
  });
}

/** A text that can be unfolded: it may be long. */
function shownText(name, text) {
  const show = () => { if (node.open && node.childNodes.length === 1) node.append(codeBox(text, { label: name })); };
  const node = el("details", { class: "attached-text", on: { toggle: show } }, el("summary", { class: "file" }, named(name, new Blob([text]).size), icon("chevron", "chevron")));
  return node;
}

/** What is attached to a message that is on its way. */
export function shownOnTheWay(files) {
  return files.map((file) => el("span", { class: "file" }, named(nameOf(file) ?? file.type, file.size)));
}

/** The files of a message that was sent, to be sent again. */
export function filesOf(message) {
  const all = filesIn(message).filter(({ text, data }) => text !== undefined || data);
  return all.map(({ name, text, type, data }) => (text === undefined ? new File([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], UNNAMED, { type }) : new File([text], name, { type: "text/plain" })));
}
