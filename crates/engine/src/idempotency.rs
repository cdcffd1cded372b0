//! Requests that are made again under the same idempotency key: each key of a session begins one run.
//!
//! The key is kept nowhere. The id of its run ends with a hash of session and key, so that the store finds the run; what the
//! run's first records say tells whether the request is the same. That no two runs begin under one key follows from that a
//! session has one run at a time: who holds the session looks once more before the run begins.

mod sameness;
mod tail;

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{IdempotencyKey, RunId, RunStatus, Seq, SessionId};
use neuraxis_ports::{RunFilter, RunSummary, SessionStore, StoreError};

use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;
use crate::runs::{Claim, Reached, ResumeError, Runs};

pub use sameness::{Differences, RequestPart};
use sameness::{Kept, check};
use tail::{has_tail, tail, with_tail};

/// What came of looking for the run of a request.
enum Found {
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
        let known = tail(&request.session_id, key);
        let earlier = find(self.parts.store.as_ref(), &request.session_id, known).await?;
        Ok(earlier.iter().any(|run| run.records > 0))
    }

    /// Begins the run of a request, or returns the one that an earlier request under the same key began.
    pub(crate) async fn begin_once(
        &self,
        request: UserRequest,
        key: IdempotencyKey,
    ) -> Result<RunHandle, RequestError> {
        loop {
            // From now on nothing is missed.
            let moved = self.parts.active.moved();
            let known = tail(&request.session_id, &key);
            let earlier = find(self.parts.store.as_ref(), &request.session_id, known).await?;
            let found = match earlier.first() {
                Some(run) => self.repeated(&request, run).await?,
                None => self.begin_first(&request, known).await?,
            };
            match found {
                Found::Run(handle) => return Ok(handle),
                Found::Moving => moved.await,
                Found::Changed => {}
            }
        }
    }

    async fn begin_first(&self, request: &UserRequest, known: u128) -> Result<Found, RequestError> {
        let session = &request.session_id;
        let decision = self.govern(request).await?;
        let run_id = RunId(with_tail(self.parts.engine.ids.new_id(), known));
        let spec = self.asked_spec(run_id, request, decision).await;
        let Some(claim) = Claim::take(&self.parts, run_id) else {
            return Ok(Found::Moving);
        };
        let slot = match claim.lease(session).await {
            Err(StoreError::SessionBusy { run, .. }) if has_tail(run, known) => {
                return Ok(Found::Changed);
            }
            // Of the same millisecond, and ended since it was looked for.
            Err(StoreError::Stale(_)) => return Ok(Found::Changed),
            leased => leased?,
        };
        // Somebody may have been quicker before the session was held, and nobody can be any more.
        let earlier = find(self.parts.store.as_ref(), session, known).await?;
        if earlier.iter().any(|run| run.run_id != run_id) {
            slot.give_back().await;
            return Ok(Found::Changed);
        }
        if earlier.iter().any(|run| run.records > 0) {
            slot.release().await?;
            return Ok(Found::Changed);
        }
        let begun = self.launch_in(slot, spec, request.clone()).await?;
        Ok(Found::Run(begun))
    }

    /// Finds out where the run of an earlier request stands.
    async fn repeated(
        &self,
        request: &UserRequest,
        run: &RunSummary,
    ) -> Result<Found, RequestError> {
        match self.parts.active.reach(run.run_id) {
            Reached::Here(handle) => {
                let feed = &handle.link.feed;
                feed.with_records(|records| check(request, records, Kept::Whole))?;
                return Ok(found(handle));
            }
            Reached::Soon => return Ok(Found::Moving),
            Reached::No => {}
        }
        if run.records == 0 {
            return self.never_begun(run).await;
        }
        let records = match self.parts.store.records(run.run_id, Seq(0)).await {
            // Its session was deleted meanwhile.
            Err(StoreError::NoSuchRun(_)) => return Ok(Found::Changed),
            records => records?,
        };
        check(request, &records, Kept::UnderPolicy)?;
        let session = &request.session_id;
        // It may have gone on since it was found.
        let mut now = RunSummary::new(run.run_id, session.clone());
        records.iter().for_each(|record| now.read(record));
        let waits = now.status == RunStatus::Waiting && !run.has_mail;
        if waits || records.last().is_some_and(|last| last.ends_the_run()) {
            let handle = self.stored_run(session, run.run_id, records);
            return Ok(found(handle.await?));
        }
        if let Some(found) = self.is_driven(&now).await? {
            return Ok(found);
        }
        match self.resume(run.run_id, Vec::new()).await {
            Ok(handle) => Ok(found(handle)),
            Err(ResumeError::NothingToDo) => {
                let handle = self.stored_run(session, run.run_id, records);
                Ok(found(handle.await?))
            }
            Err(error) => unresumed(&now, error),
        }
    }

    /// Tells what it means that somebody drives a run that was seen so; `None` if nobody does.
    async fn is_driven(&self, seen: &RunSummary) -> Result<Option<Found>, RequestError> {
        let (session, run) = (seen.session.clone(), seen.run_id);
        let now = match self.parts.store.run(run).await {
            Ok(now) => now,
            Err(StoreError::NoSuchRun(_)) => return Ok(Some(Found::Changed)),
            Err(error) => return Err(error.into()),
        };
        if now.ended_at.is_none() && now.leased_until.is_none() {
            return Ok(None);
        }
        // Or somebody drove it when it was looked for, and has come to the end.
        let stands = |run: &RunSummary| (run.status, run.records == 0);
        if self.parts.active.contains(run) || stands(&now) != stands(seen) {
            return Ok(Some(Found::Changed));
        }
        let run = (seen.records > 0).then_some(run);
        Err(RequestError::AtWorkElsewhere { session, run })
    }

    /// Frees the session of a run that was reserved and never began, unless somebody is just about to begin it.
    async fn never_begun(&self, seen: &RunSummary) -> Result<Found, RequestError> {
        if let Some(found) = self.is_driven(seen).await? {
            return Ok(found);
        }
        let (session, run) = (&seen.session, seen.run_id);
        match self.release(session, run).await {
            Ok(()) => Ok(Found::Changed),
            Err(error) => unresumed(seen, error),
        }
    }
}

fn found(handle: RunHandle) -> Found {
    Found::Run(RunHandle {
        is_repeat: true,
        ..handle
    })
}

/// Tells what it means for a repeated request that its run cannot be taken up here and now.
fn unresumed(seen: &RunSummary, error: ResumeError) -> Result<Found, RequestError> {
    let run = seen.run_id;
    match error {
        // By the time it is looked at again it has ended, or can be reached here.
        ResumeError::AtWork(_) | ResumeError::Ended(_) | ResumeError::Closed { .. } => {
            Ok(Found::Changed)
        }
        ResumeError::Store(StoreError::Stale(_) | StoreError::NoSuchRun(_)) => Ok(Found::Changed),
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

/// Returns the runs of a session whose ids have this tail. Seldom more than one: another is just being found out to be
/// too many.
async fn find(
    store: &dyn SessionStore,
    session: &SessionId,
    tail: u128,
) -> Result<Vec<RunSummary>, StoreError> {
    let (_, ending) = Uuid::from_u128(tail).as_u64_pair();
    let filter = RunFilter::default().of_session(session.clone());
    let mut runs = store
        .find_runs(&filter.ending_with(ending.to_be_bytes()))
        .await?;
    runs.retain(|run| has_tail(run.run_id, tail));
    // The one that began is the one that counts.
    runs.sort_by_key(|run| run.records == 0);
    Ok(runs)
}
