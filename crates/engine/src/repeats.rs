//! Requests that are made again under the same idempotency key: each key of a session begins one run.
//!
//! The key is kept nowhere. The id of its run ends with a hash of session and key, so that the store finds the run; what the
//! run's first records say tells whether the request is the same. That no two runs begin under one key follows from that a
//! session has one run at a time: who holds the session looks once more before the run begins.

use std::fmt;
use std::sync::Arc;

use neuraxis_core::uuid::{Builder, Uuid, Variant, Version};
use neuraxis_core::{
    ContentHash, IdempotencyKey, Message, Record, RecordBody, RunId, RunStatus, Seq, SessionId,
};
use neuraxis_ports::{RunFilter, RunSummary, SessionStore, StoreError};

use crate::orchestrator::Orchestrator;
use crate::request::{RequestError, UserRequest};
use crate::reservation::{AtWork, Held, Reserved, reserve};
use crate::resume::{ResumeError, decision_of, has_ended};
use crate::run_handle::RunHandle;

/// The bits of a run's id that do not tell its time.
const BESIDE_THE_TIME: u128 = (1 << 80) - 1;

/// A part of a request that a repetition has to say again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestPart {
    /// What the user says.
    Message,
    /// How much freedom the request has.
    Mode,
    /// Where it comes from.
    Channel,
}

impl RequestPart {
    /// Returns the part's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Mode => "mode",
            Self::Channel => "channel",
        }
    }
}

/// In which parts a request differs from the one that used its key before. What they said is not repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences(Vec<RequestPart>);

impl Differences {
    /// Returns the parts, at least one.
    #[must_use]
    pub fn parts(&self) -> &[RequestPart] {
        &self.0
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|part| part.name()).collect();
        write!(f, "{} differs", names.join(" and "))
    }
}

/// What came of looking for the run of a request.
enum Found {
    /// Here it is.
    Run(RunHandle),
    /// It is just being begun or taken up here.
    Moving,
    /// It has changed meanwhile: look again.
    Changed,
}

impl Orchestrator {
    /// Begins the run of a request, or returns the one that an earlier request under the same key began.
    pub(crate) async fn begin_once(
        &self,
        store: &Arc<dyn SessionStore>,
        request: UserRequest,
        key: IdempotencyKey,
    ) -> Result<RunHandle, RequestError> {
        loop {
            // From now on nothing is missed.
            let moved = self.engine.places.notified();
            let known = tail(&request.session_id, &key);
            let earlier = find(store.as_ref(), &request.session_id, known).await?;
            let found = match earlier.first() {
                Some(run) => self.repeated(store, &request, run).await?,
                None => self.begin_first(store, &request, known).await?,
            };
            match found {
                Found::Run(handle) => return Ok(handle),
                Found::Moving => moved.await,
                Found::Changed => {}
            }
        }
    }

    async fn begin_first(
        &self,
        store: &Arc<dyn SessionStore>,
        request: &UserRequest,
        known: u128,
    ) -> Result<Found, RequestError> {
        let session = &request.session_id;
        let decision = self.govern(store.as_ref(), request).await?;
        let run_id = RunId(with_tail(self.engine.ids.new_id(), known));
        let spec = self.asked_spec(run_id, request, decision);
        let Some(place) = AtWork::claim(&self.engine, run_id) else {
            return Ok(Found::Moving);
        };
        let lease = match reserve(store.as_ref(), session, run_id).await {
            Err(StoreError::SessionBusy { run, .. }) if has_tail(run, known) => {
                return Ok(Found::Changed);
            }
            // Of the same millisecond, and ended since it was looked for.
            Err(StoreError::Stale(_)) => return Ok(Found::Changed),
            reserved => reserved?,
        };
        let reserved = Reserved::new(&self.engine, store, lease);
        // Somebody may have been quicker before the session was held, and nobody can be any more.
        let earlier = find(store.as_ref(), session, known).await?;
        if earlier.iter().any(|run| run.run_id != run_id) {
            reserved.give_back().await;
            return Ok(Found::Changed);
        }
        if earlier.iter().any(|run| run.records > 0) {
            store.release(&reserved.lease).await?;
            reserved.keep();
            return Ok(Found::Changed);
        }
        let held = Held { place, reserved };
        let begun = self.launch_held(store, spec, request.clone(), held).await?;
        Ok(Found::Run(begun))
    }

    /// Finds out where the run of an earlier request stands.
    async fn repeated(
        &self,
        store: &Arc<dyn SessionStore>,
        request: &UserRequest,
        run: &RunSummary,
    ) -> Result<Found, RequestError> {
        let here = self.engine.runs_at_work().get(&run.run_id).cloned();
        match here {
            Some(Some(handle)) => {
                handle
                    .link
                    .feed
                    .with_records(|records| check(request, records, Kept::Whole))?;
                return Ok(found(handle));
            }
            Some(None) => return Ok(Found::Moving),
            None => {}
        }
        if run.records == 0 {
            return self
                .never_begun(store, &request.session_id, run.run_id)
                .await;
        }
        let records = match store.records(run.run_id, Seq(0)).await {
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
        if waits || has_ended(&records) {
            let handle = self.stored_run(store, session, run.run_id, records);
            return Ok(found(handle.await?));
        }
        if let Some(found) = self.is_driven(store, session, run.run_id).await? {
            return Ok(found);
        }
        match self.resume(run.run_id, Vec::new()).await {
            Ok(handle) => Ok(found(handle)),
            Err(ResumeError::NothingToDo) => {
                let handle = self.stored_run(store, session, run.run_id, records);
                Ok(found(handle.await?))
            }
            Err(error) => unresumed(session, run.run_id, error),
        }
    }

    /// Tells what it means that somebody drives the run; `None` if nobody does.
    async fn is_driven(
        &self,
        store: &Arc<dyn SessionStore>,
        session: &SessionId,
        run: RunId,
    ) -> Result<Option<Found>, RequestError> {
        let left = store.unfinished().await?;
        if left.iter().any(|left| left.run_id == run) {
            return Ok(None);
        }
        if self.engine.runs_at_work().contains_key(&run) {
            return Ok(Some(Found::Changed));
        }
        let session = session.clone();
        Err(RequestError::AtWorkElsewhere { session, run })
    }

    /// Frees the session of a run that was reserved and never began, unless somebody is just about to begin it.
    async fn never_begun(
        &self,
        store: &Arc<dyn SessionStore>,
        session: &SessionId,
        run: RunId,
    ) -> Result<Found, RequestError> {
        if let Some(found) = self.is_driven(store, session, run).await? {
            return Ok(found);
        }
        match self.release(session, run).await {
            Ok(()) => Ok(Found::Changed),
            Err(error) => unresumed(session, run, error),
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
fn unresumed(session: &SessionId, run: RunId, error: ResumeError) -> Result<Found, RequestError> {
    match error {
        // By the time it is looked at again it has ended, or can be reached here.
        ResumeError::AtWork(_) | ResumeError::Ended(_) | ResumeError::Closed { .. } => {
            Ok(Found::Changed)
        }
        ResumeError::Store(StoreError::Stale(_) | StoreError::NoSuchRun(_)) => Ok(Found::Changed),
        ResumeError::Store(StoreError::SessionBusy { .. }) => Err(RequestError::AtWorkElsewhere {
            session: session.clone(),
            run,
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

/// Returns what the ids of the run of a request have beside their time.
fn tail(session: &SessionId, key: &IdempotencyKey) -> u128 {
    // Neither can hold a line break.
    let text = format!("{session}\n{}", key.as_str());
    let hash = ContentHash::of(text.as_bytes());
    let digits = hash.as_bytes().iter().take(16);
    let number = digits.fold(0, |number, byte| (number << 8) | u128::from(*byte));
    let marked = Builder::from_u128(number)
        .with_version(Version::Custom)
        .with_variant(Variant::RFC4122);
    marked.into_uuid().as_u128() & BESIDE_THE_TIME
}

/// Gives an id that begins with a time another tail.
fn with_tail(id: Uuid, tail: u128) -> Uuid {
    Uuid::from_u128((id.as_u128() & !BESIDE_THE_TIME) | tail)
}

fn has_tail(run: RunId, tail: u128) -> bool {
    run.0.as_u128() & BESIDE_THE_TIME == tail
}

/// How records came to be known.
#[derive(Clone, Copy)]
enum Kept {
    /// As they were made.
    Whole,
    /// As the data policy of their run lets them be stored.
    UnderPolicy,
}

/// Makes sure that a request says what the one said that began the run.
fn check(request: &UserRequest, records: &[Arc<Record>], kept: Kept) -> Result<(), RequestError> {
    let mut differences = Vec::new();
    if let Some(RecordBody::RunStarted(started)) = records.first().map(|first| &first.body) {
        let said = Arc::new(Message::user(request.message.as_str()));
        let said = match kept {
            Kept::Whole => said,
            Kept::UnderPolicy => said.withheld(started.spec.data_policy()),
        };
        if started.spec.messages.last() != Some(&said) {
            differences.push(RequestPart::Message);
        }
    }
    if let Some(decision) = decision_of(records) {
        if decision.mode != request.mode {
            differences.push(RequestPart::Mode);
        }
        if decision.channel != request.channel {
            differences.push(RequestPart::Channel);
        }
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(RequestError::KeyReused(Differences(differences))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(session: &str, key: &str) -> u128 {
        tail(&session.parse().unwrap(), &key.parse().unwrap())
    }

    #[test]
    fn an_id_keeps_its_time_and_is_marked_as_one_of_its_own_making() {
        let made: Uuid = "01932c07-209d-7abc-8def-0123456789ab".parse().unwrap();
        let known = tail_of("main", "booking-17");
        let id = with_tail(made, known);
        assert!(id.to_string().starts_with("01932c07-209d-8"), "{id}");
        assert_eq!(id.get_version(), Some(Version::Custom));
        assert_eq!(id.get_variant(), Variant::RFC4122);
        assert!(has_tail(RunId(id), known));
        assert!(!has_tail(RunId(made), known));
        let later: Uuid = "01932c07-209e-7000-8000-000000000000".parse().unwrap();
        assert!(id < later && id > with_tail(Uuid::nil(), known));
    }

    #[test]
    fn session_and_key_both_count_and_nothing_runs_together() {
        let all = [
            tail_of("main", "a"),
            tail_of("main", "b"),
            tail_of("maina", "b"),
            tail_of("other", "a"),
            tail_of("m", "aina"),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(!all.iter().skip(place + 1).any(|other| other == one));
        }
        assert_eq!(tail_of("main", "a"), tail_of("main", "a"));
    }
}
