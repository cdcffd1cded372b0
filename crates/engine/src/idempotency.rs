//! Repeated requests with the same idempotency key: each key of a session starts one run.
//!
//! The store knows which run was started under a key, and what its request asked, and lets no other run of the session
//! start under that key. This module returns that run for a repeated request, whatever state the run is in.

mod sameness;

use std::sync::Arc;

use neuraxis_core::log::LogSummary;
use neuraxis_core::{IdempotencyKey, Record, RunStatus, Seq};
use neuraxis_ports::{RunFilter, RunSummary, StoreError};

use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;
use crate::runs::{Reachability, ResumeError, Runs};

pub use sameness::{Differences, RequestPart};
use sameness::{check, keyed};

/// The result of looking up the run of a request.
enum KeyedRun {
    /// The run was found.
    Run(RunHandle),
    /// The run is being started or resumed in this process.
    Starting,
    /// The state has changed in the meantime: look again.
    Changed,
}

impl Runs {
    /// Returns whether an earlier request with the same key already started a run, in which case this request starts
    /// none.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the store cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn is_repeat(&self, request: &UserRequest) -> Result<bool, RequestError> {
        let Some(key) = &request.idempotency_key else {
            return Ok(false);
        };
        self.check_owner(request).await?;
        let earlier = self.find_earlier(request, key).await?;
        Ok(earlier.is_some_and(|run| run.records > 0))
    }

    /// Starts the run of a request, or returns the run that an earlier request with the same key started.
    pub(crate) async fn begin_once(
        &self,
        request: UserRequest,
        key: IdempotencyKey,
    ) -> Result<RunHandle, RequestError> {
        self.check_owner(&request).await?;
        self.check_unaltered(&request.session_id).await?;
        loop {
            // Subscribed before the lookup, so no change is missed.
            let changed = self.parts.active.changed();
            let found = match self.find_earlier(&request, &key).await? {
                Some(run) => self.repeated(&request, &run).await?,
                None => self.begin_first(&request, &key).await?,
            };
            match found {
                KeyedRun::Run(handle) => return Ok(handle),
                KeyedRun::Starting => changed.await,
                KeyedRun::Changed => {}
            }
        }
    }

    async fn find_earlier(
        &self,
        request: &UserRequest,
        key: &IdempotencyKey,
    ) -> Result<Option<RunSummary>, StoreError> {
        let session = request.session_id.clone();
        let filter = RunFilter::under_key(session, keyed(request, key).key);
        Ok(self
            .parts
            .store
            .find_runs(&filter)
            .await?
            .into_iter()
            .next())
    }

    async fn begin_first(
        &self,
        request: &UserRequest,
        key: &IdempotencyKey,
    ) -> Result<KeyedRun, RequestError> {
        let keyed = Some(keyed(request, key));
        match self.start_governed(request.clone(), keyed).await {
            // Another request with this key was faster.
            Err(RequestError::Store(StoreError::KeyTaken { .. })) => Ok(KeyedRun::Changed),
            begun => Ok(KeyedRun::Run(begun?)),
        }
    }

    /// Determines the state of the run that an earlier request started.
    async fn repeated(
        &self,
        request: &UserRequest,
        run: &RunSummary,
    ) -> Result<KeyedRun, RequestError> {
        match self.parts.active.reach(run.run_id) {
            Reachability::Here(handle) => {
                check(request, run)?;
                return Ok(found(handle));
            }
            Reachability::Starting => return Ok(KeyedRun::Starting),
            Reachability::Absent => {}
        }
        if run.records == 0 {
            return self.never_begun(run).await;
        }
        check(request, run)?;
        let records = match self.parts.store.records(run.run_id, Seq(0)).await {
            // Its session was deleted in the meantime.
            Err(StoreError::NoSuchRun(_)) => return Ok(KeyedRun::Changed),
            records => records?,
        };
        let session = &request.session_id;
        // The run may have made progress since it was found.
        let mut now = RunSummary::new(run.run_id, session.clone());
        now.log = LogSummary::of(&records);
        let waits = now.status == RunStatus::Waiting && !run.has_mail;
        if waits || records.last().is_some_and(|last| last.ends_the_run()) {
            let handle = self.stored_run(session, run.run_id, records);
            return Ok(found(handle.await?));
        }
        if let Some(found) = self.is_driven(&now, &records).await? {
            return Ok(found);
        }
        let runs = self.with_context(request.context.clone());
        match runs.resume(run.run_id, Vec::new()).await {
            Ok(handle) => Ok(found(handle)),
            Err(ResumeError::NothingToDo) => {
                let handle = self.stored_run(session, run.run_id, records);
                Ok(found(handle.await?))
            }
            Err(error) => unresumed(&now, error),
        }
    }

    /// Handles the case that a process is driving the run, or has changed it since it was read as `seen` with
    /// `records`. Returns `None` if no process is driving it.
    async fn is_driven(
        &self,
        seen: &RunSummary,
        records: &[Arc<Record>],
    ) -> Result<Option<KeyedRun>, RequestError> {
        let (session, run) = (seen.session.clone(), seen.run_id);
        // Checked before the run is read, because the run may end in the meantime.
        let is_of_former = !matches!(self.reach(run), Reachability::Absent);
        let now = match self.parts.store.run(run).await {
            Ok(now) => now,
            Err(StoreError::NoSuchRun(_)) => return Ok(Some(KeyedRun::Changed)),
            Err(error) => return Err(error.into()),
        };
        if now.ended_at.is_none() && now.leased_until.is_none() {
            return Ok(None);
        }
        // A process may also have been driving the run when it was found, and have finished since.
        let state = |run: &RunSummary| (run.status, run.records == 0);
        if self.parts.active.contains(run) || state(&now) != state(seen) {
            return Ok(Some(KeyedRun::Changed));
        }
        if (self.parts.dispatcher.is_some() || is_of_former) && seen.records > 0 {
            // The client that repeats its request may already have received all of these records.
            let handle = self.follow(run, session, records.to_vec());
            return Ok(Some(found(handle)));
        }
        let run = (seen.records > 0).then_some(run);
        Err(RequestError::AtWorkElsewhere { session, run })
    }

    /// Frees the session of a run that was reserved and never started, unless a process is about to start it.
    async fn never_begun(&self, seen: &RunSummary) -> Result<KeyedRun, RequestError> {
        if let Some(found) = self.is_driven(seen, &[]).await? {
            return Ok(found);
        }
        let (session, run) = (&seen.session, seen.run_id);
        match self.abandon_unbegun(session, run).await {
            Ok(()) => Ok(KeyedRun::Changed),
            Err(error) => unresumed(seen, error),
        }
    }
}

fn found(handle: RunHandle) -> KeyedRun {
    KeyedRun::Run(RunHandle {
        is_repeat: true,
        ..handle
    })
}

/// Returns the outcome for a repeated request whose run cannot be resumed here and now.
fn unresumed(seen: &RunSummary, error: ResumeError) -> Result<KeyedRun, RequestError> {
    let run = seen.run_id;
    match error {
        // At the next look, the run has ended or can be reached here.
        ResumeError::AtWork(_) | ResumeError::Ended(_) | ResumeError::Closed { .. } => {
            Ok(KeyedRun::Changed)
        }
        ResumeError::Store(StoreError::Stale(_) | StoreError::NoSuchRun(_)) => {
            Ok(KeyedRun::Changed)
        }
        ResumeError::Store(StoreError::SessionBusy { .. }) => Err(RequestError::AtWorkElsewhere {
            session: seen.session.clone(),
            run: (seen.records > 0).then_some(run),
        }),
        ResumeError::Store(error) => Err(error.into()),
        ResumeError::ShuttingDown => Err(RequestError::ShuttingDown),
        error => Err(RequestError::Interrupted {
            run,
            source: Box::new(error),
        }),
    }
}
