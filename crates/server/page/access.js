// The token or key sent to the server: read once from the address, kept for this tab only, and asked for when needed.

import { button, el, openDialog } from "./dom.js";
import { inTab } from "./storage.js";

const PLACE = "neuraxis.key";

/** Why a session that can be read accepts no turn: to an admin who is not its owner, the server says that it does not exist. */
export const NOT_OWN = {
  type: "/errors/no-such-session", title: "This session belongs to another user",
  detail: "Only its owner can add messages to it or continue it.",
};

/** What the server reports about the current key: its scopes, and whether there is one. Undefined until then. A proxy may add a key that
 *  this tab does not have. */
let reported;

/** Returns the token or key sent to the server, if there is one. */
export function key() {
  return inTab.get(PLACE) ?? undefined;
}

/** Stores the token or key to send from now on, replacing any other. */
export function setKey(text) {
  reported = undefined;
  const trimmed = (text ?? "").trim();
  if (trimmed) inTab.set(PLACE, trimmed);
  else inTab.remove(PLACE);
  window.dispatchEvent(new Event("access"));
}

/** Stores what the server reports about the current key. */
export function setReported({ scopes = [], key: presented }) {
  reported = { scopes, hasKey: Boolean(key() || presented) };
}

/** Whether decisions may be made. A user without a token or key is asked for the token. */
export function mayDecide() {
  return !reported || reported.scopes.includes("approve") || !reported.hasKey;
}

/** Whether a decision requires a token or key that this tab does not have. */
export function needsToken() {
  return !key() && !reported?.scopes.includes("approve");
}

/** Who must act when a run waits for a decision or for an answer to a tool's question. */
export function whoDecides() {
  return mayDecide() ? "you" : "someone with permission to decide";
}

/** Whether a run, as reported by the server, waits for a decision or for an answer to a tool's question, and not only for a client's
 *  tool. */
export function awaitsUser({ questions, result }) {
  return questions?.length > 0 || Boolean(result?.pending?.some(({ kind }) => kind === "approval"));
}

/** Who must act for a waiting run to continue. */
export function whoMustAct(asked) {
  return asked ? whoDecides() : "a client";
}

/** Takes `#token=…` out of the address. */
export function readKeyFromAddress() {
  const found = /^#token=([^&]*)/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    setKey(decodeURIComponent(found[1]));
  } catch {
    // An invalid token is treated as missing.
  }
}

/** Explains where to find the token. */
export function tokenHint() {
  return el("p", { class: "hint" }, "It is in the file ", el("code", { text: "server.token" }), " in the data folder of the user that runs the server, by default ",
    el("code", { text: "~/.local/share/neuraxis/server.token" }), "; the server's log names the file. On a terminal, the server prints the address of this page with the token in it.");
}

let asking;

/** Asks for a key or token to replace the current one. The page then reloads, so nothing of another user's data remains. */
export async function changeKey() {
  const detail = key() ? "This tab has a key or token. A new one replaces it." : "This tab has no key or token.";
  if (await askForKey(detail, "Key of this tab")) location.reload();
}

/** Asks for a key or token and resolves with whether there is one now. Concurrent callers wait for the same answer. */
export function askForKey(detail, title = "This server asks who you are") {
  asking ??= new Promise((resolve) => {
    const field = el("input", { type: "password", id: "key-field", autocomplete: "off", spellcheck: "false", class: "field", "aria-describedby": "key-detail" });
    const form = el("form", { method: "dialog", class: "stack" },
      el("p", { id: "key-detail", text: detail }),
      el("p", { text: "Ask the operator of this server for yours." }),
      el("label", { for: "key-field", text: "Key or token" }), field,
      el("p", { class: "hint" }, "A key is created with ", el("code", { text: "neuraxis-server keys create" }), ". Without keys, decisions need the token:"),
      tokenHint(),
      el("div", { class: "row end" },
        button({ text: "Not now", className: "quiet", onClick: () => dialog.close() }),
        el("button", { class: "button primary", text: "Use it" })));
    let given = false;
    form.addEventListener("submit", () => {
      given = field.value.trim() !== "";
      if (given) setKey(field.value);
    });
    const dialog = openDialog("key", title, form);
    dialog.addEventListener("close", () => { asking = undefined; resolve(given); });
    field.focus();
  });
  return asking;
}
