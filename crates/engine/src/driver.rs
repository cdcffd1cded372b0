//! Drives one run: performs the effects that the machine requests, passes it the answers, and stores its records.

mod active_time;
mod alarm;
mod answer;
mod ask;
mod begin;
mod defect;
mod dry_run;
mod fitting;
mod hooks;
mod interrupts;
mod journal;
mod loading;
mod long_result;
mod model_call;
mod model_hooks;
mod next_input;
mod persist;
mod serving;
mod silent_calls;
mod tool_call;
mod tool_questions;
mod under_way;
mod vet;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use neuraxis_brainstem::ReasonCache;
use neuraxis_core::{
    AgentId, CancelModel, CancelTool, Decision, Effect, EffectId, Input, InputError, InputId,
    Record, RecordBody, RunId, RunOutcome, RunStatus, RunTree, SessionId, Stamp, Step, ToolName,
    Turn,
};
use neuraxis_ports::{CancellationToken, RequestContext, StoreError, TraceContext, TurnContext};
use tokio::sync::mpsc;

use crate::catalog::ToolCatalog;
use crate::engine::Engine;
use crate::request::Delivery;
use crate::run_end::{EndSender, RunEnd};
use crate::run_handle::RunHandle;
use crate::runs::{RunSlot, is_first_step};
use active_time::ActiveTime;
use alarm::Alarm;
pub(crate) use begin::{Beginning, ReadyRun};
use interrupts::Interrupts;
use journal::Journal;
use loading::Loading;
pub(crate) use model_call::is_part_of_answer;
use silent_calls::AttemptUnderWay;
use under_way::UnderWay;

/// How many inputs from outside may wait for a run to take them, including the places reserved for cancellations.
pub(crate) const INBOX_SIZE: usize = 64 + KEPT_TO_CANCEL;

/// How many places of an inbox are reserved for cancelling the run. More than one, since several other senders may see
/// the last free place at the same moment.
pub(crate) const KEPT_TO_CANCEL: usize = 8;

/// What is fixed for the duration of one run.
#[derive(Debug)]
pub(crate) struct RunScope {
    pub(crate) run_id: RunId,
    /// The session; a run without one is not stored.
    pub(crate) session_id: Option<SessionId>,
    /// Who asks, and the values that the program passed with the request.
    pub(crate) request: RequestContext,
    pub(crate) delivery: Delivery,
    /// The trace that it belongs to, if one came with the request or is recorded.
    pub(crate) trace: Option<TraceContext>,
    /// Governance's decision; without it, everything that is offered may run.
    pub(crate) decision: Option<Arc<Decision>>,
    /// The tools that the current policy offers to such a request, if the decision was made earlier.
    pub(crate) offered_now: Option<Arc<[ToolName]>>,
}

/// Drives one run in progress.
pub(crate) struct Driver {
    engine: Arc<Engine>,
    /// The tools that existed when driving began.
    catalog: Arc<ToolCatalog>,
    scope: RunScope,
    tree: RunTree,
    /// Shared through its own `Arc`, so that appending borrows no more than it needs.
    journal: Arc<Journal>,
    inbox: mpsc::Receiver<Box<Input>>,
    end: EndSender,
    work: UnderWay,
    interrupts: Interrupts,
    /// Answers that were available without waiting.
    ready: VecDeque<Input>,
    /// The records of steps that followed one another without waiting: they are written together.
    unwritten: Vec<Arc<Record>>,
    /// The inputs from the run's inbox that have not been taken yet.
    posted: Vec<InputId>,
    /// The calls in progress, each with the token that stops it.
    running: Vec<(EffectId, CancellationToken)>,
    /// Those of the calls in progress that are attempts of model calls.
    attempts: Vec<Arc<AttemptUnderWay>>,
    /// The calls that wait for their models to be loaded.
    loading: Loading,
    /// Cached sentences that say why its calls may run, so each is created only once.
    reasons: ReasonCache,
    active: ActiveTime,
    alarm: Alarm,
    outcome: Option<Box<RunOutcome>>,
    /// Why the run cannot continue here although it has not ended.
    left: Option<LeftBecause>,
}

/// Why a run cannot continue here although it has not ended.
#[derive(Debug, Clone)]
pub(crate) enum LeftBecause {
    /// Its records cannot be stored, or another process has it.
    Lost(StoreError),
    /// Its state contradicts itself, which only a defect can cause.
    Defect(InputError),
}

/// The state of a run after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriveState {
    /// The run continues here.
    Running,
    /// It waits for an answer from outside.
    Waiting,
    /// It has ended, or was left without an end.
    Done,
}

impl Driver {
    /// Makes the run reachable in this process.
    pub(crate) fn show(&self, handle: &RunHandle) {
        if let Some(slot) = &self.journal.slot {
            slot.show(handle.clone());
        }
    }

    /// Drives the run until it ends, is lost to this process, or waits for an answer from outside.
    pub(crate) async fn drive(mut self: Box<Self>, first: Step) {
        let mut step = first;
        loop {
            match self.drive_step(&mut step).await {
                DriveState::Running => {}
                DriveState::Waiting => {
                    let runs = self.journal.slot.as_ref().map(RunSlot::runs);
                    // It continues here as if it had not been parked.
                    let runs = runs.map(|runs| runs.with_context(self.scope.request.clone()));
                    let run_id = self.scope.run_id;
                    // Boxed: otherwise each run in progress would reserve space for it, half of what its task takes.
                    let has_input = Box::pin(self.park()).await;
                    if let Some(runs) = runs.filter(|_| has_input) {
                        runs.resume_in_background(run_id);
                    }
                    return;
                }
                DriveState::Done => return self.conclude(),
            }
        }
    }

    /// Drives the run by one step: begins what the last step requests, waits for what happens next, and passes it to
    /// the machine if it concerns the machine. Every run proceeds in this way, whichever way it is driven.
    pub(crate) async fn drive_step(&mut self, step: &mut Step) -> DriveState {
        if !self.carry_out(step).await {
            return DriveState::Done;
        }
        if self.waits_for_outside(step.status) && !self.read_inbox().await {
            return DriveState::Waiting;
        }
        let refused = match self.next_input(step.wake_at).await {
            Ok(Some(input)) => self.advance(input, step),
            Ok(None) => None,
            Err(error) => {
                self.lose(error);
                return DriveState::Done;
            }
        };
        if let Some(id) = refused {
            self.journal.settle(&id).await;
        }
        if self.left.is_some() {
            // Boxed because it is rarely needed.
            Box::pin(self.leave_to_recovery()).await;
            return DriveState::Done;
        }
        DriveState::Running
    }

    /// Stores what a step recorded, and begins what it requests. Nothing begins before it is on record, except checks
    /// of calls, whose records are written together with what follows from them. Returns `false` once nothing more
    /// happens here.
    async fn carry_out(&mut self, step: &mut Step) -> bool {
        self.active.follow(step.status);
        self.retract_cancelled_calls(step);
        self.unwritten.append(&mut step.records);
        if step.status.is_ended() {
            // From now on, and not only once the end is stored, senders on the handle are told that nothing is
            // accepted.
            self.end.note_ending();
            self.inbox.close();
        }
        let is_check = |effect: &Effect| matches!(effect, Effect::Vet(_));
        let begins_something = !step.effects.iter().all(is_check);
        if (begins_something || step.status.is_ended()) && !self.persist(step).await {
            return false;
        }
        self.perform(std::mem::take(&mut step.effects));
        if self.left.is_some() {
            return false;
        }
        // Never wait with unwritten records.
        if self.ready.is_empty() && !self.persist(step).await {
            return false;
        }
        // A full log may have just ended the run.
        let has_ended = step.status.is_ended();
        if has_ended {
            self.perform(std::mem::take(&mut step.effects));
        }
        !has_ended
    }

    /// Passes the machine an input. Returns the id of a posted input that no record will name, which must be removed
    /// from the inbox. Not `async`, so that a waiting run reserves no space for an input.
    fn advance(&mut self, input: Input, step: &mut Step) -> Option<InputId> {
        let posted = self.posted_id(&input);
        let granted = granted_by(&input);
        let input = self.with_partial_output(input);
        let advanced = self.tree.advance(self.stamp(), input);
        let is_recorded = matches!(&advanced, Ok(step) if !step.records.is_empty());
        *step = advanced.unwrap_or_else(|error| self.refused(error, step.wake_at));
        if is_recorded && !granted.is_empty() {
            self.journal.note_recorded(&granted);
        }
        posted.filter(|_| !is_recorded)
    }

    /// Adds to a cancellation of the run or of one of its agents what the user has read so far of the answer, and what
    /// the calls that it cuts off have printed. Leaves out what a hook has yet to inspect: that is not stored, and no
    /// model reads it.
    fn with_partial_output(&self, input: Input) -> Input {
        match input {
            Input::Cancelled(mut cancelled) => {
                let root = self.tree.agent_spec(AgentId::ROOT);
                let is_hooked = !self.engine.model_hooks_of(root).is_empty();
                let shown = self.journal.feed.shown_reply(AgentId::ROOT);
                cancelled.cut = shown.filter(|_| !is_hooked);
                let is_cut = |agent| {
                    self.tree.works_for(agent, cancelled.agent) && self.tool_hooks(agent).is_empty()
                };
                cancelled.printed = self.journal.feed.printed(is_cut);
                Input::Cancelled(cancelled)
            }
            other => other,
        }
    }

    /// Parks a run that waits for an answer from outside, and releases it. Returns `true` if something was posted while
    /// it was held, which this process must then handle.
    pub(crate) async fn park(mut self: Box<Self>) -> bool {
        // From now on senders on the handle are told that nothing is accepted here; what was accepted is kept for the
        // next holder.
        self.inbox.close();
        let is_sent_to = self.post_unread_inputs().await;
        self.journal.release().await;
        let is_posted_to = self.read_inbox().await;
        self.conclude();
        is_sent_to || is_posted_to
    }

    /// Stores what the last step recorded, before anything that it requests begins. Returns `false` if it cannot be
    /// stored: then nothing more happens here.
    pub(crate) async fn record(&mut self, step: &mut Step) -> bool {
        self.active.follow(step.status);
        self.retract_cancelled_calls(step);
        self.unwritten.append(&mut step.records);
        self.persist(step).await
    }

    /// Returns whether answers are available without waiting.
    pub(crate) fn has_answers(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns why the run was left without an end, if it was.
    pub(crate) const fn left(&self) -> Option<&LeftBecause> {
        self.left.as_ref()
    }

    /// Leaves the run as it is on record, free to be resumed immediately: what is in progress is stopped.
    pub(crate) async fn release(mut self: Box<Self>) {
        // An answer that is just being stored may also be lost.
        let is_at_work = !self.running.is_empty() || !self.unwritten.is_empty();
        self.stop_work();
        match is_at_work && self.journal.feed.with_records(is_first_step) {
            true => self.journal.expire().await,
            false => self.journal.release().await,
        }
    }

    /// Stops what is in progress, which must end before another process may have the run.
    fn stop_work(&mut self) {
        for (_, cancellation) in self.running.drain(..) {
            cancellation.cancel();
        }
        self.work = UnderWay::default();
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.left.is_some() {
                return;
            }
            match effect {
                Effect::CallModel(call) => self.call_model(call, None, Duration::ZERO),
                Effect::Vet(vet) => self.vet(vet),
                Effect::RunTool(run) => self.run_tool(run),
                Effect::CancelTool(CancelTool { effect_id })
                | Effect::CancelModel(CancelModel { effect_id }) => {
                    if let Some(running) = self.no_longer_running(effect_id) {
                        running.cancel();
                    }
                }
                Effect::AskApproval(ask) => self.ask_approval(ask),
                Effect::Consult(question) => self.consult(question),
                Effect::Finish(outcome) => self.outcome = Some(outcome),
            }
        }
    }

    /// Retracts what was shown of model calls that are no longer awaited, before listeners receive the records that say
    /// so. Text that the user interrupted stays.
    fn retract_cancelled_calls(&self, step: &Step) {
        let stays = step.records.iter().find_map(|record| match &record.body {
            RecordBody::Cancelled(cancelled) => cancelled.cut.as_ref().map(|cut| cut.effect_id),
            _ => None,
        });
        for effect in &step.effects {
            if let Effect::CancelModel(CancelModel { effect_id }) = effect
                && Some(*effect_id) != stays
            {
                self.journal.feed.void(*effect_id);
            }
        }
    }

    /// Returns whether no answer can come from within this process.
    fn waits_for_outside(&self, status: RunStatus) -> bool {
        status == RunStatus::Waiting
            && self.work.is_empty()
            && self.ready.is_empty()
            && self.inbox.is_empty()
    }

    fn no_longer_running(&mut self, call: EffectId) -> Option<CancellationToken> {
        self.attempts
            .retain(|attempt| attempt.ctx.effect_id != call);
        let place = self.running.iter().position(|(id, _)| *id == call)?;
        Some(self.running.swap_remove(place).1)
    }

    /// Describes an agent's turn to tools and hooks.
    fn turn_context(&self, agent: AgentId, turn: Turn) -> TurnContext {
        let scope = &self.scope;
        let mut context = TurnContext::new(scope.run_id, scope.session_id.clone(), agent, turn);
        context.request = scope.request.clone();
        context
    }

    fn stamp(&self) -> Stamp {
        Stamp::new(self.engine.clock.now(), self.active.elapsed())
    }

    /// Reports the end of the run, as the last action: what is still in progress is dropped with the driver, and so
    /// stopped.
    pub(crate) fn conclude(mut self) {
        let end = match self.left.take() {
            Some(LeftBecause::Lost(error)) => Err(error),
            // Without an end, those who wait for it are told that the run was stopped.
            Some(LeftBecause::Defect(_)) => return,
            None => Ok(Arc::new(self.end())),
        };
        // The slot is dropped together with the driver before the end is sent, so a receiver of the end may resume the
        // run immediately.
        self.into_end_sender().send(end);
    }

    fn end(&mut self) -> RunEnd {
        let waits = self.outcome.is_none();
        if !waits {
            // Not every end began with a step, such as that of a full log.
            self.end.note_ending();
        }
        RunEnd {
            so_far: waits.then(|| (self.tree.turns(), self.tree.usage())),
            outcome: self.outcome.take().map(|outcome| *outcome),
            pending: self.tree.pending(),
            messages: self.tree.transcript_of(AgentId::ROOT),
        }
    }

    fn into_end_sender(self) -> EndSender {
        self.end
    }
}

/// Returns the numbers of the session grants that came with the checked calls of an input.
fn granted_by(input: &Input) -> Vec<u32> {
    match input {
        Input::Vetted(vetted) => vetted.granted.iter().map(|grant| grant.id).collect(),
        _ => Vec::new(),
    }
}

/// Turns a panic of an approver, a hook or the like into `None`, which counts as giving no answer.
pub(crate) async fn answered<T>(question: impl Future<Output = T>) -> Option<T> {
    // No state of the question is used after a panic.
    AssertUnwindSafe(question).catch_unwind().await.ok()
}
