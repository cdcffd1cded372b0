// What a turn is taken with: agent, channel and mode, and what the policy makes of the choice.

import { noteScopes } from "./access.js";
import { get, path, post } from "./api.js";
import { appendVisible, button, el, factList, fill, icon } from "./dom.js";
import { duration, parsed } from "./format.js";
import { inBrowser, inTab } from "./kept.js";

const PLACE = "neuraxis.choices";

const NAMES = ["agent", "channel", "mode"];

/** The agent that answers where neither the turn nor its channel names one. */
const USUAL = "main_thread";

export class Choices {
  /** `draft` returns what the user is about to say. */
  constructor({ draft }) {
    this.draft = draft;
    // What another tab chooses from now on is not the choice of this one, where a turn might then do more than its person allows.
    if (inTab.get(PLACE) === null) inTab.set(PLACE, inBrowser.get(PLACE) ?? "{}");
    this.fields = Object.fromEntries(NAMES.map((name) => [name, el("select", { class: "choice", hidden: true, "aria-label": name[0].toUpperCase() + name.slice(1), on: { change: () => this.changed() } })]));
    this.panel = el("section", { class: "explained", hidden: true, id: "explained", "aria-label": "What the policy decides", "aria-live": "polite" });
    this.toggle = button({ name: "shield", text: "Why?", label: "What the policy decides about this choice", className: "quiet small", "aria-expanded": "false", "aria-controls": "explained", onClick: () => this.open(this.panel.hidden) });
    /** Where there is no room for all of them: what is chosen in a word, and behind it the fields. */
    this.word = el("span");
    this.unfold = el("button", { type: "button", class: "button quiet small choices-word", "aria-expanded": "false", "aria-controls": "choices", on: { click: () => this.fold(this.node.classList.contains("unfolded")) } }, el("span", { class: "hidden", text: "Choices: " }), this.word, icon("chevron", "chevron"));
    const labeled = NAMES.map((name) => el("div", { class: "choice-field" }, el("span", { class: "choice-name", "aria-hidden": "true", text: this.fields[name].ariaLabel }), this.fields[name]));
    this.node = el("div", { class: "choices" }, this.unfold, el("div", { class: "choice-fields", id: "choices" }, labeled, this.toggle));
  }

  fold(isFolded) {
    this.node.classList.toggle("unfolded", !isFolded);
    this.unfold.setAttribute("aria-expanded", String(!isFolded));
  }

  /** Loads what there is to choose from. One that is being loaded is not loaded twice. */
  load({ asks = true } = {}) {
    this.loading ??= this.offer(asks).finally(() => { this.loading = undefined; });
    return this.loading;
  }

  async offer(asks) {
    const policy = await get("/policy", { asks });
    noteScopes(policy.scopes);
    const { kept } = this;
    const lists = { agent: policy.agents, channel: policy.channels, mode: policy.modes };
    const usual = { channel: "chat", mode: "moderate" };
    for (const name of NAMES) {
      const field = this.fields[name];
      // A key for other agents alone may not leave it out.
      const first = name === "agent" && lists.agent.includes(USUAL) ? [el("option", { value: "", text: "Usual agent" })] : [];
      fill(field, first, lists[name].map((it) => el("option", { value: it, text: it.replaceAll("_", " ") })));
      // What was kept may be gone by now.
      const wanted = [kept[name], usual[name]].find((it) => lists[name].includes(it));
      if (wanted) field.value = wanted;
      field.hidden = false;
    }
    this.isLoaded = true;
    this.tell();
  }

  /** Says what is chosen. The usual agent goes without saying. */
  tell() {
    this.word.textContent = Object.values(this.chosen).map((it) => it.replaceAll("_", " ")).join(" · ");
  }

  /** What was chosen the last time in this tab. A new one begins with what was chosen last in any. */
  get kept() {
    return parsed(inTab.get(PLACE)) ?? {};
  }

  /** What is chosen, as a turn names it. Until the fields are there that is what was kept: without it, a turn would have more
   *  freedom than somebody gave it. */
  get chosen() {
    const { kept } = this;
    const entries = NAMES.map((name) => [name, this.isLoaded ? this.fields[name].value : kept[name]]).filter(([, value]) => value);
    return Object.fromEntries(entries);
  }

  changed() {
    const chosen = JSON.stringify(this.chosen);
    for (const kept of [inTab, inBrowser]) kept.set(PLACE, chosen);
    this.tell();
    if (!this.panel.hidden) this.explain();
  }

  open(isOpen) {
    this.panel.hidden = !isOpen;
    this.toggle.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.explain();
  }

  async explain() {
    const asked = (this.asked = {});
    const message = this.draft().trim() || "Hello";
    let shown;
    try {
      shown = shownDecision(await post(path`/policy/explain`, { message, ...this.chosen }));
    } catch (problem) {
      shown = [el("p", { class: "line-note error" }, problem.message)];
    }
    // A later choice may have been explained meanwhile.
    if (asked === this.asked) fill(this.panel, shown);
  }
}

/** A decision of the policy, for people. */
export function shownDecision(decision) {
  const limits = decision.limits ?? {};
  const facts = [
    ["Agent", decision.agent ?? decision.profile],
    ["Model", decision.role],
    ["Mode", decision.mode],
    ["Channel", decision.channel],
    ["Turns", limits.max_turns],
    ["Time", limits.deadline_ms && duration(limits.deadline_ms)],
    ["Plan", limits.plan],
  ];
  return [
    factList(facts),
    el("ul", { class: "reasons" }, (decision.reasons ?? []).map((reason) => appendVisible(el("li"), reason))),
  ];
}
