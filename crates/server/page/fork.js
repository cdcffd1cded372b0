// Going on from the end of a run in a session of its own, and what stands there from before it.

import { path, post } from "./api.js";
import { alertLine, appendInOrder, button, el, openDialog, submitOnce } from "./dom.js";
import { shownFiles, wordsOf } from "./files.js";
import { textOf } from "./format.js";
import { render } from "./markdown.js";

/** Asks what is said there. `chosen` returns what the turn is taken with, `go` opens the session that is made. */
export function askToFork(runId, chosen, go) {
  const field = el("textarea", { class: "field", rows: "3", id: "fork-text" });
  const line = alertLine();
  const form = el("form", { class: "stack" }, el("p", { text: "The new session begins with the conversation up to here; this one stays as it is." }),
    el("label", { for: "fork-text", text: "What do you say there?" }), field, line,
    el("div", { class: "row end" }, button({ text: "Cancel", className: "quiet", onClick: () => dialog.close() }), el("button", { class: "button primary", text: "Continue there" })));
  submitOnce(form, line, async () => {
    const { session_id: session } = await post(path`/runs/${runId}/fork`, { message: field.value, ...chosen() });
    dialog.close();
    go(session);
  });
  const dialog = openDialog("fork", "Continue in a new session", form);
}

/** What was said before a session was branched off or brought in; nothing where nothing was. */
export function shownBefore(history) {
  const messages = history.filter((message) => textOf(message) && ["user", "assistant"].includes(message.role));
  if (messages.length === 0) return undefined;
  return el("div", { class: "before" }, el("p", { class: "line-note", text: "From before this session" }), messages.map((message) => {
    if (message.role === "user") return el("div", { class: "said" }, el("div", { class: "files" }, shownFiles([message])), appendInOrder(el("div", { class: "bubble" }), wordsOf(message)));
    return render(el("div", { class: "md" }), textOf(message));
  }));
}
