// A tool's question to the user in the middle of its call: a small form in the tool's words, and the answer, which goes to the tool.

import { whoDecides } from "./access.js";
import { path, post } from "./api.js";
import { Card } from "./card.js";
import { announce, appendVisible, button, el, fill, icon } from "./dom.js";

/** The input types for the formats that browsers support. */
const TYPES = { email: "email", uri: "url", date: "date" };

/** The outcomes of a question, for the line that remains of it. */
export const SETTLED = {
  answered: "Its question was answered",
  declined: "Its question was declined",
  cancelled: "Its question was dismissed",
  expired: "Its question was not answered in time",
  withdrawn: "It no longer waits for an answer",
};

/** The questions of a run's tools. After a lost connection they are received again, but each is shown once. */
export class Questions {
  constructor() {
    /** By id. A settled question stays as an empty entry. */
    this.views = new Map();
  }

  /** Whether a question waits for its answer. */
  get isOpen() {
    return [...this.views.values()].some(Boolean);
  }

  /** Shows a question beneath its call and returns its card, or undefined if it was shown before. */
  show(question, call, runId) {
    if (this.views.has(question.question_id)) return undefined;
    const view = new QuestionView(question, runId);
    this.views.set(question.question_id, view);
    call.setState("asks");
    call.below.append(view.node);
    announce(`${question.from} asks ${whoDecides()} something`);
    return view.node;
  }

  /** Removes a question and returns its card, or undefined if it was removed before. */
  settle(id) {
    const view = this.views.get(id);
    this.views.set(id, undefined);
    view?.remove();
    return view;
  }

  /** Removes the questions of a call that has ended, or of all calls. */
  settleAll(call) {
    for (const [id, view] of this.views) if (!call || view?.question.tool_call_id === call) this.settle(id);
  }
}

class QuestionView extends Card {
  /** `question` is the run's event that asks. */
  constructor(question, runId) {
    super(() => this.accept.focus());
    Object.assign(this, { question, runId });
    this.fields = question.fields.map((field, at) => new FieldView(field, `${this.id}-${at}`));
    this.form = el("form", { class: "stack", id: `${this.id}-form`, on: { submit: (event) => { event.preventDefault(); this.send("accept"); } } }, this.fields.map((field) => field.node));
    this.accept = el("button", { class: "button primary", type: "submit", form: this.form.id }, icon("check"), el("span", { text: "Answer" }));
    this.controls = [this.accept, button({ name: "cross", text: "Decline", className: "danger", onClick: () => this.send("decline") })];
    this.node.setAttribute("aria-describedby", `${this.id}-words`);
    fill(this.node,
      el("h3", { id: `${this.id}-title` }, icon("hand"), appendVisible(el("code"), question.from), ` asks ${whoDecides()}`),
      appendVisible(el("p", { class: "stranger", id: `${this.id}-words` }), question.message),
      el("p", { class: "line-note warn", text: "This text comes from the tool, and your answer goes to it. Don't enter anything secret." }),
      this.form, this.token, this.problem,
      this.answerRow(this.controls),
      this.openUntil(question.expires_at, question.from));
  }

  async send(action) {
    const body = { action };
    if (action === "accept") body.content = Object.fromEntries(this.fields.map((field) => [field.name, field.value]).filter(([, value]) => value !== undefined));
    const where = path`/runs/${this.runId}/questions/${this.question.question_id}`;
    if (await this.answer("Answering", () => post(where, body, { asks: false }))) announce(action === "accept" ? "Answered" : "Declined");
  }

  refused(problem) {
    const at = this.fields.find((field) => problem.document.field === `content.${field.name}`);
    this.complain(problem.message, at?.control);
  }
}

/** One field: its name, its description, and its input. */
class FieldView {
  constructor(field, id) {
    Object.assign(this, { field, id, name: field.name });
    const title = appendVisible(el("span"), field.title ?? field.name);
    if (!field.required) title.append(el("span", { class: "hint", text: " (optional)" }));
    const about = field.description ? appendVisible(el("p", { class: "hint", id: `${id}-about` }), field.description) : null;
    if (field.kind === "any_of") {
      this.boxes = field.choices.map((choice) => el("input", { type: "checkbox", value: choice.value, checked: (field.default ?? []).includes?.(choice.value) }));
      this.control = this.boxes[0];
      this.node = el("fieldset", { class: "asked-field", "aria-describedby": about?.id }, el("legend", {}, title), about,
        field.choices.map((choice, at) => el("label", { class: "row" }, this.boxes[at], appendVisible(el("span"), choice.title))));
      return;
    }
    this.control = this.made();
    this.control.id = id;
    this.control.required = field.required;
    if (about) this.control.setAttribute("aria-describedby", about.id);
    this.node = el("div", { class: "asked-field" }, el("label", { for: id }, title), about, this.control);
  }

  made() {
    const { field } = this;
    if (field.kind === "one_of" || field.kind === "boolean") return this.choice();
    const given = field.default === undefined ? "" : String(field.default);
    if (field.kind === "text") return el("input", { class: "field", type: TYPES[field.format] ?? "text", value: given, placeholder: TYPES[field.format] ? undefined : field.format, autocomplete: "off" });
    return el("input", { class: "field", type: "number", step: field.kind === "integer" ? "1" : "any", min: field.min, max: field.max, value: given });
  }

  /** One of several values. Nothing is preselected, so that the user must look. */
  choice() {
    const { field } = this;
    const choices = field.choices ?? [{ value: "true", title: "Yes" }, { value: "false", title: "No" }];
    const given = field.default === undefined ? "" : String(field.default);
    const options = choices.map(({ value, title }) => appendVisible(el("option", { value, selected: value === given }), title));
    return el("select", { class: "field" }, el("option", { value: "", text: field.required ? "Choose" : "Nothing" }), options);
  }

  /** The value as the answer states it, or undefined if it is left out. */
  get value() {
    if (this.boxes) {
      const chosen = this.boxes.filter((box) => box.checked).map((box) => box.value);
      return chosen.length || this.field.required ? chosen : undefined;
    }
    const text = this.control.value;
    if (text === "") return undefined;
    if (this.field.kind === "boolean") return text === "true";
    return this.field.kind === "integer" || this.field.kind === "number" ? Number(text) : text;
  }
}
