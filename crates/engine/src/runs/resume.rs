//! Resumes runs: after a crash, or because what a run waited for was answered.

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
use super::recheck::{InForce, MAX_FUTILE_RESUMES, ResumedBy};
use super::restored::{RestoredRun, recorded_trace, restored_context};
use super::slot::{Claim, RunSlot};
use crate::catalog::ToolCallError;
use crate::driver::{ReadyRun, RunScope};
use crate::error_kind::words_of_store;
use crate::request::Delivery;
use crate::run_handle::RunHandle;

/// An answer for a run that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// A decision about a call.
    Approval(ApprovalDecided),
    /// The result of a tool that the caller runs.
    ToolResult {
        /// The call.
        call: ToolCallId,
        /// Its outcome.
        outcome: ToolOutcome,
        /// How long it took.
        duration: Duration,
    },
}

impl Answer {
    /// Returns whether this answer approves a call.
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

/// Why a run cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The run has ended.
    #[error("run {0} has ended")]
    Ended(RunId),
    /// No call of the run with this id waits for its client.
    #[error("call {0} is not waiting for a result")]
    NotWaiting(ToolCallId),
    /// No call of the run with this id and these arguments waits for approval.
    #[error("call {0} is not waiting for a decision about these arguments")]
    NotAsked(ToolCallId),
    /// `Expired` is not a decision to give: only the passing of time makes a question expire. The call still waits.
    #[error("expiry is not a decision: allow or deny call {0}")]
    NotADecision(ToolCallId),
    /// The tool does not accept the edited arguments. The call still waits.
    #[error("{why}; call {call} still waits")]
    Arguments {
        /// The call.
        call: ToolCallId,
        /// What is wrong with them.
        why: ToolCallError,
    },
    /// The call belongs to a server that has no tools here now. The call still waits.
    #[error(
        "tool server {server} has no tools here now, for example because it is not connected: call {call} still waits; decide again once it is back"
    )]
    ServerAway {
        /// The call.
        call: ToolCallId,
        /// The server.
        server: Arc<str>,
    },
    /// The run waits for approval in a mode or channel that this engine's policy does not have. It still waits.
    #[error("run {run} uses {what}, which is not configured here: it still waits")]
    NotConfigured {
        /// The run.
        run: RunId,
        /// The mode or the channel.
        what: String,
    },
    /// The time for deciding about a call has passed: the call is not run, and the run continues without it.
    #[error(
        "the question about call {call} expired at {at} without a decision: the call is not run"
    )]
    Expired {
        /// The call.
        call: ToolCallId,
        /// When the question expired.
        at: Timestamp,
    },
    /// The run waits only for its client, and no result was supplied.
    #[error("the run waits for results of its client's tools, and none was given")]
    NothingToDo,
    /// The run's tools work on the files of another folder than this engine's.
    #[error("run {run} works in {folder}: resume it there")]
    Elsewhere {
        /// The run.
        run: RunId,
        /// The folder.
        folder: Arc<str>,
    },
    /// The run offers tools that work on files, and its log does not say in which folder.
    #[error(
        "the log of run {0} does not say in which folder its tools work: it must be resumed by hand"
    )]
    NoFolder(RunId),
    /// The session of the run belongs to another owner than the one that [`Runs::with_context`] names.
    #[error("session {session} does not belong to this owner")]
    OtherOwner {
        /// The session.
        session: SessionId,
    },
    /// The run was imported, so its log was written elsewhere.
    #[error("run {0} was imported: it must be resumed by hand")]
    Imported(RunId),
    /// The run is in progress: in this process, where its handle accepts answers, or in another.
    #[error("run {0} is in progress")]
    AtWork(RunId),
    /// The run is in progress in another process, which renews its lease.
    #[error("run {0} is in progress in another process, which is alive")]
    Alive(RunId),
    /// The run cannot be restored from its records.
    #[error("the run cannot be restored from its records")]
    Restore(#[from] RestoreError),
    /// The run cannot or must not continue: its log cannot be replayed or holds no decision, or resuming it failed
    /// repeatedly. It was ended as interrupted, and its session is free.
    #[error("run {run} could not be resumed and was ended as interrupted: {why}")]
    Closed {
        /// The run.
        run: RunId,
        /// Why it could not continue, as recorded.
        why: String,
    },
    /// The run's session was altered, so nothing continues it. Only an engine that [verifies
    /// sessions](crate::OrchestratorBuilder::verify_sessions) checks this.
    #[error("session {session} was altered after it was stored, so it cannot be continued: {why}")]
    Altered {
        /// The session.
        session: SessionId,
        /// The inconsistency that was found.
        why: String,
    },
    /// The run refuses what it was supplied with.
    #[error("the run refuses the answer")]
    Refused(#[from] InputError),
    /// The store failed, or has no such run.
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

/// What is known about a run that can continue, in addition to its records, before it is leased.
struct Resumable {
    session: SessionId,
    /// The history that it continues from.
    history: Transcript,
    /// What governance decided about it.
    decision: Arc<Decision>,
    in_force: InForce,
    /// Whether it continues only if something was posted to it.
    needs_posted_input: bool,
    /// Whether its last holder released it.
    released: bool,
    context: RequestContext,
}

/// What its records say about resuming a run.
enum Found {
    /// The run continues with this state.
    Resumable(Box<Resumable>),
    /// No later attempt can resume the run either.
    Unresumable(Unresumable),
}

/// A run that was leased in order to be resumed.
pub(super) struct PreparedRun {
    pub(super) slot: RunSlot,
    pub(super) scope: RunScope,
    pub(super) ready: ReadyRun,
}

/// The outcome of preparing to resume a run.
pub(super) enum Prepared {
    /// It can be driven here.
    Ready(Box<PreparedRun>),
    /// It continues elsewhere, or another run continues from it.
    Continues(RunHandle),
}

impl Runs {
    /// Resumes a run that is not in progress: one that a dead process left, or one that waits, with the answers it
    /// waits for. Its finished calls are not repeated. Every other call is checked again before it runs, against the
    /// tool and the policy as they are here and now; the stricter of these and the records applies. A call in doubt is
    /// repeated only if both of its classes allow that.
    ///
    /// An imported run is left to [`resume_by_user`](Self::resume_by_user). A run whose log holds no decision is
    /// ended, and so is one that was resumed twice in a row without progress.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the run has ended, cannot be read back, works in another folder, is left to a user, or does
    /// not wait for such an answer.
    ///
    /// # Panics
    ///
    /// Same as [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle leaves the run in progress.
    pub async fn resume(
        &self,
        run_id: RunId,
        answers: Vec<Answer>,
    ) -> Result<RunHandle, ResumeError> {
        self.resume_as(run_id, answers, ResumedBy::Engine).await
    }

    pub(super) async fn resume_as(
        &self,
        run_id: RunId,
        answers: Vec<Answer>,
        resumed_by: ResumedBy,
    ) -> Result<RunHandle, ResumeError> {
        // Panics before the run is leased: outside of a runtime nothing could drive it.
        let _ = Handle::current();
        match self.prepare(run_id, answers, resumed_by).await? {
            Prepared::Ready(run) => {
                let begun = self.begin(run.slot, run.scope, run.ready);
                Ok(self.start_driving(begun).await?)
            }
            Prepared::Continues(handle) => Ok(handle),
        }
    }

    /// Checks and leases a run to be resumed, so that it can be driven.
    pub(super) async fn prepare(
        &self,
        run_id: RunId,
        mut answers: Vec<Answer>,
        resumed_by: ResumedBy,
    ) -> Result<Prepared, ResumeError> {
        if self.parts.engine.is_shutting_down() {
            return Err(ResumeError::ShuttingDown);
        }
        self.parts.active.until_parked(run_id).await;
        let claim = Claim::take(&self.parts, run_id).ok_or(ResumeError::AtWork(run_id))?;
        let (summary, context) = self.check_resumable(run_id, resumed_by).await?;
        for answer in &mut answers {
            if let Answer::Approval(decided) = answer {
                self.parts.engine.approval_key.sign(run_id, decided);
            }
        }
        let (records, found) = match self.parts.store.records(run_id, Seq(0)).await {
            Err(StoreError::Damaged(why)) => {
                (Vec::new(), Found::Unresumable(Unresumable::Damaged(why)))
            }
            records => {
                let records = records?;
                let found = self.resumable(&summary, context, &records, &answers, resumed_by);
                let found = found.await?;
                (records, found)
            }
        };
        let run = match found {
            Found::Resumable(run) => *run,
            Found::Unresumable(why) => {
                let next = self.close_unresumable(claim, records, why).await;
                return next.map(Prepared::Continues);
            }
        };
        if self.parts.dispatcher.is_some() {
            drop(claim);
            let followed = self.post_answers(run_id, run.session, records, &answers);
            return followed.await.map(Prepared::Continues);
        }
        match self.lease_restored(claim, run, records, &answers).await {
            // It would be found again and again, with the same result.
            Err(ResumeError::Refused(defect @ InputError::Inconsistent(_)))
                if answers.is_empty() =>
            {
                let defect = Unresumable::Defect(defect);
                let why = defect.to_string();
                let claim = Claim::take(&self.parts, run_id).ok_or(ResumeError::AtWork(run_id))?;
                self.close_claimed(claim, defect.cause(), &why, None)
                    .await?;
                Err(ResumeError::Closed { run: run_id, why })
            }
            leased => Ok(Prepared::Ready(Box::new(leased?))),
        }
    }

    /// Determines from its records whether a run can continue, or why it never can.
    async fn resumable(
        &self,
        summary: &RunSummary,
        context: RequestContext,
        records: &[Arc<Record>],
        answers: &[Answer],
        resumed_by: ResumedBy,
    ) -> Result<Found, ResumeError> {
        let (run_id, released) = (summary.run_id, summary.released);
        if records.last().is_some_and(|last| last.ends_the_run()) {
            return Err(ResumeError::Ended(run_id));
        }
        if records.is_empty() {
            return Err(RestoreError::NoStart.into());
        }
        self.check_folder(run_id, records, resumed_by)?;
        let view = RunView::of(records);
        let session = view.session().ok_or(RestoreError::NoStart)?;
        let (Some(decision), Some(spec)) = (view.decision(), view.spec()) else {
            return Ok(Found::Unresumable(Unresumable::Undecided));
        };
        let in_force = self.in_force_today(session, spec, decision, records);
        let in_force = in_force.await?;
        let history = self.parts.store.history_before(run_id).await?;
        // Checked before the run is leased, so that a wrong answer does not take the run from its holder.
        let limits = in_force.limits.as_deref();
        let read = RestoredRun::read(&history, records, (answers, &[]), limits, released);
        let needs_posted_input = matches!(read, Err(ResumeError::NothingToDo));
        match read {
            Err(ResumeError::Restore(why)) => return Ok(Found::Unresumable(Unresumable::Log(why))),
            // An answer that is at fault must not end the run: its sender is told.
            Err(ResumeError::Refused(defect @ InputError::Inconsistent(_)))
                if answers.is_empty() =>
            {
                return Ok(Found::Unresumable(Unresumable::Defect(defect)));
            }
            Err(error) if !needs_posted_input => return Err(error),
            // A run that was released each time was stopped in an orderly way, and a run that was lost by this process,
            // which is still alive, did not crash it: nothing is wrong with either.
            Ok(run)
                if run.tree.futile_resumes() >= MAX_FUTILE_RESUMES
                    && !released
                    && !self.parts.lost.contains(run_id) =>
            {
                let futile = Unresumable::NoProgress(run.tree.futile_resumes());
                return Ok(Found::Unresumable(futile));
            }
            _ => {}
        }
        Ok(Found::Resumable(Box::new(Resumable {
            session: session.clone(),
            decision: Arc::clone(decision),
            history,
            in_force,
            needs_posted_input,
            released,
            context,
        })))
    }

    /// Checks that the caller may resume a run, and returns its summary and the context for it.
    async fn check_resumable(
        &self,
        run_id: RunId,
        resumed_by: ResumedBy,
    ) -> Result<(RunSummary, RequestContext), ResumeError> {
        let summary = self.parts.store.run(run_id).await?;
        // For a run that has ended, that is the error to report.
        let is_over = summary.status.is_ended();
        if summary.imported && !is_over && resumed_by == ResumedBy::Engine {
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

    /// Refuses a session that was altered: nothing may continue it.
    pub(super) async fn refuse_altered(&self, session: &SessionId) -> Result<(), ResumeError> {
        match self.alteration(session).await? {
            Some(why) => Err(ResumeError::Altered {
                session: session.clone(),
                why,
            }),
            None => Ok(()),
        }
    }

    /// Leases a run that can continue, and reads it back once no other process can write to it.
    async fn lease_restored(
        &self,
        claim: Claim,
        run: Resumable,
        records: Vec<Arc<Record>>,
        answers: &[Answer],
    ) -> Result<PreparedRun, ResumeError> {
        let slot = claim.lease(&run.session).await?;
        slot.note_needs_no_cleanup();
        let was_released = run.released;
        match self.restore_leased(&slot, run, records, answers).await {
            Ok((scope, ready)) => Ok(PreparedRun { slot, scope, ready }),
            Err(error) => {
                // The run is unchanged, so no other process should have to wait for the lease to end.
                match was_released {
                    true => slot.release().await?,
                    false => slot.expire().await?,
                }
                Err(error)
            }
        }
    }

    /// Reads back a run that is leased here.
    async fn restore_leased(
        &self,
        slot: &RunSlot,
        run: Resumable,
        mut records: Vec<Arc<Record>>,
        answers: &[Answer],
    ) -> Result<(RunScope, ReadyRun), ResumeError> {
        let run_id = slot.run();
        // What it waits for may have been posted: only the run's holder can tell.
        let posted = slot.inbox().await?;
        if run.needs_posted_input && posted.is_empty() {
            return Err(ResumeError::NothingToDo);
        }
        // The previous holder may have continued meanwhile, but no longer can.
        let last = records.last().map_or(Seq(0), |record| record.seq);
        records.extend(self.parts.store.records(run_id, last).await?);
        // The first of several answers to a question applies, and the sender of a posted one was told that it is
        // stored.
        let is_first = |answer: &&Answer| match answer {
            Answer::Approval(decided) => posted.iter().all(|entry| entry.id != decided.id),
            Answer::ToolResult { .. } => true,
        };
        let answers: Vec<Answer> = answers.iter().filter(is_first).cloned().collect();
        let limits = run.in_force.limits.as_deref();
        let answers_and_posted = (answers.as_slice(), posted.as_slice());
        let restored = RestoredRun::read(
            &run.history,
            &records,
            answers_and_posted,
            limits,
            run.released,
        )?;
        self.check_servers(&records, |request| {
            let call = &request.tool_call_id;
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
        // Nothing would wait for it anymore, and it would be ended instead of left.
        if self.parts.engine.is_shutting_down() {
            return Err(ResumeError::ShuttingDown);
        }
        let ready = restored.ready(&self.parts.engine, &run.history, records)?;
        Ok((scope, ready))
    }

    /// Resumes a parked run in a separate task, because something was posted to it while it was being parked.
    pub(crate) fn resume_in_background(self, run_id: RunId) {
        let tasks = self.parts.engine.tasks.clone();
        // Boxed because a resumed run may resume itself.
        let resumed: BoxFuture<'static, ()> = Box::pin(async move {
            if let Err(error) = self.resume(run_id, Vec::new()).await {
                tracing::debug!(run = %run_id, %error, "the last posted input is handled elsewhere, or later");
            }
        });
        tasks.spawn(resumed);
    }
}
