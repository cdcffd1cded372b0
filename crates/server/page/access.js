// The token or key that the server is shown: read once from the address, kept for this tab alone, asked for when it is needed.

import { button, el, openDialog } from "./dom.js";
import { inTab } from "./kept.js";

const PLACE = "neuraxis.key";

/** Why a session that can be read takes no turn: to an admin who is not its owner, the server says that it is not there. */
export const NOT_OWN = {
  type: "/errors/no-such-session", title: "This session is somebody else's",
  detail: "Its owner alone says something in it, or goes on with what stands here.",
};

/** What the server said that the key which is shown may do; nothing before it did. */
let scopes;

/** What is shown to the server, if there is something. */
export function key() {
  return inTab.get(PLACE) ?? undefined;
}

/** Keeps what is shown from now on; another one takes its place. */
export function keep(text) {
  scopes = undefined;
  const trimmed = (text ?? "").trim();
  if (trimmed) inTab.set(PLACE, trimmed);
  else inTab.remove(PLACE);
  window.dispatchEvent(new Event("access"));
}

/** Notes what the server says that whoever shows this may do. */
export function noteScopes(said) {
  scopes = said;
}

/** Whether a decision may be taken; whoever shows nothing is asked for the token. */
export function mayDecide() {
  return !key() || !scopes || scopes.includes("approve");
}

/** Whom a run waits for that waits for a decision, or for an answer to what a tool asks. */
export function whoDecides() {
  return mayDecide() ? "you" : "somebody who may decide";
}

/** Whether a run, as the server tells of it, waits for a decision, or for an answer to what a tool asks, and not for a client's tool alone. */
export function isAsked({ questions, result }) {
  return questions?.length > 0 || Boolean(result?.pending?.some(({ kind }) => kind === "approval"));
}

/** Whom a run waits for. */
export function whomFor(asked) {
  return asked ? whoDecides() : "a client";
}

/** Takes `#token=…` out of the address. */
export function takeFromAddress() {
  const found = /^#token=([^&]*)/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    keep(decodeURIComponent(found[1]));
  } catch {
    // What is no token is asked for.
  }
}

/** Says where the token is, for who does not have it. */
export function whereItIs() {
  return el("p", { class: "hint" }, "It stands in the file ", el("code", { text: "server.token" }), " in the data folder of the user that runs the server, by default ",
    el("code", { text: "~/.local/share/neuraxis/server.token" }), "; the server's log names the file. At a terminal, the server prints an address of this page that holds it.");
}

let asking;

/** Asks for a key or a token in the place of the one that is shown. The page begins anew with it: nothing stays that was another's. */
export async function changeKey() {
  const detail = key() ? "This tab shows a key or token. Another one takes its place." : "This tab shows neither a key nor a token.";
  if (await askForKey(detail, "Key of this tab")) location.reload();
}

/** Asks for a key or a token and resolves with whether there is one now. Who asks meanwhile waits for the same answer. */
export function askForKey(detail, title = "This server asks who you are") {
  asking ??= new Promise((resolve) => {
    const field = el("input", { type: "password", id: "key-field", autocomplete: "off", spellcheck: "false", class: "field", "aria-describedby": "key-detail" });
    const form = el("form", { method: "dialog", class: "stack" },
      el("p", { id: "key-detail", text: detail }),
      el("p", { text: "Ask whoever runs this server for yours." }),
      el("label", { for: "key-field", text: "Key or token" }), field,
      el("p", { class: "hint" }, "A key is made by ", el("code", { text: "neuraxis-server keys create" }), ". Without keys, decisions need the token:"),
      whereItIs(),
      el("div", { class: "row end" },
        button({ text: "Not now", className: "quiet", onClick: () => dialog.close() }),
        el("button", { class: "button primary", text: "Use it" })));
    let given = false;
    form.addEventListener("submit", () => {
      given = field.value.trim() !== "";
      if (given) keep(field.value);
    });
    const dialog = openDialog("key", title, form);
    dialog.addEventListener("close", () => { asking = undefined; resolve(given); });
    field.focus();
  });
  return asking;
}
