// The files of a message: chosen, dropped or pasted, and shown until it is sent; also the files of sent messages.

import { alertLine, announce, appendVisible, button, codeBox, el, fill, icon } from "./dom.js";
import { bytes, partsOf } from "./format.js";

/** The server's limits for one message. */
const MOST = 20;
const MOST_BYTES = 7 * 1024 * 1024;
const MOST_BYTES_IN_ALL = 15 * 1024 * 1024;
const MOST_BYTES_OF_TEXT = 1024 * 1024;

/** How many lines of reasons are shown for files that cannot be sent. */
const MOST_LINES = 6;

/** The first bytes of an archive, which newer office documents are, and of older office documents. */
const ARCHIVE = "PK\u0003\u0004";
const OLDER = "\u00d0\u00cf\u0011\u00e0";

/** Descriptions of such documents, by file name extension. */
const DOCUMENTS = { docx: "a Word document", doc: "a Word document", xlsx: "an Excel workbook", xls: "an Excel workbook", pptx: "a PowerPoint presentation", ppt: "a PowerPoint presentation", msg: "an Outlook message", odt: "an OpenDocument text", ods: "an OpenDocument spreadsheet", odp: "an OpenDocument presentation" };

export class Files {
  constructor() {
    this.files = [];
    /** The reasons for which the server would refuse files. */
    this.whys = new WeakMap();
    this.picker = el("input", { type: "file", multiple: true, hidden: true, id: "files", "aria-label": "Files to attach", on: { change: () => { this.add(this.picker.files); this.picker.value = ""; } } });
    this.button = button({ name: "clip", label: "Attach files", className: "quiet round", onClick: () => this.picker.click() });
    this.list = el("ul", { class: "files", hidden: true, "aria-label": "Attached files" });
    this.problem = alertLine();
    this.leaveOutAll = button({ text: "Remove files that cannot be sent", className: "quiet small", hidden: true, onClick: () => this.leaveOutRefused() });
    this.node = el("div", { class: "attaching" }, this.problem, this.leaveOutAll, this.list, this.picker);
  }

  /** Accepts files dropped on or pasted into an element. */
  takeFrom(node) {
    node.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
    node.addEventListener("drop", (event) => this.taken(event, event.dataTransfer.files));
    node.addEventListener("paste", (event) => {
      // Copied cells and passages of a document include a picture of themselves.
      const isText = ["text/plain", "text/html"].every((type) => event.clipboardData.types.includes(type));
      if (!isText) this.taken(event, event.clipboardData.files);
    });
  }

  taken(event, files) {
    if (files.length === 0) return;
    event.preventDefault();
    this.add(files);
  }

  /** Adds files. One that cannot be sent stays in the list until the user removes it, because the message would otherwise go without it. */
  add(files) {
    this.files.push(...files);
    this.show();
    // The line with the reason is announced automatically.
    if (!this.isRefused) announce("Attached");
    this.check([...files]);
  }

  /** Finds files that the server would refuse because of their content. If the message is sent before this ends, the server refuses it. */
  async check(files) {
    const whys = await Promise.all(files.map((file) => whyNot(file).catch(() => "")));
    const found = files.filter((file, at) => whys[at] && this.files.includes(file));
    if (found.length === 0) return;
    for (const file of found) this.whys.set(file, `${file.name}: ${whys[files.indexOf(file)]}`);
    this.show();
  }

  /** The files that cannot be sent, each with the reason. */
  get refused() {
    let [count, all] = [0, 0];
    return this.files.map((file) => {
      if (file.size > MOST_BYTES) return [file, `${file.name}: a file can be up to ${bytes(MOST_BYTES)}`];
      if (this.whys.has(file)) return [file, this.whys.get(file)];
      if (count === MOST || all + file.size > MOST_BYTES_IN_ALL) return [file, `${file.name}: a message can have up to ${MOST} files and ${bytes(MOST_BYTES_IN_ALL)} in total`];
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
      button({ name: "cross", label: `Remove ${file.name}`, className: "quiet small", onClick: () => this.leaveOut(file) }))));
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

  /** Whether any file cannot be sent. */
  get isRefused() {
    return this.refused.length > 0;
  }

  /** Returns the files for the message that is being sent, and clears the list. */
  take() {
    const { files } = this;
    this.files = [];
    this.show();
    return files;
  }

  /** Restores files that could not be sent, before those added meanwhile. */
  restore(files) {
    this.files = [...files, ...this.files];
    this.show();
  }
}

/** Whether two lists contain the same files in the same order. */
export function areSame(files, others) {
  return files.length === others.length && files.every((file, at) => file === others[at]);
}

/** Shows a file's name, and its size if known. */
function named(name, size) {
  return [icon("clip"), appendVisible(el("span"), name), size === undefined ? null : el("span", { class: "hint", text: bytes(size) })];
}

/** Returns why a file cannot be sent, or an empty string if only the server can tell. */
async function whyNot(file) {
  if (file.size === 0) return "it is empty";
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 5).arrayBuffer()));
  const isOlder = head.startsWith(OLDER);
  if (isOlder || head.startsWith(ARCHIVE)) {
    const document = DOCUMENTS[file.name.toLowerCase().split(".").at(-1)] ?? (isOlder && "an Office document");
    return document ? `it is ${document}, which no model accepts; save it as text (or as a PDF, which some models accept) and attach that` : "it is an archive, which no model accepts; attach its contents instead";
  }
  if (!file.type.startsWith("text/") || head === "%PDF-") return "";
  if (file.size > MOST_BYTES_OF_TEXT) return `a text file can be up to ${bytes(MOST_BYTES_OF_TEXT)}`;
  const isText = await file.arrayBuffer().then((content) => new TextDecoder("utf-8", { fatal: true }).decode(content)).then(() => true, (error) => !(error instanceof TypeError));
  return isText ? "" : "it is text, but not in UTF-8; save it as UTF-8 and attach it again";
}

/** Encodes files for a turn. */
export async function encoded(files) {
  return Promise.all(files.map(async (file) => {
    const data = await base64(file).catch(() => {
      const why = `${file.name} cannot be read: it was changed or removed after it was attached. Remove it, or attach it again.`;
      throw Object.assign(new Error(why), { title: "A file could not be read" });
    });
    return { name: file.name, data };
  }));
}

/** Replaces a file's number by its name in the server's message. */
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

/** The name of a file that no record names. */
const UNNAMED = "attachment";

/** The images that are displayed; for other types, only the name is shown. */
const SHOWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The form of an attached text within a user's message: a part of its own. */
const TEXT = /^\n\n\[file (?<name>[^\n]*)\]\n(?<text>[^]*)\n\[end of file \k<name>\]$/;

/** Returns the file in a part of a message, or undefined if there is none. */
function fileOf(part) {
  if (part.type === "media") return { type: part.media_type, data: part.source?.base64 };
  return part.type === "text" ? TEXT.exec(part.text)?.groups : undefined;
}

/** Removes attached texts from the text of a run, in which they follow the user's message. */
export const withoutTexts = (text) => text?.split(/\n\n\[file [^\n]*\]\n/, 1)[0];

const filesIn = (message) => (message?.parts ?? []).map(fileOf).filter(Boolean);

/** Returns the text of a user's message without files. */
export function wordsOf(message) {
  if (typeof message?.text === "string") return message.text;
  return partsOf(message, "text").filter((part) => !fileOf(part)).map((part) => part.text).join("\n\n");
}

const nameOf = (file) => (file.name === UNNAMED ? undefined : file.name);

/** Shows the files of sent messages. `files` are the same files if this page sent them, because records do not contain the names of
 *  images. */
export function shownFiles(messages, files = []) {
  const all = messages.flatMap(filesIn);
  return all.map(({ name, text, type, data }, at) => {
    const called = name ?? (files.length === all.length ? nameOf(files[at]) : undefined);
    if (text !== undefined) return shownText(called, text);
    if (!data || !SHOWN.has(type)) return el("span", { class: "file" }, named(called ?? type));
    return el("img", { class: "attached", alt: `An attached image, ${called ?? type}`, src: `data:${type};base64,${data}` });
  });
}

/** Shows a text collapsed, because it may be long. */
function shownText(name, text) {
  const show = () => { if (node.open && node.childNodes.length === 1) node.append(codeBox(text, { label: name })); };
  const node = el("details", { class: "attached-text", on: { toggle: show } }, el("summary", { class: "file" }, named(name, new Blob([text]).size), icon("chevron", "chevron")));
  return node;
}

/** Shows the files of a message that is being sent. */
export function shownOnTheWay(files) {
  return files.map((file) => el("span", { class: "file" }, named(nameOf(file) ?? file.type, file.size)));
}

/** Returns the files of a sent message, so they can be sent again. */
export function filesOf(message) {
  const all = filesIn(message).filter(({ text, data }) => text !== undefined || data);
  return all.map(({ name, text, type, data }) => (text === undefined ? new File([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], UNNAMED, { type }) : new File([text], name, { type: "text/plain" })));
}
