// The files that go with a message: chosen, dropped or pasted, and shown until it is sent; and those of messages that were.

import { alertLine, announce, appendVisible, button, el, fill, icon } from "./dom.js";
import { bytes, partsOf } from "./format.js";

/** What the server takes of one message. */
const MOST = 20;
const MOST_BYTES = 7 * 1024 * 1024;
const MOST_BYTES_IN_ALL = 20 * 1024 * 1024;

export class Files {
  constructor() {
    this.files = [];
    this.picker = el("input", { type: "file", multiple: true, hidden: true, id: "files", "aria-label": "Files to attach", on: { change: () => { this.add(this.picker.files); this.picker.value = ""; } } });
    this.button = button({ name: "clip", label: "Attach files", className: "quiet round", onClick: () => this.picker.click() });
    this.list = el("ul", { class: "files", hidden: true, "aria-label": "Attached files" });
    this.problem = alertLine();
    this.node = el("div", {}, this.list, this.problem, this.picker);
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

  add(files) {
    const refused = [];
    for (const file of files) {
      const all = this.files.reduce((sum, other) => sum + other.size, file.size);
      if (this.files.length === MOST || all > MOST_BYTES_IN_ALL) refused.push(`${file.name}: ${MOST} files and ${bytes(MOST_BYTES_IN_ALL)} go with one message`);
      else if (file.size > MOST_BYTES) refused.push(`${file.name}: a file may have ${bytes(MOST_BYTES)}`);
      else this.files.push(file);
    }
    this.show(refused);
    announce(refused[0] ?? "Attached");
  }

  show(refused = []) {
    this.list.hidden = this.files.length === 0;
    this.problem.hidden = refused.length === 0;
    appendVisible(fill(this.problem), refused.join("\n"));
    fill(this.list, this.files.map((file) => el("li", { class: "file" }, icon("clip"), appendVisible(el("span"), file.name), el("span", { class: "hint", text: bytes(file.size) }),
      button({ name: "cross", label: `Leave out ${file.name}`, className: "quiet small", onClick: () => { this.files = this.files.filter((other) => other !== file); this.show(); } }))));
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

/** Files as a turn names them. */
export async function encoded(files) {
  return Promise.all(files.map(async (file) => ({ name: file.name, data: await base64(file) })));
}

function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Images that are shown as such; every other kind is named. */
const SHOWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** What is attached to a message that was sent. */
export function shownFiles(message) {
  return partsOf(message, "media").map((part) => {
    const data = part.source?.base64;
    if (!data || !SHOWN.has(part.media_type)) return el("span", { class: "file" }, icon("clip"), appendVisible(el("span"), part.media_type));
    return el("img", { class: "attached", alt: `An attached image, ${part.media_type}`, src: `data:${part.media_type};base64,${data}` });
  });
}

/** The files of a message that was sent, to be sent again. */
export function filesOf(message) {
  const media = partsOf(message, "media").filter((part) => part.source?.base64);
  return media.map((part) => new File([Uint8Array.from(atob(part.source.base64), (sign) => sign.charCodeAt(0))], "attachment", { type: part.media_type }));
}
