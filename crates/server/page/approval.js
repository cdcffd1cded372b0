// A question to the user about one call: exactly what would run, why a decision is needed, and the answer.

import { mayDecide } from "./access.js";
import { path, post } from "./api.js";
import { Card } from "./card.js";
import { announce, appendVisible, button, codeBox, el, fill, icon, isComposing } from "./dom.js";
import { spread } from "./format.js";
import { briefOf, changesOf, shownArguments } from "./tool.js";

const CAUSES = {
  untrusted_content: "The conversation contains untrusted content: review this call carefully.",
};

/** How many lines of a file are rendered at once: the content to decide about is shown in full, unless that would block the page. */
const MOST = 5_000;

export class ApprovalView extends Card {
  /** `approval` is a question from the server; `plan` names the plan limits of its run, if any; `reload` loads the question again after
   *  it has changed. */
  constructor(approval, { plan, reload }) {
    super(() => this.approve?.focus());
    Object.assign(this, { approval, reload });
    const { request, altered } = approval;
    const title = el("h3", { id: `${this.id}-title` }, icon("hand"), altered ? "Cannot be approved: " : "Allow ", appendVisible(el("code"), request.name), altered ? "" : " to run?",
      // Distinguishes the buttons from those of another question about the same tool.
      appendVisible(el("span", { class: "hidden" }), ` ${briefOf(request.name, request.arguments)}`));
    const why = [appendVisible(el("p", { class: "why" }), request.reason)];
    for (const cause of request.causes ?? []) if (CAUSES[cause]) why.push(el("p", { class: "line-note warn", text: CAUSES[cause] }));
    if (altered) why.push(appendVisible(el("p", { class: "line-note error" }), `The stored question is not the one that was asked: ${altered}`));
    const canApprove = !altered && mayDecide();
    // Someone who goes to the buttons by keyboard hears them on the way.
    why.forEach((line, at) => { line.id = `${this.id}-why-${at}`; });
    this.node.setAttribute("aria-describedby", why.map(({ id }) => id).join(" "));
    fill(this.node, title, why, this.what(request), canApprove ? this.editor(request) : null, this.token, canApprove ? this.memory(request) : null, this.problem, this.answers(altered),
      plan && appendVisible(el("p", { class: "hint" }), `The run's usage counts toward the plan ${plan}`),
      request.expires_at && this.openUntil(request.expires_at, request.name));
  }

  what({ name, arguments: args }) {
    const changes = changesOf(name, args, MOST);
    // Removed once everything has been shown.
    const unseen = el("p", { class: "line-note warn unseen", text: "Not everything is shown yet: review the rest before you decide." });
    const label = "Full arguments";
    if (!changes) return el("div", { class: "what" }, shownArguments(args, { label, exact: "exact", whole: "whole" }), unseen);
    const whole = codeBox(spread(args), { label, className: "exact" });
    return el("div", { class: "what" }, changes, unseen, el("details", {}, el("summary", { text: "All arguments" }), whole));
  }

  /** Other arguments to run the call with instead. */
  editor({ arguments: args }) {
    // Filled from the start: a browser reports that the field was opened only after the user can type in it.
    this.other = el("textarea", { class: "field mono", rows: "6", spellcheck: "false", value: spread(args), id: `${this.id}-args`, "aria-describedby": `${this.id}-args-hint` });
    this.editing = el("details", { class: "edit", on: { toggle: () => {
      if (this.remember) this.remember.disabled = this.editing.open;
    } } }, el("summary", { text: "Edit the arguments" }),
    el("label", { class: "hidden", for: `${this.id}-args`, text: "Arguments as JSON" }), this.other,
    el("p", { class: "hint", id: `${this.id}-args-hint`, text: "While this editor is open, approving runs the call once with these arguments instead." }));
    return this.editing;
  }

  memory({ choices, name }) {
    if (!choices?.length) return null;
    this.remember = el("select", { class: "field", id: `${this.id}-remember` }, el("option", { value: "", text: "This time only" }),
      choices.map((choice, at) => appendVisible(el("option", { value: String(at) }), describe(choice, name))));
    return el("div", { class: "row remember" }, el("label", { for: `${this.id}-remember`, text: "If approved, allow" }), this.remember);
  }

  answers(altered) {
    this.reason = el("input", { class: "field", id: `${this.id}-reason`, placeholder: "Why not? The model sees this (optional)", "aria-label": "Reason for denying", on: { keydown: (event) => {
      if (event.key === "Enter" && !isComposing(event)) { event.preventDefault(); this.decide("deny"); }
    } } });
    this.approve = altered ? null : button({ name: "check", text: "Approve", className: "primary", onClick: () => this.decide("approve") });
    this.controls = [this.approve, button({ name: "cross", text: "Deny", className: "danger", onClick: () => this.decide("deny") })].filter(Boolean);
    return this.answerRow(this.controls, this.reason);
  }

  async decide(decision) {
    const { request, run_id: run, question } = this.approval;
    const body = { decision, question };
    if (decision === "deny" && this.reason.value.trim()) body.reason = this.reason.value.trim();
    if (decision === "approve" && this.editing?.open) {
      try {
        JSON.parse(this.other.value);
      } catch (error) {
        return this.complain(`The arguments are not JSON: ${error.message}`, this.other);
      }
    } else if (decision === "approve" && this.remember?.value) body.remember = Number(this.remember.value);
    const where = path`/runs/${run}/approvals/${request.tool_call_id}`;
    if (!(await this.answer("Deciding", () => post(where, undefined, { text: this.said(body), asks: false })))) return undefined;
    announce(decision === "approve" ? "Approved" : "Denied");
    fill(this.node, el("p", { class: "line-note" }, icon("spinner", "spins"), decision === "approve" ? "Approved; it is running." : "Denied; the model will see it."));
    return undefined;
  }

  /** Returns the decision as JSON. Edited arguments are sent exactly as written, to the last digit. */
  said(body) {
    const json = JSON.stringify(body);
    if (body.decision === "deny" || !this.editing?.open) return json;
    return `${json.slice(0, -1)},"arguments":${this.other.value}}`;
  }

  refused(problem) {
    this.complain(problem.message);
    if (["other-question", "not-asked", "run-ended", "question-expired"].includes(problem.kind)) this.reload();
  }
}

function describe(choice, name) {
  const session = "in this session";
  const access = choice.access?.length ? `, with ${choice.access.join(" and ")}` : "";
  switch (choice.scope) {
    case "arguments": return `The same arguments ${session}`;
    case "command": return `Commands like ${choice.pattern}${access} ${session}`;
    case "host": return `${name} at ${choice.pattern} ${session}`;
    case "path": return `${name} of ${choice.pattern} ${session}`;
    default: return `Every call of ${name} ${session}`;
  }
}
