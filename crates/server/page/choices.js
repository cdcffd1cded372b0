// The settings for a turn: agent, channel and mode, and what the policy decides for them.

import { setReported } from "./access.js";
import { get, path, post } from "./api.js";
import { appendVisible, button, el, factList, fill, icon } from "./dom.js";
import { duration, parsed } from "./format.js";
import { inBrowser, inTab } from "./storage.js";

const PLACE = "neuraxis.choices";

const NAMES = ["agent", "channel", "mode"];

/** The agent that answers if neither the turn nor its channel names one. */
const USUAL = "main_thread";

export class Choices {
  /** `draft` returns the message being written. */
  constructor({ draft }) {
    this.draft = draft;
    // Another tab's later choice must not apply here, where a turn might then have more freedom than its user intended.
    if (inTab.get(PLACE) === null) inTab.set(PLACE, inBrowser.get(PLACE) ?? "{}");
    this.fields = Object.fromEntries(NAMES.map((name) => [name, el("select", { class: "choice", hidden: true, "aria-label": name[0].toUpperCase() + name.slice(1), on: { change: () => this.changed() } })]));
    this.panel = el("section", { class: "explained", hidden: true, id: "explained", "aria-label": "What the policy decides", "aria-live": "polite" });
    this.toggle = button({ name: "shield", text: "Why?", label: "What the policy decides about this choice", className: "quiet small", "aria-expanded": "false", "aria-controls": "explained", onClick: () => this.open(this.panel.hidden) });
    /** For narrow windows: a summary of the choice, which opens the fields. */
    this.word = el("span");
    this.unfold = el("button", { type: "button", class: "button quiet small choices-word", "aria-expanded": "false", "aria-controls": "choices", on: { click: () => this.fold(this.node.classList.contains("unfolded")) } }, el("span", { class: "hidden", text: "Choices: " }), this.word, icon("chevron", "chevron"));
    const labeled = NAMES.map((name) => el("div", { class: "choice-field" }, el("span", { class: "choice-name", "aria-hidden": "true", text: this.fields[name].ariaLabel }), this.fields[name]));
    this.node = el("div", { class: "choices" }, this.unfold, el("div", { class: "choice-fields", id: "choices" }, labeled, this.toggle));
  }

  fold(isFolded) {
    this.node.classList.toggle("unfolded", !isFolded);
    this.unfold.setAttribute("aria-expanded", String(!isFolded));
  }

  /** Loads the available choices. A concurrent call shares the load. */
  load({ asks = true } = {}) {
    this.loading ??= this.offer(asks).finally(() => { this.loading = undefined; });
    return this.loading;
  }

  async offer(asks) {
    const policy = await get("/policy", { asks });
    setReported(policy);
    const { kept } = this;
    const lists = { agent: policy.agents, channel: policy.channels, mode: policy.modes };
    const usual = { channel: "chat", mode: "moderate" };
    for (const name of NAMES) {
      const field = this.fields[name];
      // A key for specific agents must name one.
      const first = name === "agent" && lists.agent.includes(USUAL) ? [el("option", { value: "", text: "Default agent" })] : [];
      fill(field, first, lists[name].map((it) => el("option", { value: it, text: it.replaceAll("_", " ") })));
      // The stored choice may no longer be available.
      const wanted = [kept[name], usual[name]].find((it) => lists[name].includes(it));
      if (wanted) field.value = wanted;
      field.hidden = false;
    }
    this.isLoaded = true;
    this.tell();
  }

  /** Shows the choice. The usual agent is not mentioned. */
  tell() {
    this.word.textContent = Object.values(this.chosen).map((it) => it.replaceAll("_", " ")).join(" · ");
  }

  /** The last choice in this tab. A new tab starts with the last choice in any tab. */
  get kept() {
    return parsed(inTab.get(PLACE)) ?? {};
  }

  /** The choice in a turn's terms. Until the fields are loaded, this is the stored choice: without it, a turn would have more freedom
   *  than the user gave it. */
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

/** Renders a decision of the policy. */
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
