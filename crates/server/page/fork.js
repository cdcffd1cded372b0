// Continuing from the end of a run in a new session, and showing the conversation that precedes such a session.

import { path, post } from "./api.js";
import { alertLine, appendInOrder, button, el, openDialog, submitOnce } from "./dom.js";
import { shownFiles, wordsOf } from "./files.js";
import { oneLine, textOf } from "./format.js";
import { render } from "./markdown.js";

/** Asks for the first message. `chosen` returns the settings for the turn, `go` opens the new session. */
export function askToFork(runId, chosen, go) {
  const field = el("textarea", { class: "field", rows: "3", id: "fork-text" });
  const line = alertLine();
  const form = el("form", { class: "stack" }, el("p", { text: "The new session starts with the conversation up to here; this one stays as it is." }),
    el("label", { for: "fork-text", text: "First message in the new session" }), field, line,
    el("div", { class: "row end" }, button({ text: "Cancel", className: "quiet", onClick: () => dialog.close() }), el("button", { class: "button primary", text: "Continue there" })));
  submitOnce(form, line, async () => {
    const { session_id: session } = await post(path`/runs/${runId}/fork`, { message: field.value, ...chosen() });
    dialog.close();
    go(session);
  });
  const dialog = openDialog("fork", "Continue in a new session", form);
}

/** Shows the conversation before a session was forked or imported, or nothing if there was none. */
export function shownBefore(history) {
  const messages = history.filter((message) => textOf(message) && ["user", "assistant"].includes(message.role));
  if (messages.length === 0) return undefined;
  return el("div", { class: "before" }, el("p", { class: "line-note", text: "From before this session" }), messages.map((message) => {
    if (message.role === "user") return el("div", { class: "said" }, el("h2", { class: "hidden", lang: "", text: oneLine(wordsOf(message) || "A message", 80) }), el("div", { class: "files" }, shownFiles([message])), appendInOrder(el("div", { class: "bubble", lang: "" }), wordsOf(message)));
    return el("div", {}, el("h3", { class: "hidden", text: "Answer" }), render(el("div", { class: "md", lang: "" }), textOf(message)));
  }));
}
