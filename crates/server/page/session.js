// A session as a whole, and the dialogs in which it gets a title or is deleted.

import { get, path, remove } from "./api.js";
import { alertLine, announce, appendInOrder, button, el, icon, openDialog, setAlert, submitOnce } from "./dom.js";

/** The maximum number of characters of a title. */
const MOST = 200;

/** Why a session cannot be deleted yet. */
const AT_WORK = "A run is in progress or waiting. Open the session and press Stop, or delete it once the run has ended.";

/** How many runs and messages of a long session one request returns, after the first one. */
const PAGE = 999;

/** Returns a session with all of its runs and messages. */
export async function wholeSession(id) {
  const session = await get(path`/sessions/${id}`);
  while (session.next) {
    const { runs, history, next } = await get(path`/sessions/${id}?limit=${PAGE}&after=${session.next}`);
    session.runs.push(...runs);
    session.history.push(...history);
    session.next = next;
  }
  return session;
}

/** Asks for a session's title. `text` is what the field contains at first, `automatic` the session's name without a title, `failure` why
 *  the title could not be saved before. `save` gets the new title, which is empty if it is to be removed. */
export function askForTitle({ text, automatic, failure, save }) {
  const line = alertLine(failure);
  const field = el("input", { class: "field", id: "rename-text", dir: "auto", value: text, placeholder: automatic, autocomplete: "off", enterkeyhint: "done", "aria-describedby": "rename-hint" });
  const form = el("form", { class: "stack" },
    el("label", { for: "rename-text", text: "Title" }), field, line,
    el("p", { class: "hint", id: "rename-hint", text: "Without a title, the session is called by its first message." }),
    el("div", { class: "row end" }, button({ text: "Cancel", className: "quiet", onClick: () => dialog.close() }), el("button", { class: "button primary", text: "Save" })));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const title = field.value.replace(/\s+/g, " ").trim();
    const count = [...title].length;
    if (count > MOST) return setAlert(line, `A title can have ${MOST} characters. This one has ${count}.`);
    dialog.close();
    return save(title);
  });
  const dialog = openDialog("rename", "Rename this session", form);
  field.select();
  return dialog;
}

/** Asks whether to delete a session, and deletes it. `deleted` is called then. */
export function askToDelete(id, title, deleted) {
  const line = alertLine();
  const form = el("form", { class: "stack" },
    appendInOrder(el("p", { class: "quoted" }), title), el("p", { text: "Its messages and runs are permanently deleted." }), line,
    el("div", { class: "row end" },
      button({ text: "Keep it", className: "quiet", autofocus: true, onClick: () => dialog.close() }),
      el("button", { class: "button danger" }, icon("bin"), el("span", { text: "Delete" }))));
  submitOnce(form, line, async () => {
    await remove(path`/sessions/${id}`).catch((problem) => { throw problem.kind === "session-busy" && problem.document.run_id ? new Error(AT_WORK) : problem; });
    dialog.close();
    announce("Deleted");
    deleted();
  });
  const dialog = openDialog("delete", "Delete this session?", form);
  return dialog;
}
