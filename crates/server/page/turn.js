// One run in a conversation: the user's message, its outcome, and its usage. It is built from the run's events alone, so a run in progress,
// an ended one and a replayed one look the same.

import { mayDecide, whoDecides, whoMustAct } from "./access.js";
import { get, now, path } from "./api.js";
import { ApprovalView } from "./approval.js";
import { AgentView } from "./agent.js";
import { alertLine, announce, appendInOrder, appendVisible, button, copyButton, el, failure, fill, icon, isComposing, isSending, passFocus, submitOnce, timeOf } from "./dom.js";
import { clock, costOf, decisionOf, duration, endingOf, oneLine, reasonOf, sumOf, textOf, tokensOf } from "./format.js";
import { filesOf, shownFiles, shownOnTheWay, wordsOf } from "./files.js";
import { Questions, SETTLED } from "./question.js";
import { isLast } from "./stream.js";
import { link } from "./inline.js";

/** How long events are processed before the page can do something else, in milliseconds: as long as that took the last time, between
 *  these two limits. The longer a turn gets, the longer drawing it takes. */
const SLICE = 10;
const MAX_SLICE = 200;

/** For how many seconds a run may work before its duration is shown. */
const PATIENCE = 10;

/** The turn number of a fork from the end of a run, whatever that is. It cannot be requested. */
const WHOLE = 2 ** 32 - 1;

/** The endings of a run that need no explanation. */
const QUIET = new Set(["stop", "clarify"]);

/** The maximum length of an answer that is announced in full, in characters. A screen reader cannot pause or repeat an announcement. */
const SPOKEN = 300;

/** The errors after which a provider may have used tokens. */
const MAY_COST = new Set(["timeout", "invalid_response", "server", "content_filtered", "incomplete", "cancelled"]);

export class TurnView {
  /** `hooks`: `retry`, `fork`, `edit` and `changed` of the enclosing conversation, and `plan`, `steered` and `isLive` for runs whose
   *  events are news. All are optional. */
  constructor({ runId, text, files = [], at, hooks = {} }) {
    Object.assign(this, { runId, hooks, files, message: text ?? "" });
    this.queue = [];
    this.agents = new Map();
    this.asks = new Map();
    this.questions = new Questions();
    this.status = "running";
    /** What the run does while it is not waiting. */
    this.doing = "Sending…";
    /** The calls that wait for outside input, each with the kind of input. */
    this.pending = new Map();
    /** How often the connection was lost since the last event. */
    this.losses = 0;
    this.bubble = el("div", { class: "bubble", lang: "" });
    this.title = el("h2", { class: "hidden", lang: "", text: oneLine(text || "A turn", 80) });
    this.attached = el("div", { class: "files" }, shownOnTheWay(files));
    this.saidActions = el("div", { class: "row said-actions" }, copyButton(() => this.message, "Copy the message"),
      hooks.edit && button({ name: "pencil", label: "Edit the message and ask again", className: "quiet small", onClick: () => this.edit() }));
    this.said = el("div", { class: "said", hidden: !text }, this.attached, this.bubble, this.saidActions);
    this.body = el("div", { class: "did" });
    this.state = el("div", { class: "turn-state" });
    this.elapsed = el("span", { class: "elapsed" });
    this.foot = el("footer", { class: "turn-foot" });
    this.node = el("article", { class: "turn", "aria-label": `Turn${at ? ` of ${clock(at)}` : ""}` }, this.title, this.said, this.body, this.state, this.foot);
    if (text) appendInOrder(this.bubble, text);
    this.showState();
  }

  /** Queues an event to be processed soon. */
  enqueue(event) {
    this.runId ??= event.run_id;
    this.queue.push(event);
    this.timer ??= setTimeout(() => this.processQueue(), 0);
  }

  processQueue() {
    const began = performance.now();
    const elsewhere = this.left === undefined ? 0 : began - this.left;
    const end = began + Math.min(MAX_SLICE, Math.max(SLICE, elsewhere));
    let at = 0;
    while (at < this.queue.length && performance.now() < end) {
      try {
        this.apply(this.queue[at]);
      } catch (error) {
        console.error("an event could not be shown", error);
      }
      at += 1;
    }
    this.queue.splice(0, at);
    // Not for questions that were decided within the queue: only what is open now must be loaded.
    if (this.asksNext && this.queue.length === 0) this.loadQuestions();
    this.showState();
    this.hooks.changed?.(this);
    this.left = this.queue.length ? performance.now() : undefined;
    this.timer = this.queue.length ? setTimeout(() => this.processQueue(), 0) : undefined;
  }

  apply(event) {
    const handle = HANDLERS[event.type];
    if (handle) handle(this, this.agent(event.agent), event);
    if (event.seq !== undefined && isLast(event)) this.end(event);
  }

  agent(id) {
    let agent = this.agents.get(id);
    if (!agent) {
      agent = new AgentView(id, this.runId);
      this.agents.set(id, agent);
      const parent = this.parentOf(id);
      if (id === "a0" || !parent) this.body.append(agent.node);
      else parent.below.append(el("details", { class: "sub-agent", open: true }, el("summary", {}, icon("agent"), appendVisible(el("span"), parent.taskOf(id)), el("code", { text: id }), icon("chevron", "chevron")), agent.node));
    }
    return agent;
  }

  parentOf(id) {
    for (const agent of this.agents.values()) for (const call of agent.calls.values()) if (call.agents?.includes(id)) return call;
    return undefined;
  }

  /** Whether the run waits for outside input. */
  get isWaiting() {
    return this.status === "running" && (this.pending.size > 0 || this.questions.isOpen);
  }

  get needsApproval() {
    return [...this.pending.values()].includes("approval");
  }

  /** Who must act for the run to continue. */
  get awaited() {
    return whoMustAct(this.needsApproval || this.questions.isOpen);
  }

  /** Shows beneath the turn what the run does, what it waits for, or that this is unknown. */
  showState() {
    if (this.status !== "running" || this.again) this.setState("");
    else if (this.losses > 0) this.setState(`${this.isRefused ? "Too many requests" : "Connection lost"}; trying again (${this.losses})…`, "plug", "warn");
    else if (this.unasked && this.needsApproval) {
      const again = button({ name: "retry", text: "Try again", className: "small", onClick: () => { this.unasked = undefined; this.showState(); this.loadQuestions(); } });
      this.setState(`Waiting for ${whoDecides()}, but the question could not be loaded: ${this.unasked.message}`, "hand", "warn", !this.unasked.isPassing && again);
    } else if (this.isWaiting) this.setState(`Waiting for ${this.awaited}`, "hand", "warn");
    else this.setState(this.doing, "spinner");
  }

  setState(text, sign, kind = "", more = null) {
    // The current content may be animated.
    if (text === this.stateText && !more) return;
    this.stateText = text;
    passFocus(this.state, this.node.closest(".scroller"));
    fill(this.state, text ? [icon(sign, sign === "spinner" ? "spins" : ""), el("span", { text }), sign === "spinner" && this.elapsed, more] : []);
    this.state.dataset.kind = kind;
  }

  /** Shows each second for how long the run has worked since it last waited, so that slow work does not look like a hang. */
  tick() {
    clearTimeout(this.ticks);
    if (this.status !== "running" || !this.node.isConnected) return;
    const seconds = Math.floor((now() - new Date(this.since)) / 1000);
    this.elapsed.textContent = seconds < PATIENCE ? "" : duration(seconds * 1000);
    // Screen readers announce it at once, and then every minute.
    const minute = seconds < PATIENCE ? undefined : Math.floor(seconds / 60);
    if (minute !== this.minute && minute !== undefined && this.elapsed.isConnected && !document.hidden && this.hooks.isLive?.()) announce(`${this.doing} ${this.elapsed.textContent}`);
    this.minute = minute;
    this.ticks = setTimeout(() => this.tick(), 1000);
  }

  /** Sets the state of the connection: whether events arrive. */
  setConnection(state, losses = 0) {
    this.losses = losses;
    this.isRefused = state === "refused";
    if (state === "live") {
      this.doing = "Working…";
      this.loadQuestions();
    }
    this.showState();
    if (losses === 1) announce(`${this.isRefused ? "Too many requests" : "Connection lost"}; the page tries again`);
  }

  /** The turn could not be taken. */
  fail(problem) {
    this.status = "refused";
    this.showState();
    // Retrying does not help if something is wrong, missing or forbidden.
    const again = this.hooks.retry && ![400, 403, 404].includes(problem.status) && button({ name: "retry", text: "Send again", className: "small", onClick: () => this.hooks.retry(this) });
    this.body.append(failure(problem, el("div", { class: "row" }, again)));
  }

  /** The run is no longer followed, whatever happens to it. `again` resumes following. */
  markUnfollowed(problem, again) {
    while (this.queue.length > 0) this.processQueue();
    const box = failure({ title: "This page no longer follows the run", message: problem.message },
      button({ name: "retry", text: "Follow again", className: "small", onClick: () => this.again() }));
    this.again = () => {
      Object.assign(this, { again: undefined, doing: "Connecting…", losses: 0 });
      passFocus(box, this.node.closest(".scroller"));
      box.remove();
      this.showState();
      again();
    };
    this.body.append(box);
    this.showState();
  }

  /** Lets the user rewrite the message. The conversation before it continues in a new session, and this session stays as it is. */
  edit() {
    const field = el("textarea", { class: "field", rows: "3", value: this.message, "aria-label": "Edited message" });
    const line = alertLine();
    const leave = () => {
      this.editor.replaceWith(this.bubble, this.saidActions);
      this.saidActions.lastChild.focus();
    };
    this.editor = el("form", { class: "stack edit-message", on: {
      keydown: (event) => {
        if (isComposing(event)) return;
        if (event.key === "Escape") leave();
        if (isSending(event)) {
          event.preventDefault();
          this.editor.requestSubmit();
        }
      },
    } }, field, line, el("div", { class: "row end wrap" }, el("p", { class: "hint", text: "Sent in a new session; this one stays as it is." }),
      button({ text: "Cancel", className: "quiet small", onClick: leave }), el("button", { class: "button primary small", text: "Ask again" })));
    submitOnce(this.editor, line, async () => field.value.trim() && this.hooks.edit(this, field.value.trim()));
    this.saidActions.remove();
    this.bubble.replaceWith(this.editor);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  /** Shows the questions that the run waits for. */
  async loadQuestions() {
    this.asksNext = false;
    if (!this.hooks.isLive?.() || !this.needsApproval) return;
    const asking = (this.asking = {});
    let approvals;
    try {
      ({ approvals } = await get(path`/approvals?session=${this.sessionId}`));
    } catch (problem) {
      // A later request may have been answered meanwhile.
      return asking === this.asking ? this.retryQuestions(problem) : undefined;
    }
    Object.assign(this, { unasked: undefined, patience: undefined });
    this.showState();
    const asked = [];
    for (const approval of approvals) {
      const id = approval.request.tool_call_id;
      if (approval.run_id !== this.runId || this.asks.get(id)?.approval.question === approval.question) continue;
      const view = new ApprovalView(approval, { plan: this.plan, reload: () => { this.dismiss(id); this.loadQuestions(); } });
      this.dismiss(id);
      this.asks.set(id, view);
      this.agent(approval.agent).call(id, approval.request.name, approval.request.arguments).below.append(view.node);
      asked.push(approval.request.name);
      this.hooks.changed?.(this, view.node);
    }
    if (asked.length > 0) announce(`${asked.length === 1 ? `${asked[0]} waits` : `${asked.length} calls wait`} for ${mayDecide() ? "your approval" : whoDecides()}`);
  }

  /** The questions could not be loaded: retries soon if that may help, otherwise when the user asks. */
  retryQuestions(problem) {
    clearTimeout(this.asksAgain);
    this.unasked = problem;
    this.showState();
    if (!problem.isPassing) return;
    this.patience = Math.min((this.patience ?? 500) * 2, 15_000);
    this.asksAgain = setTimeout(() => this.loadQuestions(), this.patience);
  }

  dismiss(id) {
    this.asks.get(id)?.remove();
    this.asks.delete(id);
  }

  /** Adds the cost of a model call. A call without a price makes the sum a lower bound. */
  addCost(call) {
    this.cost = sumOf(this.cost ?? {}, call.cost_micro_usd === undefined ? { cost_label: "unknown" } : call);
  }

  end(event) {
    this.status = event.type === "final" ? "done" : "failed";
    for (const id of [...this.asks.keys()]) this.dismiss(id);
    this.questions.settleAll();
    for (const agent of this.agents.values()) for (const call of agent.calls.values()) if (["queued", "asks", "running"].includes(call.state)) call.setState("error", "not run");
    const root = this.agent("a0");
    const text = event.content ?? "";
    if (text) root.dropUnrecorded();
    root.moveUnreceived(event.unheard ?? 0);
    // The answer may have been corrected after the model gave it. For a stopped run, its partial answer is already shown.
    if (text && event.finish_reason !== "cancelled") {
      this.laidOut = root.lastReply().growing;
      this.laidOut.set(text);
      // Leads past the reasoning and the calls.
      this.laidOut.node.before(el("h3", { class: "hidden", text: "Answer" }));
    }
    for (const agent of this.agents.values()) for (const reply of agent.replies.values()) reply.growing.flush();
    this.answer = text;
    const reason = event.finish_reason;
    const isQuiet = typeof reason === "string" && QUIET.has(reason);
    const line = isQuiet ? undefined : root.note(event.type === "final" ? "warn" : "error", endingOf(reason));
    if (event.sources?.length) this.body.append(sourcesOf(event.sources));
    this.finish(event);
    // A replay shows a run as its records have it.
    if (event.type === "run_failed" && this.hooks.retry) this.explain(line);
    else if (this.hooks.isLive?.()) announce(isQuiet ? this.completion : endingOf(reason));
  }

  /** What is announced once the answer is complete: a short answer is part of it. */
  get completion() {
    const heard = this.laidOut?.isWhole ? this.laidOut.node.innerText.trim().replace(/\s+/g, " ") : "";
    return `The answer is complete${heard && heard.length <= SPOKEN ? `: ${heard}` : ""}`;
  }

  /** Shows why a run failed in the server's wording for users. The run's own end is worded for operators. */
  async explain(line) {
    const { result } = await get(path`/runs/${this.runId}`, { asks: false }).catch(() => ({}));
    // The reply also holds a partial answer, which is already shown above.
    if (result?.notice) appendVisible(fill(line), result.notice);
    if (this.hooks.isLive?.()) announce(line.textContent);
  }

  finish(event) {
    const usage = event.usage ?? {};
    const label = usage.labels?.total_tokens;
    // The cost of a stopped call is unknown.
    if (label === "unknown") this.addCost({});
    const took = this.began && event.at ? new Date(event.at) - new Date(this.began) : undefined;
    const parts = [
      this.began && timeOf(this.began, "Started on "),
      this.model && el("span", { text: this.model, title: "Model" }),
      el("span", { text: duration(took), title: "Total time" }),
      el("span", { text: `${tokensOf(usage, "total_tokens")} tokens`, title: `${tokensOf(usage, "prompt_tokens")} sent (${tokensOf(usage, "cached_tokens")} cached), ${tokensOf(usage, "completion_tokens")} received` }),
      this.cost && el("span", { text: costOf(this.cost), title: "Cost" }),
    ];
    const actions = [
      this.answer && copyButton(() => this.answer, "Copy the answer", () => this.laidOut?.isWhole && this.laidOut.node),
      this.hooks.retry && button({ name: "retry", label: "Send the message again", className: "quiet small", onClick: () => this.hooks.retry(this) }),
      this.hooks.fork && button({ name: "fork", label: "Continue in a new session from here", className: "quiet small", onClick: () => this.hooks.fork(this) }),
      el("a", { class: "button quiet small", href: path`#/runs/${this.runId}` }, icon("chart"), el("span", { text: "Run" })),
    ];
    fill(this.foot, el("div", { class: "facts" }, parts), el("div", { class: "row actions" }, actions));
  }
}

function sourcesOf(sources) {
  const items = sources.map((source) => el("li", {}, link(source.url, source.title || source.url) ?? source.url));
  return el("section", { class: "sources" }, el("h3", { text: "Sources" }), el("ol", {}, items));
}

/** Whether a hook answered instead of a model, which costs nothing. */
const isOfHook = (reply) => reply?.advice?.advice === "refused" && reply.usage?.labels?.total_tokens === "unknown";

/** Handlers by event type. Other events are shown only in the run's log. */
const HANDLERS = {
  run_started(turn, agent, event) {
    turn.began = turn.since = event.at;
    turn.sessionId = event.session_id;
    turn.plan = event.spec?.plan;
    turn.before = event.history?.count ?? 0;
    const from = event.spec?.forked_from;
    if (from) turn.forkedFrom = from.turn < WHOLE ? from : { run_id: from.run_id };
    if (turn.hooks.isLive) turn.tick();
    const messages = (event.spec?.messages ?? []).filter((message) => message.role === "user");
    fill(turn.attached, shownFiles(messages, turn.files));
    // A turn sent by this page knows its files' names.
    if (turn.files.length === 0) turn.files = messages.flatMap(filesOf);
    const text = messages.map(wordsOf).join("\n\n");
    // The message in the list of runs may include its files.
    if (text && text !== turn.message) {
      turn.message = text;
      turn.said.hidden = false;
      turn.title.textContent = oneLine(text, 80);
      appendInOrder(fill(turn.bubble), text);
    }
    turn.doing = "Working…";
  },
  reasoning_delta: (turn, agent, event) => agent.reply(event.content_index).grow(event),
  text_delta: (turn, agent, event) => agent.reply(event.content_index).grow(event),
  text_retracted: (turn, agent, event) => agent.reply(event.content_index).retract(),
  tool_call_delta(turn, agent, event) {
    if (event.name) turn.doing = `Calling ${oneLine(event.name, 60)}…`;
  },
  llm_call(turn, agent, event) {
    agent.addReply(event);
    if (!isOfHook(event.reply)) turn.addCost(event);
    const model = event.reply?.model;
    if (model && event.agent === "a0") turn.model = model.model;
  },
  llm_failed(turn, agent, event) {
    if (event.cost_micro_usd !== undefined || event.error?.usage || MAY_COST.has(event.error?.kind)) turn.addCost(event);
    const next = event.next === "follows" ? "trying again" : event.next === "none" ? "" : reasonOf(event.next);
    agent.reply(event.content_index).note("warn", `Attempt ${event.attempt} failed: ${event.error?.message ?? event.error?.kind}${next ? `; ${next}` : ""}`);
    if (event.next === "none") agent.endModelCall(event.purpose);
  },
  verdict: (turn, agent, event) => agent.addVerdicts(event),
  approval_requested(turn, agent, event) {
    const call = agent.call(event.tool_call_id, event.name, event.arguments);
    call.rule = event.rule;
    call.setState("asks");
  },
  waiting(turn, agent, event) {
    turn.pending = new Map(event.pending.map(({ tool_call_id: id, kind }) => [id, kind]));
    for (const [id, kind] of turn.pending) if (kind === "client_tool") agent.calls.get(id)?.setState("client");
    turn.doing = "Working…";
    turn.asksNext = true;
  },
  approval_decided(turn, agent, event) {
    const asked = turn.asks.get(event.tool_call_id);
    turn.dismiss(event.tool_call_id);
    // A decision made on this page is announced there.
    if (asked && !asked.isBusy) announce(`${asked.approval.request.name}: ${oneLine(decisionOf(event), 200)}`);
    turn.pending.delete(event.tool_call_id);
    turn.since = event.at;
    agent.calls.get(event.tool_call_id)?.decided(event);
    turn.doing = "Working…";
  },
  tool_call(turn, agent, event) {
    const call = agent.call(event.tool_call_id, event.name, event.arguments);
    if (call.args !== event.arguments) call.setArguments(event.arguments);
    call.agents = event.agents;
    call.setState("running", event.origin === "policy" ? "required by policy" : undefined);
    turn.doing = "Working…";
  },
  tool_progress: (turn, agent, event) => agent.calls.get(event.tool_call_id)?.progress(event),
  tool_output: (turn, agent, event) => agent.calls.get(event.tool_call_id)?.print(event),
  tool_failed: (turn, agent, event) => agent.calls.get(event.tool_call_id)?.failed(event),
  question(turn, agent, event) {
    if (!turn.hooks.isLive?.()) return;
    const card = turn.questions.show(event, agent.call(event.tool_call_id, event.from, ""), turn.runId);
    if (card) turn.hooks.changed?.(turn, card);
  },
  question_settled(turn, agent, event) {
    const asked = turn.questions.settle(event.question_id);
    if (!asked) return;
    turn.since = now();
    const call = agent.calls.get(event.tool_call_id);
    const settled = SETTLED[event.outcome] ?? event.outcome;
    if (!asked.isBusy) announce(`${asked.question.from}: ${settled}`);
    call?.addNote("", settled);
    call?.setState("running");
    turn.doing = "Working…";
  },
  tool_result(turn, agent, event) {
    turn.dismiss(event.tool_call_id);
    if (turn.pending.delete(event.tool_call_id)) turn.since = event.at;
    turn.questions.settleAll(event.tool_call_id);
    agent.call(event.tool_call_id, event.name, "").finish(event);
  },
  plan: (turn, agent, event) => turn.hooks.plan?.(event.plan),
  steered(turn, agent, event) {
    agent.addUserMessage(textOf(event.message));
    turn.hooks.steered?.(turn);
  },
  // The loop sends the model a prompt, along with the messages added meanwhile.
  prompt_injected: (turn, agent) => agent.endModelCall(),
  cancelled(turn, agent, event) {
    if (event.cut) agent.showStopped(event.cut.text);
    agent.note("warn", `Stopped${event.reason ? `: ${event.reason}` : ""}`);
  },
  resumed(turn, agent, event) {
    if (turn.pending.size > 0) return;
    // What was in progress is requested again, and comes after this.
    agent.dropUnrecorded();
    // Whether its process stopped in order or was lost. The event's reason is a sentence for the log.
    agent.note("", event.released ? "Resumed after a stop" : "Resumed");
  },
  warning(turn, agent, event) {
    // A failed call is shown at the call. That the model did not retry it is only of interest in the run's log.
    if (event.code !== "tool_not_retried") agent.note("warn", event.message);
  },
  role_downgraded: (turn, agent, event) => agent.note("warn", `Role ${event.to} serves instead of ${event.from}${event.left_out ? `, without ${event.left_out} older messages, to fit its context` : ""}: ${event.reason}`),
  escalated: (turn, agent, event) => agent.note("warn", event.question ?? `After ${event.failures} failures, role ${event.role} takes over`),
  limit_reached: (turn, agent, event) => agent.note("warn", `A limit was reached: ${reasonOf(event.limit)}`),
  max_turns_reached: (turn, agent, event) => agent.note("warn", `The limit of ${event.turns} turns was reached; a last answer was requested.`),
  context_trimmed: (turn, agent, event) => agent.note("", `${!event.messages && event.without_reasoning ? "earlier reasoning was" : `${event.messages} earlier messages were`} ${event.summary ? "summarized" : "dropped"} to make room`),
  final(turn, agent, event) {
    if (event.agent !== "a0" && typeof event.finish_reason !== "string") agent.note("warn", endingOf(event.finish_reason));
  },
  run_failed(turn, agent, event) {
    if (event.agent !== "a0") agent.note("error", endingOf(event.finish_reason));
  },
  decision(turn, agent, event) {
    turn.decision = event;
    if (event.clarify) agent.note("", `Clarifying question: ${event.clarify.reason ?? ""}`);
  },
};

