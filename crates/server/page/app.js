// The page: the current view, the list at the side, and the theme. The address determines the view.

import { changeKey, readKeyFromAddress } from "./access.js";
import { path, remove } from "./api.js";
import { appendInOrder, button, eachFrame, el, fill, inOrder, isByFinger } from "./dom.js";
import { Chat } from "./chat.js";
import { inBrowser } from "./storage.js";
import { RunPage } from "./run.js";
import { RunsPage } from "./runs.js";
import { SessionList } from "./sessions.js";
import { StatsPage } from "./stats.js";

const THEME = "neuraxis.theme";

class App {
  constructor() {
    this.main = document.getElementById("main");
    this.side = document.getElementById("side");
    this.sessions = new SessionList({ go: (id) => go(id ? path`/sessions/${id}` : "/") });
    this.closer = button({ name: "cross", label: "Close the list", className: "quiet only-narrow", onClick: () => this.fold() });
    const head = el("div", { class: "side-head" }, el("a", { class: "brand", href: "#/" }, el("span", { class: "brand-mark", "aria-hidden": "true" }), "Neuraxis"), this.closer);
    this.links = [["#/runs", "All runs"], ["#/stats", "Statistics"]].map(([href, text]) => el("a", { class: "button quiet", href }, text));
    fill(this.side, head, this.sessions.node, el("div", { class: "side-foot" }, this.links, button({ name: "key", label: "Key or token of this tab", className: "quiet", onClick: changeKey }), themeButton()));
    this.veil = document.getElementById("veil");
    this.veil.addEventListener("click", () => this.fold());
    this.unfolder = document.getElementById("unfold");
    this.unfolder.addEventListener("click", () => this.unfold());
    // A link to the current view does not change the address, so close the list here.
    this.side.addEventListener("click", (event) => event.target.closest("a, .new") && this.fold());
    // On a wide window, the list covers nothing.
    matchMedia("(max-width: 47.5em)").addEventListener("change", () => this.fold());
    // A dialog above the list is closed first.
    addEventListener("keydown", (event) => event.key === "Escape" && !event.target.closest?.("dialog") && this.fold());
    // The address selects the view, so this link must not change it.
    document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); this.fold(); (this.view.scroller ?? this.view.node).focus(); });
    addEventListener("titles", async () => {
      if (this.view instanceof Chat) await this.view.peek().catch(() => {});
      this.name();
    });
    addEventListener("hashchange", () => this.show());
    addEventListener("access", () => this.sessions.refresh());
    const back = eachFrame(() => this.comeBack());
    addEventListener("focus", back);
    document.addEventListener("visibilitychange", back);
    // Otherwise a file dropped outside its target would replace the page.
    for (const kind of ["dragover", "drop"]) addEventListener(kind, keepOut);
  }

  /** Shows the title of the view above it, for narrow windows. */
  name() {
    const isChat = this.view instanceof Chat;
    const { sessions } = this;
    const id = isChat ? this.view.sessionId : undefined;
    const session = id && sessions.known(id);
    const title = !isChat ? this.view.title : (session && sessions.nameOf(session)) || (session ? "Session" : "New session");
    for (const place of [document.getElementById("where"), isChat && this.view.heading]) if (place) appendInOrder(fill(place), title);
    // A first message is visible beneath it.
    if (isChat) this.view.heading.classList.toggle("hidden", !session || !sessions.isTitled(session));
    // Heard when the focus comes to the field, as it does in a view that was just opened.
    if (isChat) this.view.composer.node.setAttribute("aria-label", inOrder(title));
    // The title is all that is visible from another tab.
    document.title = `${isChat && this.view.state === "waiting" ? `Waiting for ${this.view.awaited} · ` : ""}${inOrder(title)} · Neuraxis`;
  }

  /** Loads what happened elsewhere while the user was away. */
  comeBack() {
    if (document.hidden) return;
    this.sessions.refresh({ asks: false });
    // A failure is reported when the user sends a message.
    if (this.view instanceof Chat) this.view.catchUp({ asks: false }).catch(() => {});
  }

  unfold() {
    this.setUnfolded(true);
    // Focusing a field would open a keyboard over the list.
    (isByFinger() ? this.closer : this.sessions.search).focus();
  }

  fold() {
    if (!document.body.classList.contains("unfolded")) return;
    this.setUnfolded(false);
    this.unfolder.focus();
  }

  /** Opens or closes the list above the page, and disables what it covers while it is open. */
  setUnfolded(is) {
    document.body.classList.toggle("unfolded", is);
    document.getElementById("stage").inert = is;
    this.unfolder.setAttribute("aria-expanded", String(is));
  }

  show() {
    readKeyFromAddress();
    const [, kind, id] = location.hash.slice(1).split("/");
    let name;
    try {
      name = id === undefined ? undefined : decodeURIComponent(id);
    } catch {
      name = id;
    }
    // A session that was just created is already shown.
    if (kind === "sessions" && this.view instanceof Chat && this.view.sessionId === name) return;
    // After looking at runs, the user returns to the same place in the conversation.
    if (this.view instanceof Chat) this.left = { session: this.view.sessionId, place: this.view.readingPosition };
    this.view?.close();
    this.setUnfolded(false);
    if (kind === "runs" || kind === "stats") {
      this.view = kind === "stats" ? new StatsPage() : name ? new RunPage(name) : new RunsPage();
      this.sessions.select(undefined);
    } else {
      const session = kind === "sessions" ? name : undefined;
      // A user who went elsewhere while a session was created stays there, and finds it in the list.
      const chat = new Chat(session, {
        made: (made, text) => {
          this.sessions.call(made, text);
          if (this.view === chat) {
            history.replaceState(null, "", path`#/sessions/${made}`);
            this.sessions.current = made;
          }
          this.sessions.refresh();
        },
        unmade: (made) => {
          // From here, the link to a new session must change the address.
          history.replaceState(null, "", location.pathname + location.search);
          this.sessions.current = undefined;
          this.name();
          remove(path`/sessions/${made}`, { asks: false }).catch(() => {}).then(() => this.sessions.refresh({ asks: false }));
        },
        // A user who gave no key for the ended run is not asked again.
        changed: () => this.sessions.refresh({ asks: false }),
        atWork: (state) => {
          if (this.view === chat) this.name();
          // The end of a run is reported to the list by `changed`, once the run is no longer followed.
          if (state) this.sessions.refresh({ asks: false });
        },
        go: (other) => {
          this.sessions.refresh();
          if (this.view === chat) go(path`/sessions/${other}`);
        },
        title: (id) => this.sessions.nameOf(this.sessions.known(id)) ?? `Session ${id}`,
        rename: (id) => this.sessions.askForTitle(id),
        begin: (text, files) => {
          history.pushState(null, "", "#/");
          this.show();
          return this.view.send(text, files);
        },
      }, session && this.left?.session === session ? this.left.place : undefined);
      this.view = chat;
      this.sessions.select(session);
    }
    fill(this.main, this.view.node);
    for (const link of this.links) link.ariaCurrent = link.hash === location.hash ? "page" : null;
    this.name();
    this.view.open();
    if (this.view.composer) this.view.composer.focus(this.main);
    else this.view.node.focus({ preventScroll: true });
  }
}

function keepOut(event) {
  if (event.defaultPrevented || !event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "none";
}

function go(where) {
  location.hash = where;
}

function themeButton() {
  const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const node = button({ name: "theme", label: "Switch between dark and light", className: "quiet", onClick: () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    inBrowser.set(THEME, next);
  } });
  return node;
}

const theme = inBrowser.get(THEME);
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
const app = new App();
app.show();
app.sessions.refresh();
