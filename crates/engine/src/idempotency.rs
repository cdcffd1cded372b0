//! Requests that are made again under the same idempotency key: each key of a session begins one run.
//!
//! The store knows which run was begun under a key, and what its request asked, and lets no other run of the session begin
//! under it. Here a request that is made again gets that run, wherever it stands.

mod sameness;

use std::sync::Arc;

use neuraxis_core::log::LogSummary;
use neuraxis_core::{IdempotencyKey, Record, RunStatus, Seq};
use neuraxis_ports::{RunFilter, RunSummary, StoreError};

use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;
use crate::runs::{Reached, ResumeError, Runs};

pub use sameness::{Differences, RequestPart};
use sameness::{check, keyed};

/// What came of looking for the run of a request.
enum KeyedRun {
    /// Here it is.
    Run(RunHandle),
    /// It is just being begun or taken up here.
    Moving,
    /// It has changed meanwhile: look again.
    Changed,
}

impl Runs {
    /// Tells whether an earlier request under the same key began a run already, so that this one begins none.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the store cannot tell.
    ///
    /// # Cancel safety
    ///
    /// Dropped, nothing has changed.
    pub async fn is_repeat(&self, request: &UserRequest) -> Result<bool, RequestError> {
        let Some(key) = &request.idempotency_key else {
            return Ok(false);
        };
        self.check_owner(request).await?;
        let earlier = self.find_earlier(request, key).await?;
        Ok(earlier.is_some_and(|run| run.records > 0))
    }

    /// Begins the run of a request, or returns the one that an earlier request under the same key began.
    pub(crate) async fn begin_once(
        &self,
        request: UserRequest,
        key: IdempotencyKey,
    ) -> Result<RunHandle, RequestError> {
        self.check_owner(&request).await?;
        self.check_unaltered(&request.session_id).await?;
        loop {
            // From now on nothing is missed.
            let moved = self.parts.active.moved();
            let found = match self.find_earlier(&request, &key).await? {
                Some(run) => self.repeated(&request, &run).await?,
                None => self.begin_first(&request, &key).await?,
            };
            match found {
                KeyedRun::Run(handle) => return Ok(handle),
                KeyedRun::Moving => moved.await,
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
            // Somebody was quicker since it was looked for.
            Err(RequestError::Store(StoreError::KeyTaken { .. })) => Ok(KeyedRun::Changed),
            begun => Ok(KeyedRun::Run(begun?)),
        }
    }

    /// Finds out where the run of an earlier request stands.
    async fn repeated(
        &self,
        request: &UserRequest,
        run: &RunSummary,
    ) -> Result<KeyedRun, RequestError> {
        match self.parts.active.reach(run.run_id) {
            Reached::Here(handle) => {
                check(request, run)?;
                return Ok(found(handle));
            }
            Reached::Soon => return Ok(KeyedRun::Moving),
            Reached::No => {}
        }
        if run.records == 0 {
            return self.never_begun(run).await;
        }
        check(request, run)?;
        let records = match self.parts.store.records(run.run_id, Seq(0)).await {
            // Its session was deleted meanwhile.
            Err(StoreError::NoSuchRun(_)) => return Ok(KeyedRun::Changed),
            records => records?,
        };
        let session = &request.session_id;
        // It may have gone on since it was found.
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

    /// Tells what it means that somebody drives a run that was seen so, with these records; `None` if nobody does.
    async fn is_driven(
        &self,
        seen: &RunSummary,
        records: &[Arc<Record>],
    ) -> Result<Option<KeyedRun>, RequestError> {
        let (session, run) = (seen.session.clone(), seen.run_id);
        // Before it is read: it may end there meanwhile.
        let is_of_former = !matches!(self.reach(run), Reached::No);
        let now = match self.parts.store.run(run).await {
            Ok(now) => now,
            Err(StoreError::NoSuchRun(_)) => return Ok(Some(KeyedRun::Changed)),
            Err(error) => return Err(error.into()),
        };
        if now.ended_at.is_none() && now.leased_until.is_none() {
            return Ok(None);
        }
        // Or somebody drove it when it was looked for, and has come to the end.
        let stands = |run: &RunSummary| (run.status, run.records == 0);
        if self.parts.active.contains(run) || stands(&now) != stands(seen) {
            return Ok(Some(KeyedRun::Changed));
        }
        if (self.parts.dispatcher.is_some() || is_of_former) && seen.records > 0 {
            // Who asks again may have had all of them.
            let handle = self.follow(run, session, records.to_vec());
            return Ok(Some(found(handle)));
        }
        let run = (seen.records > 0).then_some(run);
        Err(RequestError::AtWorkElsewhere { session, run })
    }

    /// Frees the session of a run that was reserved and never began, unless somebody is just about to begin it.
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

/// Tells what it means for a repeated request that its run cannot be taken up here and now.
fn unresumed(seen: &RunSummary, error: ResumeError) -> Result<KeyedRun, RequestError> {
    let run = seen.run_id;
    match error {
        // By the time it is looked at again it has ended, or can be reached here.
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
