// The conversation of one session: its turns, the run in progress, and the composer.

import { NOT_OWN, awaitsUser, changeKey, whoMustAct } from "./access.js";
import { Anchor } from "./anchor.js";
import { Problem, get, path, post } from "./api.js";
import { announce, button, eachFrame, el, failure, fill, loading, passFocus } from "./dom.js";
import { parsed } from "./format.js";
import { Composer } from "./composer.js";
import { saveConversation } from "./export.js";
import { areSame, encoded, namingFiles } from "./files.js";
import { askToFork, shownBefore } from "./fork.js";
import { PlanPanel } from "./plan.js";
import { ENDED } from "./runs.js";
import { wholeSession } from "./session.js";
import { Follower, LET_GO, newKey } from "./stream.js";
import { TurnView } from "./turn.js";

/** How many turns are shown until the user asks for earlier ones. */
const SHOWN = 12;

/** How many of a session's newest runs are checked for ones that were started elsewhere. */
const NEWEST = 50;

/** How much of the visible end the button that scrolls to the newest covers, in pixels. */
const BUTTON = 48;

export class Chat {
  /** `sessionId` is omitted for a session that does not exist yet. `hooks`: `made`, `unmade`, `changed`, `atWork`, `go`, `title`, `rename`,
   *  `begin`. `place` is the position at which an earlier view of the session was left. */
  constructor(sessionId, hooks, place) {
    Object.assign(this, { sessionId, hooks, place });
    this.followers = new Set();
    /** The turns that are shown, in order, and the earlier runs that are not. */
    Object.assign(this, { views: [], runs: [] });
    this.turns = el("div", { class: "turns" });
    this.earlier = el("div", { class: "earlier" });
    this.tools = el("div", { class: "row chat-tools", hidden: !sessionId },
      button({ name: "pencil", text: "Rename", label: "Rename this session", className: "quiet small", onClick: () => this.hooks.rename(this.sessionId) }),
      button({ name: "save", text: "Export", label: "Save the conversation as Markdown", className: "quiet small", onClick: () => saveConversation(this.sessionId, this.hooks.title(this.sessionId)).catch((problem) => this.complain(problem)) }));
    this.notice = el("div", { class: "notice" });
    /** The name of the session. */
    this.heading = el("h1", { class: "hidden", dir: "auto", lang: "" });
    this.scroller = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Conversation" }, el("div", { class: "column" }, el("div", { class: "chat-head" }, this.heading, this.tools), this.earlier, this.turns, this.notice));
    this.anchor = new Anchor(this.scroller);
    this.down = button({ name: "down", label: "To the newest", className: "round to-end", hidden: true, onClick: () => { passFocus(this.down, this.scroller); this.toEnd(); } });
    this.plan = new PlanPanel();
    this.composer = new Composer({ send: (text, files) => this.send(text, files), stop: () => this.stop() });
    this.node = el("div", { class: "chat" }, this.scroller, el("div", { class: "dock" }, this.down, el("div", { class: "column" }, this.plan.node, this.composer.node)));
    Object.assign(this, { joined: 0, isAtEnd: true, top: 0, height: 0 });
    this.scroller.addEventListener("scroll", () => this.trackScroll(), { passive: true });
    this.stick = eachFrame(() => this.scrollToTarget());
    // Not in the next frame, in which the growth would already be visible without scrolling.
    const resized = new ResizeObserver(() => { this.holdPosition(); this.scrollToTarget(); });
    resized.observe(this.turns);
    resized.observe(this.scroller);
  }

  /** Scrolls to the position to follow: the end, or an open question. */
  scrollToTarget() {
    // The view left the end for a question that is now decided.
    if (this.isAsked && !this.turns.querySelector(".ask")) Object.assign(this, { isAsked: false, isAtEnd: true });
    if (this.isAtEnd) this.scroller.scrollTop = this.scroller.scrollHeight;
    if (this.isAtEnd && this.asksNow) this.showQuestion();
    this.asksNow = false;
    this.trackScroll();
  }

  /** Follows the end unless the user scrolled back. Growth and shrinkage do not count as scrolling. */
  trackScroll() {
    const isResized = this.anchor.restoreIfResized();
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    if (this.held) Object.assign(this.held, { top: this.held.top + this.held.at - scrollTop, at: scrollTop });
    const below = scrollHeight - scrollTop - clientHeight;
    // A user who scrolls back starts with a few pixels, and is near the end for a while.
    if (this.held?.isBack) this.isAtEnd = false;
    // A change of line wrapping moves the position without the user scrolling.
    else if (!isResized && (below < 2 || (below < 40 && scrollTop > this.top))) this.isAtEnd = true;
    else if (!isResized && scrollTop < this.top - 2 && scrollHeight >= this.height) Object.assign(this, { isAtEnd: false, isAsked: false });
    Object.assign(this, { top: scrollTop, height: scrollHeight });
    this.down.hidden = this.isAtEnd || this.coversQuestion;
    if (this.isAtEnd || this.held) this.anchor.forget();
    else this.anchor.note();
  }

  /** Whether the button that scrolls to the end would cover a question. */
  get coversQuestion() {
    const edge = this.scroller.getBoundingClientRect().bottom;
    const over = ({ top, bottom }) => top < edge && bottom > edge - BUTTON;
    return [...this.turns.getElementsByClassName("ask")].some((node) => over(node.getBoundingClientRect()));
  }

  /** Keeps the reading position while earlier turns grow. A browser would keep the growing one in place. */
  holdPosition() {
    if (!this.held) return;
    const { node, top, views } = this.held;
    this.scroller.scrollTop += node.getBoundingClientRect().top - top;
    this.held.at = this.scroller.scrollTop;
    if (views.every((view) => view.status !== "running" || view.isWaiting)) this.held = undefined;
    this.scroller.classList.toggle("holds", Boolean(this.held));
  }

  /** Returns the reading position, or undefined if the end is followed. */
  get readingPosition() {
    const edge = this.scroller.getBoundingClientRect().top;
    const view = !this.isAtEnd && this.views.find(({ runId, node }) => runId && node.getBoundingClientRect().bottom > edge);
    return view ? { runId: view.runId, top: view.node.getBoundingClientRect().top, shown: this.views.length } : undefined;
  }

  toEnd() {
    if (this.held) this.held.isBack = false;
    this.isAtEnd = true;
    this.stick();
  }

  /** Shows the first question from its start if the end would hide that: the content to decide about is above the buttons. */
  showQuestion() {
    const first = this.turns.querySelector(".ask");
    if (!first || first.getBoundingClientRect().top >= this.scroller.getBoundingClientRect().top) return;
    first.scrollIntoView({ block: "start" });
    Object.assign(this, { isAtEnd: false, isAsked: true, top: this.scroller.scrollTop });
  }

  /** Shows the session, and follows the run in progress. */
  async open() {
    const unchosen = this.composer.choices.load().then(() => undefined, (problem) => problem);
    const tell = () => unchosen.then((problem) => problem && this.complain(problem));
    this.composer.keep(this.sessionId ?? "");
    Object.assign(this, { isLoaded: !this.sessionId, isUnread: false });
    if (!this.sessionId) {
      this.welcome();
      return tell();
    }
    passFocus(this.notice, this.scroller);
    fill(this.notice, loading());
    let overview;
    try {
      overview = await wholeSession(this.sessionId);
    } catch (problem) {
      this.tools.hidden = true;
      this.isUnread = problem.isPassing;
      return this.complain(problem);
    }
    this.tools.hidden = false;
    // If the view was left meanwhile, nothing would stop its followers.
    if (this.isClosed) return undefined;
    fill(this.notice);
    tell();
    this.plan.set(parsed(overview.plan));
    Object.assign(this, { runs: overview.runs, history: overview.history ?? [], isLoaded: true });
    if (this.runs.length === 0 && this.history.length === 0) return this.welcome();
    await this.showMore();
    return undefined;
  }

  /** Shows runs that have not been shown yet, the newest of them first. */
  async showMore() {
    const first = this.views[0]?.node;
    const top = first?.getBoundingClientRect().top;
    const hadFocus = this.earlier.contains(document.activeElement);
    const { place } = this;
    this.place = undefined;
    const begin = Math.max(0, this.runs.length - Math.max(SHOWN, place?.shown ?? 0));
    const shown = this.runs.splice(begin);
    const views = shown.map((run) => this.viewOf(run, ENDED.has(run.status)));
    this.turns.prepend(...views.map((view) => view.node));
    this.views.unshift(...views);
    fill(this.earlier, this.runs.length ? button({ text: `Show ${this.runs.length} earlier`, className: "small", onClick: () => this.showMore() }) : null);
    if (first && !this.isAtEnd) this.held = { node: first, top, views, at: this.scroller.scrollTop };
    const back = place && views.find((view) => view.runId === place.runId);
    if (back) Object.assign(this, { isAtEnd: false, held: { node: back.node, top: place.top, views: views.filter((_, at) => ENDED.has(shown[at].status)), at: this.scroller.scrollTop, isBack: true } });
    this.holdPosition();
    if (hadFocus) (this.earlier.querySelector("button") ?? this.scroller).focus({ preventScroll: true });
    const jobs = shown.map((run, at) => this.follow(views[at], (follower) => follower.follow(), !ENDED.has(run.status)));
    if (this.runs.length === 0) this.showBefore(views[0]);
    // A failure is shown in its turn.
    const settled = jobs.map((job) => job.catch(() => {}));
    await Promise.all(settled.filter((_, at) => ENDED.has(shown[at].status)));
  }

  /** Shows the part of the conversation that precedes the session's own runs: it was forked or imported. */
  showBefore(first) {
    const show = (count) => {
      const before = shownBefore(this.history.slice(0, count));
      if (before) fill(this.earlier, before);
    };
    if (first) first.whenBegun = show;
    else show(this.history.length);
  }

  welcome() {
    const hints = ["What can you do here?", "What time is it in Tokyo?", "Calculate 15% of 1,249"];
    fill(this.notice, el("div", { class: "welcome" },
      el("h2", { text: "What should we work on?" }),
      el("p", { text: "Before a tool runs, the policy decides whether it may, and you are asked if a rule requires it." }),
      el("div", { class: "row wrap" }, hints.map((hint) => button({ text: hint, className: "chip", onClick: () => { this.send(hint); this.composer.focus(); } })))));
    this.composer.focus();
  }

  /** Creates the view of an existing run. `isKnown`: the run had already ended when the session was opened. */
  viewOf(run, isKnown = false) {
    // A longer text is truncated.
    return this.view({ runId: run.run_id, text: run.text && run.text.length < 120 ? run.text : "", at: run.started_at }, isKnown);
  }

  view(more, isKnown = false) {
    const hooks = {
      retry: (turn) => this.sendAgain(turn), fork: (turn) => askToFork(turn.runId, () => this.composer.choices.chosen, (session) => this.hooks.go(session)), edit: (turn, text) => this.askAgain(turn, text), changed: (turn, node) => this.changed(turn, node),
    };
    const news = { plan: (plan) => this.plan.set(plan), steered: () => { this.joined += 1; this.pending?.remove(); }, isLive: () => !this.isClosed };
    const view = new TurnView({ ...more, hooks: isKnown ? hooks : { ...hooks, ...news } });
    view.sessionId = this.sessionId;
    return view;
  }

  sendAgain(turn) {
    if (this.working && turn.status !== "refused") return this.complain({ title: "A run is in progress", message: "You can send the message again once it has ended." });
    // The message may also be in the input field, from where it would be sent again.
    this.composer.drop(turn.message, turn.files);
    return this.send(turn.message, turn.files, turn.status === "refused" ? turn : undefined);
  }

  /** The state of the run in progress, in the list's terms; undefined if no run known to the server is in progress. */
  get state() {
    const { runId, status, isWaiting } = this.working?.view ?? {};
    if (!runId || status !== "running") return undefined;
    // The view has not been updated since.
    if (document.hidden && this.peeked?.run === runId) return this.peeked.state;
    return isWaiting ? "waiting" : "running";
  }

  /** Who must act for the run in progress to continue. */
  get awaited() {
    const { view } = this.working;
    return document.hidden && this.peeked?.run === view.runId ? this.peeked.awaited : view.awaited;
  }

  /** Asks for the state of the run in progress while the page is hidden and receives no events. */
  async peek() {
    const run = this.working?.view.runId;
    if (!document.hidden || !run) return;
    const summary = await get(path`/runs/${run}`, { asks: false });
    const { status, questions } = summary;
    const isAwaited = status === "waiting" || questions?.length > 0;
    this.peeked = { run, awaited: whoMustAct(awaitsUser(summary)), state: ENDED.has(status) ? undefined : isAwaited ? "waiting" : "running" };
  }

  changed(turn, node) {
    this.stick();
    // The events of a visible page are newer.
    if (!document.hidden) this.peeked = undefined;
    const { state } = this;
    if (state !== this.reportedState) this.hooks.atWork(state);
    this.reportedState = state;
    this.composer.setAsked(state === "waiting" && this.awaited === "you");
    if (node) this.asksNow = true;
    if (!turn.whenBegun || turn.before === undefined) return;
    turn.whenBegun(turn.before);
    turn.whenBegun = undefined;
  }

  /** Creates the follower that delivers a run's events to its view. */
  followerOf(view) {
    const deliver = (event) => {
      if (!view.runId) this.composer.carry("");
      // The run already exists: an earlier request was accepted, but its answer was lost.
      view.isTwin ||= !view.runId && this.views.some(({ runId }) => runId === event.run_id);
      if (this.isClosed || view.isTwin) follower.stop();
      else view.enqueue(event);
    };
    const follower = new Follower({ runId: view.runId, onEvent: deliver, onState: (state, losses) => {
      if (state === "live") this.unreached?.remove();
      view.setConnection(state, losses);
    } });
    return follower;
  }

  /** Follows a run with a view, and records it as the run in progress if it is. */
  async follow(view, begin, isAtWork, follower = this.followerOf(view)) {
    this.followers.add(follower);
    // A run that is followed again may have ended since, and a later turn's run may be the one in progress.
    const isPast = this.working?.follower && this.views.indexOf(this.working.view) > this.views.indexOf(view);
    if (isAtWork && !isPast) {
      this.working = { view, follower };
      this.composer.setBusy(true);
    }
    try {
      await begin(follower);
    } catch (problem) {
      // A run that was started continues without being followed.
      if (view.runId) view.markUnfollowed(problem, () => this.follow(view, (again) => again.follow(), isAtWork, follower).catch(() => {}));
      else view.fail(problem.kind === "no-such-session" ? new Problem(404, NOT_OWN) : problem);
      throw problem;
    } finally {
      this.followers.delete(follower);
      if (this.working?.view === view) {
        this.working = undefined;
        this.composer.setBusy(false);
        this.hooks.changed();
      }
    }
  }

  /** Sends the user's message with its files: it is added to the run in progress, or starts a run. `again` is the turn that could not be
   *  taken, if it is sent again. */
  async send(text, files = [], again = undefined) {
    passFocus(this.notice, this.scroller);
    fill(this.notice);
    // The same text is a new message if others were answered since.
    const answered = this.views.findLastIndex((it) => it.runId && it.message && it.message !== text);
    const before = again ?? this.views.find((it, at) => at > answered && it.status === "refused" && it.message === text && areSame(it.files, files));
    // The run in progress may be that of a message whose answer was lost. With the same key, the server accepts the message only once.
    if (this.working && !(before && this.working.view.runId)) return this.steer(text, files);
    const { chosen } = this.composer.choices;
    if (before) this.removeTurn(before);
    const view = this.view({ text, files, at: Date.now() });
    const isRepeat = before?.sent && JSON.stringify(before.sent.chosen) === JSON.stringify(chosen);
    view.sent = isRepeat ? before.sent : { chosen, key: newKey() };
    this.turns.append(view.node);
    this.views.push(view);
    this.toEnd();
    const follower = this.followerOf(view);
    const { signal } = follower.stopped;
    this.working ??= { view, beginning: follower };
    this.composer.setBusy(true);
    this.composer.carry(text);
    try {
      // Before creating a session, so that an unreadable file leaves none behind.
      const attachments = files.length > 0 ? await encoded(files) : undefined;
      signal.throwIfAborted();
      if (!this.sessionId) {
        view.made = this.sessionId = (await post("/sessions", {}, { signal })).id;
        this.composer.keep(this.sessionId);
        this.tools.hidden = false;
        this.hooks.made(this.sessionId, text);
      } else {
        await this.checkSessionExists(view, signal);
        if (this.working?.view !== view && !isRepeat) return this.withdrawTurn(view, text, files);
      }
      view.sessionId = this.sessionId;
      const turn = { message: text, attachments, ...chosen };
      const isAtWork = !this.working || this.working.view === view;
      await this.follow(view, () => follower.startTurn(this.sessionId, turn, view.sent.key).catch((problem) => { throw namingFiles(problem, files); }), isAtWork, follower);
      if (view.isTwin) {
        const notice = "The server already has this message; its run is above.";
        this.removeTurn(view);
        fill(this.notice, el("p", { class: "line-note", text: notice }));
        announce(notice);
      }
    } catch (error) {
      const problem = error.name === "AbortError" ? new Problem(0, LET_GO) : error;
      // An accepted message must not be sent again.
      if (view.again) return undefined;
      if (this.working?.view === view) this.working = undefined;
      this.composer.setBusy(Boolean(this.working));
      if (problem.kind === "session-busy") await this.catchUp({ own: view }).catch(() => {});
      if (this.working) return this.withdrawTurn(view, text, files);
      if (view.status !== "refused") view.fail(problem);
      if (view.made && !view.runId && !this.isClosed && problem.status >= 400 && problem.status < 500 && !problem.isPassing) this.dropSession(view.made);
      // The message is also in its turn, from where it can be sent again.
      if (!this.composer.isInUse) this.composer.restore(text, files);
    } finally {
      this.composer.carry("");
    }
    return undefined;
  }

  /** Drops the session that was created for a message which the server refused: it is empty. */
  dropSession(made) {
    this.sessionId = undefined;
    this.tools.hidden = true;
    this.composer.keep("");
    this.hooks.unmade(made);
  }

  /** Removes a turn without a run. */
  removeTurn(view) {
    if (view.node.contains(document.activeElement)) this.composer.focus(this.scroller);
    view.node.remove();
    this.views.splice(this.views.indexOf(view), 1);
  }

  /** Follows the runs that were started in this session elsewhere, such as in another tab, and those that are no longer followed. `own`
   *  is a turn of this page that is about to be taken; the others go before it. Returns the newest runs. */
  async catchUp({ own, asks = true, signal } = {}) {
    if (!this.composer.choices.isLoaded) this.composer.choices.load({ asks }).catch(() => {});
    // Messages sent since are already shown.
    if (this.isUnread && this.views.length === 0) await this.open();
    if (!this.sessionId || !this.isLoaded) return [];
    const { runs } = await get(path`/runs?limit=${NEWEST}&session=${this.sessionId}`, { asks, signal });
    this.unreached?.remove();
    // One of these runs may belong to a turn that is being sent and does not know its run yet.
    const isOnItsWay = this.working && this.working.view !== own && !this.working.view.runId;
    if (this.isClosed || isOnItsWay) return runs;
    const known = new Set([...this.views.map((view) => view.runId), ...this.runs.map((run) => run.run_id)]);
    const others = runs.filter((run) => !known.has(run.run_id)).reverse();
    const views = others.map((run) => this.viewOf(run));
    const at = own ? this.views.indexOf(own) : this.views.length;
    this.views.splice(at, 0, ...views);
    for (const view of views) this.turns.insertBefore(view.node, own?.node ?? null);
    if (views.length > 0) fill(this.notice);
    others.forEach((run, each) => this.follow(views[each], (follower) => follower.follow(), !ENDED.has(run.status)).catch(() => {}));
    for (const view of this.views) if (view.again && runs.some((run) => run.run_id === view.runId && !ENDED.has(run.status))) view.again();
    return runs;
  }

  /** Takes back a turn because another run is in progress. */
  withdrawTurn(view, text, files) {
    this.removeTurn(view);
    this.composer.restore(text, files);
    this.hooks.changed();
    this.complain({ title: "Your message was not sent", message: "A run that this page was not following is in progress in this session. Your message is back in the field: send it now to add it to that run, or after the run has ended to start another." });
  }

  /** Refuses to continue in a session that was deleted elsewhere: it would start again without the content shown here. */
  async checkSessionExists(own, signal) {
    const known = this.views.findLast((view) => view.runId);
    const runs = await this.catchUp({ own, signal });
    if (!known || runs.some((run) => run.run_id === known.runId)) return;
    try {
      await get(path`/runs/${known.runId}`, { signal });
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      throw new Problem(404, { title: "This session is gone", detail: "It was deleted elsewhere. Start a new one to continue." });
    }
  }

  async steer(text, files) {
    const { view } = this.working;
    if (files.length > 0) {
      this.composer.restore(text, files);
      return this.complain({ title: "Files need a new turn", message: "They cannot be added to a run in progress. Send them when it has ended, or remove them." });
    }
    if (!view.runId) {
      this.composer.restore(text);
      return this.composer.complain("The previous message is still being sent. Send this one once it has arrived, or stop it.");
    }
    const { joined } = this;
    this.composer.carry(text);
    try {
      await post(path`/runs/${view.runId}/steer`, { message: text });
      announce("Your message was added to the run");
      // The run may have received the message before this answer arrived.
      if (this.joined > joined) return undefined;
      this.pending?.remove();
      this.pending = el("p", { class: "line-note", text: `Added to the run: ${text}` });
      view.state.before(this.pending);
    } catch (problem) {
      this.composer.restore(text);
      this.complain(problem);
    } finally {
      this.composer.carry("");
    }
    return undefined;
  }

  async stop() {
    const { view, follower, beginning = follower } = this.working ?? {};
    const run = view?.runId;
    // A request in progress is dropped.
    if (!run) return beginning?.stop();
    try {
      await post(path`/runs/${run}/cancel`, { reason: "stopped on the page" });
    } catch (problem) {
      if (problem.kind !== "run-ended") this.complain(problem);
    }
  }

  /** Asks again with another message in place of a turn's, in a new session with the preceding conversation. */
  async askAgain(turn, text) {
    const at = this.views.indexOf(turn);
    // A refused turn has no run to continue from. Before the first turn, continue from where the session was forked.
    const own = this.views.slice(0, at).findLast((view) => view.runId)?.runId ?? this.runs.at(-1)?.run_id;
    const before = own ? { run_id: own } : turn.forkedFrom;
    if (before) {
      const attachments = turn.files.length > 0 ? await encoded(turn.files) : undefined;
      const forked = post(path`/runs/${before.run_id}/fork`, { message: text, attachments, turn: before.turn, ...this.composer.choices.chosen });
      const { session_id: session } = await forked.catch((problem) => { throw namingFiles(problem, turn.files); });
      return this.hooks.go(session);
    }
    if (turn.before > 0) throw new Problem(0, { detail: "The conversation before this message was imported into this session, so there is no run to continue from." });
    return this.hooks.begin(text, turn.files);
  }

  /** Shows a failure beneath the conversation. */
  complain(problem) {
    // Something missing or forbidden stays so.
    const mayHelp = this.turns.childNodes.length === 0 && ![403, 404].includes(problem.status);
    const node = failure(problem, problem.kind === "scope-needed" && button({ name: "key", text: "Use another key", className: "small", onClick: changeKey }), mayHelp && button({ name: "retry", text: "Try again", className: "small", onClick: () => this.open() }));
    // Shown for as long as the server cannot be reached.
    if (problem.status === 0) this.unreached = node;
    fill(this.notice, node);
    this.toEnd();
  }

  /** Stops following. A message being sent is still sent, and followed only until it has a run. */
  close() {
    this.isClosed = true;
    for (const follower of this.followers) if (follower.runId) follower.stop();
  }
}
