//! Takes runs up again: after a crash, or because somebody answered what a run waited for.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use neuraxis_core::log::RunView;
use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, Decision, InputError, Record, RestoreError, RunId, Seq,
    SessionId, ToolCallId, ToolOutcome, Transcript, jiff::Timestamp,
};
use neuraxis_ports::{RequestContext, RunSummary, StoreError};
use tokio::runtime::Handle;

use super::Runs;
use super::close::Unresumable;
use super::recheck::{InForce, MAX_TIMES_IN_VAIN, Taker};
use super::restored::{RestoredRun, recorded_trace, restored_context};
use super::slot::{Claim, RunSlot};
use crate::catalog::ToolCallError;
use crate::driver::{ReadyRun, RunScope};
use crate::error_kind::words_of_store;
use crate::request::Delivery;
use crate::run_handle::RunHandle;

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

impl Answer {
    /// Tells whether a person allows a call by it.
    fn allows(&self, call: &ToolCallId) -> bool {
        match self {
            Self::Approval(decided) => {
                let allows = matches!(decided.decision, ApprovalDecision::Approve { .. });
                allows && decided.tool_call_id == *call
            }
            Self::ToolResult { .. } => false,
        }
    }
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
    /// That a question expired is said by the time alone. The call still waits.
    #[error("nobody decides that the question about call {0} has expired: allow it, or deny it")]
    NotADecision(ToolCallId),
    /// The tool does not take the arguments that were edited. The call still waits.
    #[error("{why}; call {call} still waits")]
    Arguments {
        /// The call.
        call: ToolCallId,
        /// What is wrong with them.
        why: ToolCallError,
    },
    /// The call is of a server that has no tools here now. The call still waits.
    #[error(
        "tool server {server} has no tools here now, as where it is not connected: call {call} still waits, decide again then"
    )]
    ServerAway {
        /// The call.
        call: ToolCallId,
        /// The server.
        server: Arc<str>,
    },
    /// The run waits for a person in a mode or channel that this engine's policy does not have. It still waits.
    #[error("run {run} is in {what}, which is not configured here: it still waits")]
    NotConfigured {
        /// The run.
        run: RunId,
        /// The mode or the channel.
        what: String,
    },
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
    /// The run's session is another owner's than the one that [`Runs::with_context`] names.
    #[error("session {session} is not this owner's")]
    OtherOwner {
        /// The session.
        session: SessionId,
    },
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
        /// What kept it from going on, as it is recorded.
        why: String,
    },
    /// The run's session is not what was kept, so that nothing goes on from it. Only an engine that
    /// [verifies sessions](crate::OrchestratorBuilder::verify_sessions) looks.
    #[error("session {session} was altered since it was kept, so nothing goes on from it: {why}")]
    Altered {
        /// The session.
        session: SessionId,
        /// What does not fit.
        why: String,
    },
    /// The run refuses what it is brought.
    #[error("the run refuses the answer")]
    Refused(#[from] InputError),
    /// The store could not do its part, or has no such run.
    #[error("{}", words_of_store(.0, "the run could not be read or reserved"))]
    Store(#[source] StoreError),
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

impl From<StoreError> for ResumeError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::RunEnded(run) => Self::Ended(run),
            error => Self::Store(error),
        }
    }
}

/// What is known of a run that can go on, beside its records and before it is leased.
struct Resumable {
    session: SessionId,
    /// What it goes on from.
    history: Transcript,
    /// What governance decided about it.
    decision: Arc<Decision>,
    in_force: InForce,
    /// Whether it goes on only if something was posted to it.
    may_be_posted_to: bool,
    /// Whether whoever had it gave it back.
    released: bool,
    context: RequestContext,
}

/// A run that was leased to be taken up.
pub(super) struct PreparedRun {
    pub(super) slot: RunSlot,
    pub(super) scope: RunScope,
    pub(super) ready: ReadyRun,
}

/// What became of a run that was to be taken up.
pub(super) enum Prepared {
    /// It can be driven here.
    Ready(Box<PreparedRun>),
    /// It goes on elsewhere, or another run goes on from it.
    GoesOn(RunHandle),
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
    /// # Panics
    ///
    /// As [`start`](Self::start).
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

    pub(super) async fn resume_as(
        &self,
        run_id: RunId,
        answers: Vec<Answer>,
        taker: Taker,
    ) -> Result<RunHandle, ResumeError> {
        // Before it is leased: outside of a runtime nothing could drive it.
        let _ = Handle::current();
        match self.prepare(run_id, answers, taker).await? {
            Prepared::Ready(run) => Ok(self.set_to_work(run.slot, run.scope, run.ready).await?),
            Prepared::GoesOn(handle) => Ok(handle),
        }
    }

    /// Checks and leases a run that is to be taken up, so that it can be driven.
    pub(super) async fn prepare(
        &self,
        run_id: RunId,
        mut answers: Vec<Answer>,
        taker: Taker,
    ) -> Result<Prepared, ResumeError> {
        if self.parts.engine.is_shutting_down() {
            return Err(ResumeError::ShuttingDown);
        }
        self.parts.active.until_put_aside(run_id).await;
        let claim = Claim::take(&self.parts, run_id).ok_or(ResumeError::AtWork(run_id))?;
        let (summary, context) = self.may_take_up(run_id, taker).await?;
        for answer in &mut answers {
            if let Answer::Approval(decided) = answer {
                self.parts.engine.approval_key.sign(run_id, decided);
            }
        }
        let (records, found) = match self.parts.store.records(run_id, Seq(0)).await {
            Err(StoreError::Damaged(why)) => (Vec::new(), Err(Unresumable::Damaged(why))),
            records => {
                let records = records?;
                let found = self.resumable(&summary, context, &records, &answers, taker);
                let found = found.await?;
                (records, found)
            }
        };
        let run = match found {
            Ok(run) => run,
            Err(why) => {
                let next = self.close_unresumable(claim, records, why).await;
                return next.map(Prepared::GoesOn);
            }
        };
        if self.parts.dispatcher.is_some() {
            drop(claim);
            let told = self.tell_elsewhere(run_id, run.session, records, &answers);
            return told.await.map(Prepared::GoesOn);
        }
        let leased = self.lease_restored(claim, run, records, &answers).await?;
        Ok(Prepared::Ready(Box::new(leased)))
    }

    /// Finds out by its records whether a run can go on, or why nobody ever can go on with it.
    async fn resumable(
        &self,
        summary: &RunSummary,
        context: RequestContext,
        records: &[Arc<Record>],
        answers: &[Answer],
        taker: Taker,
    ) -> Result<Result<Resumable, Unresumable>, ResumeError> {
        let (run_id, released) = (summary.run_id, summary.released);
        if records.last().is_some_and(|last| last.ends_the_run()) {
            return Err(ResumeError::Ended(run_id));
        }
        if records.is_empty() {
            return Err(RestoreError::NoStart.into());
        }
        self.check_folder(run_id, records, taker)?;
        let view = RunView::of(records);
        let session = view.session().ok_or(RestoreError::NoStart)?;
        let (Some(decision), Some(spec)) = (view.decision(), view.spec()) else {
            return Ok(Err(Unresumable::Undecided));
        };
        let in_force = self.in_force_today(session, spec, decision, records);
        let in_force = in_force.await?;
        let history = self.parts.store.history_before(run_id).await?;
        // Checked before the run is leased: whoever brings a wrong answer must not take it from who has it.
        let limits = in_force.limits.as_deref();
        let read = RestoredRun::read(&history, records, (answers, &[]), limits, released);
        let may_be_posted_to = matches!(read, Err(ResumeError::NothingToDo));
        match read {
            Err(ResumeError::Restore(why)) => return Ok(Err(Unresumable::Log(why))),
            Err(error) if !may_be_posted_to => return Err(error),
            // One that was given back each time was stopped in order, and one that was lost while this process lives did
            // not end it: nothing is wrong with them.
            Ok(run)
                if run.tree.taken_up_in_vain() >= MAX_TIMES_IN_VAIN
                    && !released
                    && !self.parts.lost.contains(run_id) =>
            {
                return Ok(Err(Unresumable::InVain(run.tree.taken_up_in_vain())));
            }
            _ => {}
        }
        Ok(Ok(Resumable {
            session: session.clone(),
            decision: Arc::clone(decision),
            history,
            in_force,
            may_be_posted_to,
            released,
            context,
        }))
    }

    /// Makes sure that somebody may take a run up, and returns how it stands and what it is given.
    async fn may_take_up(
        &self,
        run_id: RunId,
        taker: Taker,
    ) -> Result<(RunSummary, RequestContext), ResumeError> {
        let summary = self.parts.store.run(run_id).await?;
        // Of one that has ended, whoever wants it to go on hears that.
        let is_over = summary.status.is_ended();
        if summary.imported && !is_over && taker == Taker::Engine {
            return Err(ResumeError::Imported(run_id));
        }
        let session = &summary.session;
        self.refuse_altered(session).await?;
        let context = self.context_in(session).await?;
        let context = context.ok_or_else(|| ResumeError::OtherOwner {
            session: session.clone(),
        })?;
        Ok((summary, context))
    }

    /// Refuses a session that is not what was kept: nothing goes on from it.
    pub(super) async fn refuse_altered(&self, session: &SessionId) -> Result<(), ResumeError> {
        match self.alteration(session).await? {
            Some(why) => Err(ResumeError::Altered {
                session: session.clone(),
                why,
            }),
            None => Ok(()),
        }
    }

    /// Leases a run that can go on, and reads it back once nobody else can write to it.
    async fn lease_restored(
        &self,
        claim: Claim,
        run: Resumable,
        records: Vec<Arc<Record>>,
        answers: &[Answer],
    ) -> Result<PreparedRun, ResumeError> {
        let slot = claim.lease(&run.session).await?;
        slot.note_recorded();
        let was_released = run.released;
        match self.restore_leased(&slot, run, records, answers).await {
            Ok((scope, ready)) => Ok(PreparedRun { slot, scope, ready }),
            Err(error) => {
                // It is as it was, so that nobody has to wait for the end of a lease.
                match was_released {
                    true => slot.release().await?,
                    false => slot.expire().await?,
                }
                Err(error)
            }
        }
    }

    /// Reads a run back that is leased here.
    async fn restore_leased(
        &self,
        slot: &RunSlot,
        run: Resumable,
        mut records: Vec<Arc<Record>>,
        answers: &[Answer],
    ) -> Result<(RunScope, ReadyRun), ResumeError> {
        let run_id = slot.run();
        // What it waits for may have been posted: only whoever holds the run can tell.
        let posted = slot.inbox().await?;
        if run.may_be_posted_to && posted.is_empty() {
            return Err(ResumeError::NothingToDo);
        }
        // Whoever had it before may have gone on meanwhile, and no longer can.
        let last = records.last().map_or(Seq(0), |record| record.seq);
        records.extend(self.parts.store.records(run_id, last).await?);
        // Of several answers to a question the first counts, and what was posted was told that it is kept.
        let is_first = |answer: &&Answer| match answer {
            Answer::Approval(decided) => posted.iter().all(|entry| entry.id != decided.id),
            Answer::ToolResult { .. } => true,
        };
        let answers: Vec<Answer> = answers.iter().filter(is_first).cloned().collect();
        let limits = run.in_force.limits.as_deref();
        let brought = (answers.as_slice(), posted.as_slice());
        let restored = RestoredRun::read(&run.history, &records, brought, limits, run.released)?;
        self.check_servers(&records, |asked| {
            let call = &asked.tool_call_id;
            answers.iter().any(|answer| answer.allows(call))
        })?;
        let scope = RunScope {
            run_id,
            session_id: Some(run.session),
            request: restored_context(run.context, &records),
            delivery: Delivery::Streamed,
            trace: recorded_trace(&records),
            decision: Some(run.decision),
            offered_now: Some(run.in_force.tools),
        };
        // Nobody would wait for it any more, and it would be ended in place of being left.
        if self.parts.engine.is_shutting_down() {
            return Err(ResumeError::ShuttingDown);
        }
        let ready = restored.ready(&self.parts.engine, &run.history, records)?;
        Ok((scope, ready))
    }

    /// Lets a run go on that was put aside while somebody posted to it, in a task of its own.
    pub(crate) fn resume_in_background(self, run_id: RunId) {
        let tasks = self.parts.engine.tasks.clone();
        // Boxed, because a run that is resumed may come to resume itself.
        let resumed: BoxFuture<'static, ()> = Box::pin(async move {
            if let Err(error) = self.resume(run_id, Vec::new()).await {
                tracing::debug!(run = %run_id, %error, "what was posted last is taken elsewhere, or later");
            }
        });
        tasks.spawn(resumed);
    }
}
