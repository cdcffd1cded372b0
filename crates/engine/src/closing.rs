//! Ends runs that nobody can or may go on with, so that they do not keep their sessions busy for ever.
//!
//! What a run of another version of the loop has said and done stays: another run goes on from there.

use std::fmt;
use std::sync::Arc;

use backon::{ExponentialBuilder, Retryable};
use neuraxis_core::{
    AgentId, ForkPoint, LogEnd, Record, RecordBody, RestoreError, RunId, Seq, Turn, closing_records,
};
use neuraxis_ports::{RunLease, SessionStore, StoreError};

use crate::fork::waits_for_an_answer;
use crate::request::{RequestError, UserRequest};
use crate::reservation::{AtWork, reserve};
use crate::resume::{ResumeError, decision_of};
use crate::run_handle::RunHandle;
use crate::runs::Runs;

/// Why nobody goes on with a run.
#[derive(Debug)]
pub(crate) enum Unresumable {
    /// Its log can be read, but not replayed.
    Log(RestoreError),
    /// Its log cannot even be read.
    Damaged(String),
    /// Its log does not say what governance decided, so that nothing would govern it.
    Undecided,
    /// It was taken up again and again, and nothing came of it.
    InVain(u32),
}

/// Without what stands in the records: a record of the closing holds it.
impl fmt::Display for Unresumable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(RestoreError::Diverged { seq, .. }) => {
                write!(f, "record {seq} is not what its causes lead to")
            }
            Self::Log(error) => error.fmt(f),
            Self::Damaged(why) => write!(f, "the log cannot be read: {why}"),
            Self::Undecided => f.write_str("its log holds no decision, so that nothing governs it"),
            Self::InVain(times) => write!(
                f,
                "it was taken up {times} times, and each time its process died or it crashed before anything came of it"
            ),
        }
    }
}

impl Runs {
    /// Ends a run that nobody goes on with. If only the loop has changed since, another run goes on at its next turn.
    pub(crate) async fn close(
        &self,
        store: &Arc<dyn SessionStore>,
        run_id: RunId,
        mut records: Vec<Arc<Record>>,
        why: Unresumable,
        place: AtWork,
    ) -> Result<RunHandle, ResumeError> {
        let session = store.run(run_id).await?.session;
        let lease = reserve(store.as_ref(), &session, run_id).await?;
        // Whoever had it before may have gone on meanwhile, and no longer can.
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
        let told = why.to_string();
        let closing = closing_records(&records, LogEnd { run_id, last, at }, &told);
        commit(store.as_ref(), &lease, &closing).await?;
        for sink in &self.parts.engine.sinks {
            for record in &closing {
                sink.record(record);
            }
            sink.end(run_id);
        }
        drop(place);
        tracing::warn!(run = %run_id, why = %told, "the run was ended as interrupted");
        if matches!(why, Unresumable::Log(RestoreError::OtherVersion { .. })) {
            match self.go_on_from(store, &records).await {
                Ok(Some(handle)) => return Ok(handle),
                Ok(None) => {}
                Err(error) => {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(run = %run_id, error, "no other run goes on from it");
                }
            }
        }
        Err(ResumeError::Closed {
            run: run_id,
            why: told,
        })
    }

    /// Begins a run that goes on where a closed one stopped. `None` if there is nothing more to say, or if what was said
    /// is not in the log.
    async fn go_on_from(
        &self,
        store: &Arc<dyn SessionStore>,
        records: &[Arc<Record>],
    ) -> Result<Option<RunHandle>, RequestError> {
        let Some(RecordBody::RunStarted(started)) = records.first().map(|first| &first.body) else {
            return Ok(None);
        };
        let (spec, Some(session)) = (&started.spec, &started.session_id) else {
            return Ok(None);
        };
        let history = store.history(session).await?;
        if spec.withheld().is_some() || !waits_for_an_answer(&history) {
            return Ok(None);
        }
        let turn = turns_of(records);
        let mut spec = (**spec).clone();
        spec.forked_from = Some(ForkPoint {
            run_id: spec.run_id,
            turn,
        });
        spec.run_id = RunId(self.parts.engine.ids.new_id());
        let Some(decision) = decision_of(records) else {
            return Ok(None);
        };
        let in_force = self.in_force(session, &spec, &decision).await;
        let mut decision = Arc::unwrap_or_clone(decision);
        decision.tools.retain(|tool| in_force.tools.contains(tool));
        spec.messages.clear();
        spec.decision = Some(Arc::new(decision));
        if let Some(limits) = in_force.limits {
            spec.root.limits = *limits;
        }
        // A new run is no way around a limit.
        let left = |most: u32| most.saturating_sub(turn.0).max(1);
        spec.root.limits.max_turns = spec.root.limits.max_turns.map(left);
        let request = UserRequest::new(session.clone(), String::new());
        // Boxed, because a run that is begun may come to take up another.
        Box::pin(self.launch(store, spec, request)).await.map(Some)
    }
}

fn turns_of(records: &[Arc<Record>]) -> Turn {
    let of_root = records
        .iter()
        .filter(|record| record.agent == AgentId::ROOT);
    of_root.map(|record| record.turn).max().unwrap_or_default()
}

async fn commit(
    store: &dyn SessionStore,
    lease: &RunLease,
    records: &[Arc<Record>],
) -> Result<(), StoreError> {
    let commit = || store.commit(lease, records);
    commit
        .retry(ExponentialBuilder::default().with_jitter())
        .sleep(tokio::time::sleep)
        .when(StoreError::is_retryable)
        .await
}
