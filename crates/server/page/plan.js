// The plan of a session as a checklist.

import { appendVisible, el, fill, icon } from "./dom.js";

const WORDS = { done: "done", in_progress: "in progress", pending: "to do" };
const ICONS = { done: "check", in_progress: "arrow", pending: "dot" };

/** Returns the steps of a plan, or nothing if there are none. */
export function showPlan(plan) {
  const steps = Array.isArray(plan?.steps) ? plan.steps : [];
  if (steps.length === 0) return undefined;
  return el("ol", { class: "plan" }, steps.map(({ step, status }) => {
    const known = WORDS[status] ? status : "pending";
    return el("li", { data: { status: known } }, icon(ICONS[known]), el("span", { class: "hidden", text: `${WORDS[known]}: ` }), appendVisible(el("span"), String(step ?? "")));
  }));
}

/** The plan above the composer, collapsed to the current step. */
export class PlanPanel {
  constructor() {
    this.title = el("span", { class: "plan-now" });
    this.count = el("span", { class: "tag" });
    this.body = el("div");
    this.node = el("details", { class: "plan-panel", hidden: true },
      el("summary", {}, icon("list"), el("span", { class: "plan-word", text: "Plan" }), this.title, this.count, icon("chevron", "chevron")), this.body);
  }

  set(plan) {
    const steps = Array.isArray(plan?.steps) ? plan.steps : [];
    this.node.hidden = steps.length === 0;
    if (this.node.hidden) return;
    const done = steps.filter((step) => step.status === "done").length;
    const now = steps.find((step) => step.status === "in_progress") ?? steps.find((step) => step.status === "pending");
    this.title.textContent = now ? String(now.step) : "All done";
    this.count.textContent = `${done}/${steps.length}`;
    fill(this.body, showPlan(plan));
  }
}
