// The dialog in which a session gets a title.

import { alertLine, button, el, openDialog, setAlert } from "./dom.js";

/** The maximum number of characters of a title. */
const MOST = 200;

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
