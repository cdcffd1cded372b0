//! Takes runs up again: after a crash, or because somebody answered what a run waited for.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    ApprovalDecided, Attempt, CallStage, Decision, Effect, EffectId, InboxEntry, InboxInput, Input,
    InputError, InputId, Limits, OpenCall, Record, RecordBody, RestoreError, Resumed, RunId,
    RunStatus, RunTree, Seq, SessionId, Stamp, ToolCallId, ToolFinished, ToolKind, ToolOutcome,
    Transcript, jiff::Timestamp,
};
use neuraxis_ports::{SessionStore, StoreError};

use crate::closing::Unresumable;
use crate::driver::{Driver, Moment, RunScope, told};
use crate::orchestrator::trace_of;
use crate::request::Delivery;
use crate::reservation::{AtWork, reserve};
use crate::run_handle::RunHandle;
use crate::runs::Runs;
use crate::taking_up::{InForce, MAX_TIMES_IN_VAIN, Taker, spec_of};

/// What somebody brings a run that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// A decision about a call.
    Approval(ApprovalDecided),
    /// The result of a tool that the caller runs.
    ToolResult {
        /// The call.
        call: ToolCallId,
        /// What came of it.
        outcome: ToolOutcome,
        /// How long it took.
        duration: Duration,
    },
}

/// Why a run cannot be taken up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The run has ended.
    #[error("run {0} has ended")]
    Ended(RunId),
    /// No call of the run with this id waits for its client.
    #[error("call {0} is not waiting for a result")]
    NotWaiting(ToolCallId),
    /// No call of the run with this id, and with these arguments, waits for a person.
    #[error("call {0} is not waiting for a decision about these arguments")]
    NotAsked(ToolCallId),
    /// The time for deciding about a call is over: it is not run, and the run goes on without it.
    #[error(
        "the question about call {call} expired at {at}, before anybody decided: it is not run"
    )]
    Expired {
        /// The call.
        call: ToolCallId,
        /// When the question expired.
        at: Timestamp,
    },
    /// The run waits for its client alone, and no result was brought.
    #[error("the run waits for results of its client's tools and none was given")]
    NothingToDo,
    /// The run's tools work on the files of another folder than this engine's.
    #[error("run {run} works in {folder}: call it there")]
    Elsewhere {
        /// The run.
        run: RunId,
        /// The folder.
        folder: Arc<str>,
    },
    /// The run offers tools that work on files, and its log does not say in which folder.
    #[error(
        "the log of run {0} does not say in which folder its tools work: only a person can let it go on"
    )]
    NoFolder(RunId),
    /// The run was imported: what its log says was written elsewhere.
    #[error("run {0} was imported: only a person can let it go on")]
    Imported(RunId),
    /// The run is at work: in this process, where its handle takes answers, or somewhere.
    #[error("run {0} is at work")]
    AtWork(RunId),
    /// The run is at work in another process, which renews its lease.
    #[error("run {0} is at work in another process, which is alive")]
    Alive(RunId),
    /// The records do not give back the run.
    #[error("the run cannot be read back from its records")]
    Restore(#[from] RestoreError),
    /// Nobody can or may go on with the run: its log cannot be replayed, holds no decision, or taking it up failed time and
    /// again. It was ended as interrupted, and its session is free.
    #[error("run {run} could not go on and was ended as interrupted: {why}")]
    Closed {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// The run's session is not what was kept, so that nothing goes on from it. Only an engine that
    /// [verifies sessions](crate::OrchestratorBuilder::verify_sessions) looks.
    #[error("session {session} is not what was kept, so that nothing goes on from it: {why}")]
    Altered {
        /// The session.
        session: SessionId,
        /// What does not fit.
        why: String,
    },
    /// The run refuses what it is brought.
    #[error("the run refuses the answer")]
    Refused(#[from] InputError),
    /// The store could not do its part.
    #[error("the run could not be read or reserved")]
    Store(#[from] StoreError),
    /// The orchestrator has no store to read runs from.
    #[error("no session store was given: add one with `store`")]
    NoStore,
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

/// What is known of a run that can go on, before it is reserved.
struct Known {
    session_id: SessionId,
    records: Vec<Arc<Record>>,
    /// What it goes on from.
    history: Transcript,
    /// What governance decided about it.
    decision: Arc<Decision>,
    in_force: InForce,
    /// Whether it waits for what may have been posted.
    may_have_mail: bool,
}

impl Runs {
    /// Takes up a run that does not go on: one left at work by a process that died, or one that waits, with the answers
    /// it waits for. Its finished calls are not made again. Every other one is checked anew before it runs, by the tool and
    /// the policy as they are here and now, and of these and what is on record the stricter holds; one in doubt is made
    /// again only if both of its classes allow that.
    ///
    /// A run that was imported is left to [`resume_by_person`](Self::resume_by_person). One whose log holds no decision is
    /// ended, and so is one that was taken up twice in a row without anything coming of it.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the run has ended, cannot be read back, works in another folder, is left to a person, or does
    /// not wait for such an answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle leaves the run at work.
    pub async fn resume(
        &self,
        run_id: RunId,
        answers: Vec<Answer>,
    ) -> Result<RunHandle, ResumeError> {
        self.resume_as(run_id, answers, Taker::Engine).await
    }

    pub(crate) async fn resume_as(
        &self,
        run_id: RunId,
        mut answers: Vec<Answer>,
        taker: Taker,
    ) -> Result<RunHandle, ResumeError> {
        if self.parts.engine.is_shutting_down() {
            return Err(ResumeError::ShuttingDown);
        }
        let store = &self.parts.store;
        let place = AtWork::claim(&self.parts, run_id).ok_or(ResumeError::AtWork(run_id))?;
        let summary = store.run(run_id).await?;
        if summary.imported && taker == Taker::Engine {
            return Err(ResumeError::Imported(run_id));
        }
        if self.parts.engine.vouched.is_some() {
            self.vouch(store.as_ref(), &summary.session).await?;
        }
        for answer in &mut answers {
            if let Answer::Approval(decided) = answer {
                self.parts.engine.approval_key.sign(run_id, decided);
            }
        }
        let records = match store.records(run_id, Seq(0)).await {
            Err(StoreError::Damaged(why)) => {
                let why = Unresumable::Damaged(why);
                return self.close(store, run_id, Vec::new(), why, place).await;
            }
            records => records?,
        };
        if records.last().is_some_and(|last| last.ends_the_run()) {
            return Err(ResumeError::Ended(run_id));
        }
        if records.is_empty() {
            return Err(RestoreError::NoStart.into());
        }
        self.check_folder(run_id, &records, taker)?;
        let session_id = session_of(&records).ok_or(RestoreError::NoStart)?;
        let (Some(decision), Some(spec)) = (decision_of(&records), spec_of(&records)) else {
            let why = Unresumable::Undecided;
            return self.close(store, run_id, records, why, place).await;
        };
        // Boxed, because taking runs up is seldom.
        let in_force = Box::pin(self.in_force(&session_id, spec, &decision)).await;
        let history = store.history_before(run_id).await?;
        // Checked before the run is reserved: whoever brings a wrong answer must not take it from who has it.
        let read = RestoredRun::read(
            history.clone(),
            records.clone(),
            (&answers, &[]),
            in_force.limits.as_deref(),
        );
        let may_have_mail = matches!(read, Err(ResumeError::NothingToDo));
        match read {
            Err(ResumeError::Restore(why)) => {
                let why = Unresumable::Log(why);
                return self.close(store, run_id, records, why, place).await;
            }
            Err(error) if !may_have_mail => return Err(error),
            // One that was given back each time was stopped in order, and one that was lost while this process lives did
            // not end it: nothing is wrong with them.
            Ok(run)
                if run.tree.taken_up_in_vain() >= MAX_TIMES_IN_VAIN
                    && !summary.released
                    && !self.parts.engine.lost.contains(run_id) =>
            {
                let why = Unresumable::InVain(run.tree.taken_up_in_vain());
                return self.close(store, run_id, records, why, place).await;
            }
            _ => {}
        }
        let known = Known {
            session_id,
            records,
            history,
            decision,
            in_force,
            may_have_mail,
        };
        self.go_on(store, known, &answers, place).await
    }

    /// Reserves a run that can go on, and sets it to work.
    async fn go_on(
        &self,
        store: &Arc<dyn SessionStore>,
        known: Known,
        answers: &[Answer],
        place: AtWork,
    ) -> Result<RunHandle, ResumeError> {
        let (run_id, session_id) = (place.run(), known.session_id);
        let InForce { tools, limits } = known.in_force;
        let asked = Moment::now(self.parts.engine.clock.as_ref());
        let lease = reserve(store.as_ref(), &session_id, run_id).await?;
        // What it waits for may have been posted: only whoever holds the run can tell.
        let posted = store.inbox(&lease).await?;
        if known.may_have_mail && posted.is_empty() {
            store.release(&lease).await?;
            return Err(ResumeError::NothingToDo);
        }
        // Whoever had it before may have gone on meanwhile, and no longer can.
        let last = known.records.last().map_or(Seq(0), |record| record.seq);
        let newer = store.records(run_id, last).await?;
        let records = known.records.into_iter().chain(newer).collect();
        let brought = (answers, posted.as_slice());
        let run = RestoredRun::read(known.history, records, brought, limits.as_deref())?;
        let trace = trace_of(run_id);
        let scope = RunScope {
            run_id,
            session_id: Some(session_id.clone()),
            delivery: Delivery::Streamed,
            trace: trace.clone(),
            decision: Some(known.decision),
            offered_now: Some(tools),
        };
        let engine = Arc::clone(&self.parts.engine);
        let (driver, link) = Driver::take_up(engine, scope, (lease, asked), run).await?;
        let handle = RunHandle {
            link,
            session_id,
            trace,
            is_repeat: false,
        };
        place.reached_by(&handle);
        self.set_to_work(driver, place);
        Ok(handle)
    }

    /// Puts an input into a run's inbox, from whichever process, and lets the run go on if nobody drives it. Once this
    /// returns the input is kept: the run takes it with one of its next steps, or refuses it.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if there is no such run, it has ended, or the store could not keep the input.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the input may have been kept all the same; posting it again under its id changes nothing.
    pub async fn post(&self, run_id: RunId, mut input: InboxInput) -> Result<(), ResumeError> {
        let store = &self.parts.store;
        if let InboxInput::ApprovalDecided(decided) = &mut input {
            self.parts.engine.approval_key.sign(run_id, decided);
        }
        let told = Box::new(input.input());
        store.post(run_id, &InboxEntry::new(input)).await?;
        let here = {
            let at_work = self.parts.engine.runs_at_work();
            at_work.get(&run_id).and_then(|place| place.handle.clone())
        };
        if here.is_some_and(|here| here.link.inbox.try_send(told).is_ok()) {
            return Ok(());
        }
        match self.resume(run_id, Vec::new()).await {
            Ok(_) | Err(ResumeError::AtWork(_) | ResumeError::NothingToDo) => {}
            // Another process drives it and looks into the inbox by itself.
            Err(ResumeError::Store(StoreError::SessionBusy { .. })) => {}
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(run = %run_id, error, "the input is kept, but the run does not go on here");
            }
        }
        Ok(())
    }
}

/// A run read back from its records, and what it is to be told first.
#[derive(Debug)]
pub(crate) struct RestoredRun {
    pub(crate) tree: RunTree,
    /// What it goes on from.
    pub(crate) history: Transcript,
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) inputs: Vec<Input>,
}

impl RestoredRun {
    /// Reads a run back and makes sure that it takes what it is brought. Unless answers are all it waits for, it is first
    /// told that it was taken up again, so that what was under way is asked for anew, the approver too, and every call is
    /// checked before it starts.
    pub(crate) fn read(
        history: Transcript,
        records: Vec<Arc<Record>>,
        (answers, posted): (&[Answer], &[InboxEntry]),
        limits: Option<&Limits>,
    ) -> Result<Self, ResumeError> {
        let (tree, open) = RunTree::restore(history.clone(), &records)?;
        if tree.status().is_ended() {
            return Err(ResumeError::Ended(tree.run_id()));
        }
        let is_asking = |effect: &Effect| matches!(effect, Effect::AskApproval(_));
        let waits = tree.status() == RunStatus::Waiting;
        let is_answered = !answers.is_empty() || !posted.is_empty();
        if waits && !is_answered && !open.iter().any(is_asking) {
            return Err(ResumeError::NothingToDo);
        }
        let would_start = |call: &OpenCall| call.stage == CallStage::Ready;
        let is_taken_up = !waits || !is_answered || tree.open_calls().iter().any(would_start);
        let taken_up = is_taken_up.then(|| Input::Resumed(taken_up(&records, limits)));
        let answers = answers.iter().map(|answer| input(&records, answer));
        let inputs = taken_up.into_iter().map(Ok).chain(answers);
        let run = Self {
            inputs: inputs.collect::<Result<_, _>>()?,
            tree,
            history,
            records,
        };
        let stamp = Stamp::new(run.last_at(), run.active());
        let mut tried = run.tree.clone();
        let _ = told(&mut tried, stamp, run.inputs.clone())?;
        let mut run = run;
        // What the run does not take is left in its inbox, for its driver to settle.
        for entry in posted {
            let input = entry.input.input();
            if tried.advance(stamp, input.clone()).is_ok() {
                run.inputs.push(input);
            }
        }
        Ok(run)
    }

    fn last_at(&self) -> Timestamp {
        self.records
            .last()
            .map(|record| record.at)
            .unwrap_or_default()
    }

    /// How long the run had been active when its last step was recorded.
    pub(crate) fn active(&self) -> Duration {
        let last = self
            .records
            .iter()
            .rev()
            .find_map(|record| record.active_ms);
        Duration::from_millis(last.unwrap_or_default())
    }
}

fn input(records: &[Arc<Record>], answer: &Answer) -> Result<Input, ResumeError> {
    match answer {
        Answer::Approval(decided) => Ok(Input::ApprovalDecided(decided.clone())),
        Answer::ToolResult {
            call,
            outcome,
            duration,
        } => {
            let waits = client_call(records, call);
            let finished = waits.map(|(effect_id, attempt)| ToolFinished {
                effect_id,
                attempt,
                outcome: outcome.clone(),
                duration: *duration,
            });
            finished
                .map(Input::ToolFinished)
                .ok_or_else(|| ResumeError::NotWaiting(call.clone()))
        }
    }
}

/// Returns the effect that waits for a client's result of this call.
pub(crate) fn client_call(
    records: &[Arc<Record>],
    call: &ToolCallId,
) -> Option<(EffectId, Attempt)> {
    records.iter().rev().find_map(|record| match &record.body {
        RecordBody::ToolCall(started)
            if started.tool_call_id == *call && started.kind == ToolKind::Client =>
        {
            Some((started.effect_id, started.attempt))
        }
        _ => None,
    })
}

/// Returns the session that a run belongs to.
fn session_of(records: &[Arc<Record>]) -> Option<SessionId> {
    match &records.first()?.body {
        RecordBody::RunStarted(started) => started.session_id.clone(),
        _ => None,
    }
}

/// Returns what governance decided about a run.
pub(crate) fn decision_of(records: &[Arc<Record>]) -> Option<Arc<Decision>> {
    records
        .iter()
        .take(2)
        .find_map(|record| match &record.body {
            RecordBody::Decision(decision) => Some(Arc::clone(decision)),
            _ => None,
        })
}

/// A taking-up has an id of its own for each that the log has seen.
fn taken_up(records: &[Arc<Record>], limits: Option<&Limits>) -> Resumed {
    let after = records.last().map_or(Seq(0), |record| record.seq);
    let id = InputId::new(format!("resumed-after-{after}"));
    let mut resumed = Resumed::new(id, "the run was taken up again").checking_calls();
    resumed.limits = limits.map(|limits| Box::new(*limits));
    resumed
}
