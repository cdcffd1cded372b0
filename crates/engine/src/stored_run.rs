//! A run that nobody drives, as a handle: its log tells what the run itself would.

use std::sync::Arc;

use neuraxis_core::{
    Pending, Record, RecordBody, RunId, RunMeter, RunOutcome, RunTree, RunUsage, SessionId,
    Transcript,
};
use neuraxis_ports::{RunSummary, SessionStore, StoreError};
use tokio::sync::{mpsc, watch};

use crate::feed::Feed;
use crate::orchestrator::trace_of;
use crate::run_handle::{RunEnd, RunHandle, RunLink};
use crate::runs::Runs;

impl Runs {
    /// Makes a handle of a run that has ended or waits. Nothing can be sent to the run by it.
    pub(crate) async fn stored_run(
        &self,
        store: &Arc<dyn SessionStore>,
        session: &SessionId,
        run_id: RunId,
        records: Vec<Arc<Record>>,
    ) -> Result<RunHandle, StoreError> {
        let outcome = outcome_of(&records);
        let (pending, so_far) = match outcome {
            Some(_) => (Vec::new(), None),
            None => {
                let history = store.history_before(run_id).await?;
                let (pending, turns, usage) = standing(session, run_id, history, &records);
                (pending, Some((turns, usage)))
            }
        };
        let end = RunEnd {
            outcome,
            pending,
            so_far,
            // Only runs without a session are asked for theirs.
            messages: Transcript::default(),
        };
        let feed = Arc::new(Feed::default());
        feed.publish(records);
        feed.end();
        // Nobody takes what is sent, and nobody tells of another end.
        let (inbox, _) = mpsc::channel(1);
        let (_, end) = watch::channel(Some(Ok(Arc::new(end))));
        Ok(RunHandle {
            link: RunLink {
                run_id,
                inbox,
                end,
                feed,
                ids: Arc::clone(&self.parts.engine.ids),
            },
            session_id: session.clone(),
            trace: trace_of(run_id),
            is_repeat: false,
        })
    }
}

fn outcome_of(records: &[Arc<Record>]) -> Option<RunOutcome> {
    let last = records.last().filter(|last| last.ends_the_run())?;
    match &last.body {
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => Some((**outcome).clone()),
        _ => None,
    }
}

/// Returns what a run waits for, the turns that counted so far, and what it used.
fn standing(
    session: &SessionId,
    run_id: RunId,
    history: Transcript,
    records: &[Arc<Record>],
) -> (Vec<Pending>, u32, RunUsage) {
    if let Ok((tree, _)) = RunTree::restore(history, records) {
        return (tree.pending(), tree.turns(), tree.usage());
    }
    // The log is not whole, by the data policy for instance: what can be told without replaying it.
    let mut summary = RunSummary::new(run_id, session.clone());
    let mut meter = RunMeter::new();
    for record in records {
        summary.read(record);
        meter.read(record);
    }
    (summary.pending, summary.turns, meter.used().usage.clone())
}
