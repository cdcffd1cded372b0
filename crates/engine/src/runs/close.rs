//! Ends runs that cannot or must not continue, so they do not keep their sessions busy forever.
//!
//! What a run of another version of the loop has said and done is kept: another run continues from there.

use std::fmt;
use std::sync::Arc;

use neuraxis_core::log::RunView;
use neuraxis_core::{
    Decision, ForkPoint, InputError, Interruption, Limits, LogEnd, Record, RecordBody,
    RestoreError, RunId, Seq, SessionMetrics, Spent, Transcript, Turn, closing_records, last_turn,
};
use neuraxis_ports::StoreError;
use tokio::time::Instant;

use super::fork::waits_for_an_answer;
use super::slot::Claim;
use super::start::Base;
use super::{ResumeError, Runs};
use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;

/// Recorded instead of the given reason when text is kept out of the log.
const REASON_WITHHELD: &str = "the data policy keeps the reason out of the log";

/// Why a run cannot be continued.
#[derive(Debug)]
pub(crate) enum Unresumable {
    /// Its log can be read, but not replayed.
    Log(RestoreError),
    /// Its log cannot even be read.
    Damaged(String),
    /// Its log does not contain governance's decision, so nothing would govern it.
    Undecided,
    /// It was resumed this many times in a row without progress.
    NoProgress(u32),
    /// The state that results from its log contradicts itself.
    Defect(InputError),
}

impl Unresumable {
    /// Returns the cause to record.
    pub(super) const fn cause(&self) -> Interruption {
        match self {
            Self::Log(RestoreError::OtherVersion { .. }) => Interruption::OtherVersion,
            Self::Log(RestoreError::Withheld(_)) => Interruption::Withheld,
            Self::Log(_) => Interruption::NotReplayable,
            Self::Damaged(_) => Interruption::LogDamaged,
            Self::Undecided => Interruption::Undecided,
            Self::NoProgress(_) => Interruption::NoProgress,
            Self::Defect(_) => Interruption::Defect,
        }
    }
}

/// Leaves out content of the records, since the closing record contains this text.
impl fmt::Display for Unresumable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(RestoreError::Diverged { seq, .. }) => {
                write!(f, "replaying gives a different record {seq}")
            }
            Self::Log(error) => error.fmt(f),
            Self::Damaged(why) => write!(f, "{}: {why}", self.cause()),
            Self::Defect(error) => error.fmt(f),
            Self::Undecided => self.cause().fmt(f),
            Self::NoProgress(times) => write!(
                f,
                "it was resumed {times} times without progress: each time its process died, it crashed, or its records could not be stored"
            ),
        }
    }
}

impl Runs {
    /// Ends a run that no process drives as interrupted, at the caller's request, and frees its session: its open calls
    /// get results that say so, and the run does not continue. Use [`cancel`](Self::cancel) for a run that must process
    /// its own end.
    ///
    /// # Errors
    ///
    /// [`ResumeError::AtWork`] if it is driven in this process; [`ResumeError::Store`] with [`StoreError::SessionBusy`]
    /// if another process drives it; [`ResumeError::Ended`]; [`ResumeError::OtherOwner`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run may still have been ended.
    pub async fn close(&self, run_id: RunId, why: &str) -> Result<(), ResumeError> {
        self.close_as(run_id, Interruption::Closed, why).await
    }

    /// Same as [`close`](Self::close), with a cause for programs beside the reason for people.
    ///
    /// # Errors
    ///
    /// Same as [`close`](Self::close).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run may still have been ended.
    pub async fn close_as(
        &self,
        run_id: RunId,
        cause: Interruption,
        why: &str,
    ) -> Result<(), ResumeError> {
        self.check_owner_of(run_id).await?;
        let claim = Claim::take(&self.parts, run_id).ok_or(ResumeError::AtWork(run_id))?;
        // If the log cannot be read, it is not known where the run worked.
        let records = self.parts.store.records(run_id, Seq(0)).await;
        let records = records.unwrap_or_default();
        let spec = RunView::of(records.get(..1).unwrap_or_default())
            .spec()
            .cloned();
        let is_stored = spec.is_none_or(|spec| spec.data_policy().text);
        let why = if is_stored { why } else { REASON_WITHHELD };
        self.close_claimed(claim, cause, why, self.by.clone()).await
    }

    /// Ends a run that works in another folder and should end: nothing of it needs to run, so the folder is not needed.
    /// If another process holds the run, it learns of the cancellation by itself.
    pub(super) async fn close_elsewhere(
        &self,
        run_id: RunId,
        why: &str,
    ) -> Result<(), ResumeError> {
        let cause = Interruption::CancelledElsewhere;
        match self.close_as(run_id, cause, why).await {
            Err(
                ResumeError::AtWork(_)
                | ResumeError::Ended(_)
                | ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_)),
            ) => Ok(()),
            closed => closed,
        }
    }

    /// Ends a run, or frees its session if it never began. `by` is who ends it, if somebody does.
    pub(super) async fn close_claimed(
        &self,
        claim: Claim,
        cause: Interruption,
        why: &str,
        by: Option<String>,
    ) -> Result<(), ResumeError> {
        let run_id = claim.run();
        let records = match self.parts.store.records(run_id, Seq(0)).await {
            Err(StoreError::Damaged(_)) => Vec::new(),
            Ok(records) if records.is_empty() => {
                // It never began, so there is nothing to end.
                let session = self.parts.store.run(run_id).await?.session;
                return Ok(claim.lease(&session).await?.abandon().await?);
            }
            records => records?,
        };
        if records.last().is_some_and(|last| last.ends_the_run()) {
            return Err(ResumeError::Ended(run_id));
        }
        self.end_as_interrupted(claim, records, cause, why, by)
            .await?;
        Ok(())
    }

    /// Ends a run whose caller never learned of it, unless it has ended or was deleted with its session.
    pub(super) async fn end_orphan(&self, claim: Claim) -> Result<(), ResumeError> {
        let cause = Interruption::NoCaller;
        match self
            .close_claimed(claim, cause, &cause.to_string(), None)
            .await
        {
            Err(ResumeError::Ended(_) | ResumeError::Store(StoreError::NoSuchRun(_))) => Ok(()),
            closed => closed,
        }
    }

    /// Ends a run that cannot be continued. If only the loop has changed since, another run continues at its next turn.
    pub(super) async fn close_unresumable(
        &self,
        claim: Claim,
        records: Vec<Arc<Record>>,
        why: Unresumable,
    ) -> Result<RunHandle, ResumeError> {
        let (run_id, cause, reason) = (claim.run(), why.cause(), why.to_string());
        let records = self
            .end_as_interrupted(claim, records, cause, &reason, None)
            .await?;
        if cause == Interruption::OtherVersion {
            match self.continue_closed(&records).await {
                Ok(Some(handle)) => return Ok(handle),
                Ok(None) => {}
                Err(error) => {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(run = %run_id, error, "could not start another run that continues from it");
                }
            }
        }
        Err(ResumeError::Closed {
            run: run_id,
            why: reason,
        })
    }

    /// Records the end of a run, and who ends it if somebody does. Returns the records from before.
    async fn end_as_interrupted(
        &self,
        claim: Claim,
        mut records: Vec<Arc<Record>>,
        cause: Interruption,
        why: &str,
        by: Option<String>,
    ) -> Result<Vec<Arc<Record>>, ResumeError> {
        let (store, run_id) = (&self.parts.store, claim.run());
        let (session, imported) = {
            let run = store.run(run_id).await?;
            (run.session, run.imported)
        };
        let slot = claim.lease_to_end(&session, imported).await?;
        slot.note_needs_no_cleanup();
        // The previous holder may have continued meanwhile, but no longer can.
        if let Some(last) = records.last().map(|record| record.seq) {
            records.extend(store.records(run_id, last).await?);
        }
        if records.last().is_some_and(|last| last.ends_the_run()) {
            return Err(ResumeError::Ended(run_id));
        }
        let last = match records.last() {
            Some(last) => last.seq,
            None => Seq(store.run(run_id).await?.records),
        };
        let at = self.parts.engine.clock.now();
        let mut closing = closing_records(&records, LogEnd { run_id, last, at }, cause, why);
        if let Some(RecordBody::Cancelled(cancelled)) = closing
            .first_mut()
            .map(|record| &mut Arc::make_mut(record).body)
        {
            cancelled.by = by;
        }
        let began = Instant::now();
        slot.commit(&closing).await?;
        let took = began.elapsed();
        let engine = &self.parts.engine;
        // The history before this run is not needed: no model is asked any more.
        engine.notify_sinks(|sink| sink.resume(run_id, &Transcript::default(), &records));
        engine.pass_to_sinks(&closing, Some(took));
        engine.notify_sinks(|sink| sink.end(run_id));
        if let Some(dispatcher) = &self.parts.dispatcher {
            // The process that held the run while it waited learns that it has ended, and lets go of it.
            self.dispatch_soon(dispatcher, session, run_id);
        }
        tracing::warn!(run = %run_id, why, "the run was ended as interrupted");
        Ok(records)
    }

    /// Starts a run that continues where a closed one stopped. `None` if there is nothing more to answer, or if the log
    /// does not contain the text.
    async fn continue_closed(
        &self,
        records: &[Arc<Record>],
    ) -> Result<Option<RunHandle>, RequestError> {
        let view = RunView::of(records);
        let (Some(spec), Some(session), Some(decision)) =
            (view.spec(), view.session(), view.decision())
        else {
            return Ok(None);
        };
        let history = self.parts.store.history(session).await?;
        if spec.withheld().is_some() || !waits_for_an_answer(&history) {
            return Ok(None);
        }
        let turn = last_turn(records);
        let mut spec = (**spec).clone();
        spec.forked_from = Some(ForkPoint {
            run_id: spec.run_id,
            turn,
        });
        spec.run_id = RunId(self.parts.engine.ids.new_id());
        let in_force = self.in_force(session, &spec, decision);
        let mut decision = Decision::clone(decision);
        for tools in [&mut decision.tools, &mut decision.sub_agent_tools] {
            tools.retain(|tool| in_force.tools.contains(tool));
        }
        spec.messages.clear();
        spec.decision = Some(Arc::new(decision));
        if let Some(limits) = in_force.limits {
            spec.root.limits = *limits;
        }
        // A new run must not bypass a limit.
        let used = SessionMetrics::of_run(records.iter().map(|it| &**it)).spent();
        let limits = left_of(spec.root.limits, turn, used);
        spec.root.limits = self.within_day(session, &spec, limits, Spent::NONE).await?;
        let request = UserRequest::new(session.clone(), String::new());
        // Boxed because a starting run may resume another.
        let launched = self.launch(Base::Leased, Arc::new(spec), &request, None);
        Box::pin(launched).await.map(Some)
    }
}

/// Returns what a run that began with these limits may still use after this many turns; at least one more turn.
fn left_of(limits: Limits, turn: Turn, used: Spent) -> Limits {
    Limits {
        max_turns: limits
            .max_turns
            .map(|most| most.saturating_sub(turn.0).max(1)),
        ..limits.left(used)
    }
}
