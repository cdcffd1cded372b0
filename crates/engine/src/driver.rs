//! Drives one run: performs what the machine asks for, brings it the answers, and keeps its records.

mod active_time;
mod alarm;
mod answer;
mod ask;
mod begin;
mod dry_run;
mod fitting;
mod hooks;
mod interrupts;
mod journal;
mod keep;
mod loading;
mod long_result;
mod model_call;
mod model_hooks;
mod next_input;
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
    AgentId, CancelModel, CancelTool, Decision, Effect, EffectId, Input, InputId, Record,
    RecordBody, RunId, RunOutcome, RunStatus, RunTree, SessionId, Stamp, Step, ToolName, Turn,
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
pub(crate) use begin::ReadyRun;
use interrupts::Interrupts;
use journal::Journal;
use loading::Loading;
pub(crate) use model_call::stands;
use silent_calls::AttemptUnderWay;
use under_way::UnderWay;

/// How many inputs from outside may wait for a run to take them, those places among them that are kept for its end.
pub(crate) const INBOX_SIZE: usize = 64 + KEPT_TO_CANCEL;

/// How many places of an inbox only the wish that the run end may take. More than one, since others that are sent in the same
/// moment may each see the last place that is theirs.
pub(crate) const KEPT_TO_CANCEL: usize = 8;

/// What is fixed for one run.
#[derive(Debug)]
pub(crate) struct RunScope {
    pub(crate) run_id: RunId,
    /// The session; a run without one is kept nowhere.
    pub(crate) session_id: Option<SessionId>,
    /// Who asks, and what the program gave with the request.
    pub(crate) request: RequestContext,
    pub(crate) delivery: Delivery,
    /// The trace it is part of, where somebody brought or records one.
    pub(crate) trace: Option<TraceContext>,
    /// What governance decided; without it everything offered may run.
    pub(crate) decision: Option<Arc<Decision>>,
    /// The tools that the policy in force offers to such a request, where the decision is one of the past.
    pub(crate) offered_now: Option<Arc<[ToolName]>>,
}

/// One run at work.
pub(crate) struct Driver {
    engine: Arc<Engine>,
    /// The tools there were when the run was set to work.
    catalog: Arc<ToolCatalog>,
    scope: RunScope,
    tree: RunTree,
    /// A handle of its own, so that appending borrows no more than it needs.
    journal: Arc<Journal>,
    inbox: mpsc::Receiver<Box<Input>>,
    end: EndSender,
    work: UnderWay,
    interrupts: Interrupts,
    /// Answers that needed no waiting.
    ready: VecDeque<Input>,
    /// The records of steps that followed one another without waiting: they are written together.
    unwritten: Vec<Arc<Record>>,
    /// What was found in the run's inbox and is still to be taken.
    posted: Vec<InputId>,
    /// The calls that are under way, each with what stops it.
    running: Vec<(EffectId, CancellationToken)>,
    /// The attempts of model calls among them.
    attempts: Vec<Arc<AttemptUnderWay>>,
    /// The calls that wait for their models to be loaded.
    loading: Loading,
    /// The sentences that say why its calls may run, so that none is written twice.
    reasons: ReasonCache,
    active: ActiveTime,
    alarm: Alarm,
    outcome: Option<Box<RunOutcome>>,
    /// Why the run cannot go on here, though it has not ended: its records cannot be kept, or somebody else has it.
    lost: Option<StoreError>,
}

/// Where a run stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It goes on here.
    AtWork,
    /// It waits for somebody who is not here.
    StandsStill,
    /// It has ended, or is lost to this process.
    Over,
}

impl Driver {
    /// Lets a run be reached in this process.
    pub(crate) fn show(&self, handle: &RunHandle) {
        if let Some(slot) = &self.journal.slot {
            slot.show(handle.clone());
        }
    }

    /// Goes on until the run ends, is lost to this process, or waits for somebody who is not here.
    pub(crate) async fn drive(mut self: Box<Self>, first: Step) {
        let mut step = first;
        loop {
            match self.go_on(&mut step).await {
                Standing::AtWork => {}
                Standing::StandsStill => {
                    let runs = self.journal.slot.as_ref().map(RunSlot::runs);
                    // It goes on here as if it had not been put aside.
                    let runs = runs.map(|runs| runs.with_context(self.scope.request.clone()));
                    let run_id = self.scope.run_id;
                    // Boxed: otherwise each run at work keeps room for it, half of what its task takes.
                    let is_posted_to = Box::pin(self.put_aside()).await;
                    if let Some(runs) = runs.filter(|_| is_posted_to) {
                        runs.resume_in_background(run_id);
                    }
                    return;
                }
                Standing::Over => return self.conclude(),
            }
        }
    }

    /// Goes on by one step: begins what the last one asks for, waits for what happens next, and tells the machine if that is for
    /// it. The one way in which any run goes on, whoever drives it.
    pub(crate) async fn go_on(&mut self, step: &mut Step) -> Standing {
        if !self.carry_out(step).await {
            return Standing::Over;
        }
        if self.stands_still(step.status) && !self.read_inbox().await {
            return Standing::StandsStill;
        }
        let refused = match self.next_input(step.wake_at).await {
            Ok(Some(input)) => self.advance(input, step),
            Ok(None) => None,
            Err(error) => {
                self.lose(error);
                return Standing::Over;
            }
        };
        if let Some(id) = refused {
            self.journal.settle(&id).await;
        }
        Standing::AtWork
    }

    /// Keeps what a step recorded, and begins what it asks for: nothing begins that is not on record, but checks of calls,
    /// whose records are written together with what follows from them. False once nothing more happens here.
    async fn carry_out(&mut self, step: &mut Step) -> bool {
        self.active.follow(step.status);
        self.take_back(step);
        self.unwritten.append(&mut step.records);
        if step.status.is_ended() {
            // Who sends by the handle from now on hears that nobody takes it, and not only once the end is kept.
            self.inbox.close();
        }
        let is_check = |effect: &Effect| matches!(effect, Effect::Vet(_));
        let begins_something = !step.effects.iter().all(is_check);
        if (begins_something || step.status.is_ended()) && !self.keep(step).await {
            return false;
        }
        self.perform(std::mem::take(&mut step.effects));
        if self.lost.is_some() {
            return false;
        }
        // Nothing waits with what happened still unwritten.
        if self.ready.is_empty() && !self.keep(step).await {
            return false;
        }
        // A log that is full may have ended the run just now.
        let has_ended = step.status.is_ended();
        if has_ended {
            self.perform(std::mem::take(&mut step.effects));
        }
        !has_ended
    }

    /// Brings the machine an input. Returns what somebody posted if no record will name it: it is to be taken out of the
    /// inbox. Nothing is waited for here, so that a run that waits keeps no room for an input.
    fn advance(&mut self, input: Input, step: &mut Step) -> Option<InputId> {
        let posted = self.posted_id(&input);
        let granted = granted_by(&input);
        let input = self.with_what_was_said(input);
        let advanced = self.tree.advance(self.stamp(), input);
        let is_recorded = matches!(&advanced, Ok(step) if !step.records.is_empty());
        *step = advanced.unwrap_or_else(|error| {
            // An answer that cannot be comes from outside; the machine is unchanged and goes on.
            tracing::warn!(run = %self.scope.run_id, %error, "an input was refused");
            Step {
                status: self.tree.status(),
                effects: Vec::new(),
                records: Vec::new(),
                wake_at: step.wake_at,
            }
        });
        if is_recorded && !granted.is_empty() {
            self.journal.note_recorded(&granted);
        }
        posted.filter(|_| !is_recorded)
    }

    /// Adds to the wish that the run end, or one of its agents, what the user has read until now of the answer, and of what the
    /// calls print that it cuts off. Nothing of what a hook was still to look at: that is kept nowhere, and no model reads it.
    fn with_what_was_said(&self, input: Input) -> Input {
        match input {
            Input::Cancelled(mut cancelled) => {
                let root = self.tree.agent_spec(AgentId::ROOT);
                let is_hooked = !self.engine.model_hooks_of(root).is_empty();
                let said = self.journal.feed.said(AgentId::ROOT);
                cancelled.cut = said.filter(|_| !is_hooked);
                let is_cut = |agent| {
                    self.tree.works_for(agent, cancelled.agent) && self.tool_hooks(agent).is_empty()
                };
                cancelled.printed = self.journal.feed.printed(is_cut);
                Input::Cancelled(cancelled)
            }
            other => other,
        }
    }

    /// Gives back a run that waits for somebody who is not here. True if somebody posted while it was held: who did left it to
    /// this process.
    pub(crate) async fn put_aside(mut self: Box<Self>) -> bool {
        // Who sends by the handle from now on hears that nobody takes it here; what was taken is kept for whoever goes on.
        self.inbox.close();
        let is_sent_to = self.leave_what_was_sent().await;
        self.journal.release().await;
        let is_posted_to = self.read_inbox().await;
        self.conclude();
        is_sent_to || is_posted_to
    }

    /// Keeps what the last step recorded before what it asks for is begun. False if it cannot be kept: then nothing more
    /// happens here.
    pub(crate) async fn record(&mut self, step: &mut Step) -> bool {
        self.active.follow(step.status);
        self.take_back(step);
        self.unwritten.append(&mut step.records);
        self.keep(step).await
    }

    /// Tells whether answers are at hand that need no waiting.
    pub(crate) fn has_answers(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns why the run is lost to this process, if it is.
    pub(crate) const fn lost(&self) -> Option<&StoreError> {
        self.lost.as_ref()
    }

    /// Leaves the run as it is on record, free to be taken up at once: what is under way is stopped.
    pub(crate) async fn leave(mut self: Box<Self>) {
        // An answer that is just being kept may be lost, too.
        let is_at_work = !self.running.is_empty() || !self.unwritten.is_empty();
        for (_, cancellation) in self.running.drain(..) {
            cancellation.cancel();
        }
        // What is under way ends before others may have the run.
        self.work = UnderWay::default();
        match is_at_work && self.journal.feed.with_records(is_first_step) {
            true => self.journal.expire().await,
            false => self.journal.release().await,
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.lost.is_some() {
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

    /// Voids what was shown of model calls that are not waited for any more, before the records that say so are heard.
    /// What a person interrupted stays.
    fn take_back(&self, step: &Step) {
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

    /// Tells whether nothing here will ever bring an answer.
    fn stands_still(&self, status: RunStatus) -> bool {
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

    /// Describes a turn of an agent to tools and hooks.
    fn turn_context(&self, agent: AgentId, turn: Turn) -> TurnContext {
        let scope = &self.scope;
        let mut context = TurnContext::new(scope.run_id, scope.session_id.clone(), agent, turn);
        context.request = scope.request.clone();
        context
    }

    fn stamp(&self) -> Stamp {
        Stamp::new(self.engine.clock.now(), self.active.elapsed())
    }

    /// Says how the run ended, as the last thing: what is still under way is dropped with the driver, and so stopped.
    pub(crate) fn conclude(mut self) {
        let end = match self.lost.take() {
            Some(error) => Err(error),
            None => Ok(Arc::new(self.end())),
        };
        // With the driver its slot goes: whoever hears of the end may take the run up again at once.
        self.into_end_sender().send(end);
    }

    fn end(&mut self) -> RunEnd {
        let waits = self.outcome.is_none();
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

/// Returns the numbers of what people allowed for the session with the calls that an input checks.
fn granted_by(input: &Input) -> Vec<u32> {
    match input {
        Input::Vetted(vetted) => vetted.granted.iter().map(|grant| grant.id).collect(),
        _ => Vec::new(),
    }
}

/// Makes the panic of whoever is asked, such as an approver or a hook, one of many ways of giving no answer.
pub(crate) async fn answered<T>(asked: impl Future<Output = T>) -> Option<T> {
    // Nothing of the question is looked at again after a panic.
    AssertUnwindSafe(asked).catch_unwind().await.ok()
}
