//! A handle of a run that no process drives, which reports what its log holds.

use std::sync::Arc;

use neuraxis_core::log::RunView;
use neuraxis_core::{
    Pending, Record, RunId, RunTree, RunUsage, SessionId, TraceContext, Transcript,
};
use neuraxis_ports::StoreError;
use tokio::sync::mpsc;

use crate::feed::Feed;
use crate::run_end::{EndReceiver, RunEnd};
use crate::run_handle::{RunHandle, RunLink};
use crate::runs::{Runs, recorded_trace};

impl Runs {
    /// Creates a handle of a run that has ended or waits. Nothing can be sent to the run through it.
    pub(crate) async fn stored_run(
        &self,
        session: &SessionId,
        run_id: RunId,
        mut records: Vec<Arc<Record>>,
    ) -> Result<RunHandle, StoreError> {
        let view = RunView::of(&records);
        let outcome = view.outcome().cloned();
        let (pending, so_far) = match outcome {
            Some(_) => (Vec::new(), None),
            None => {
                let history = self.parts.store.history_before(run_id).await?;
                let (pending, turns, usage) = progress(&view, history, &records);
                (pending, Some((turns, usage)))
            }
        };
        let end = RunEnd {
            outcome,
            pending,
            so_far,
            // Only runs without a session are asked for their messages.
            messages: Transcript::default(),
        };
        let trace = recorded_trace(&records).unwrap_or_else(|| TraceContext::of_run(run_id));
        let feed = Arc::new(Feed::default());
        feed.publish(&mut records);
        feed.end();
        // Nothing receives what is sent.
        let (inbox, _) = mpsc::channel(1);
        let end = EndReceiver::ended(Ok(Arc::new(end)));
        Ok(RunHandle {
            link: RunLink {
                run_id,
                inbox,
                end,
                feed,
                ids: Arc::clone(&self.parts.engine.ids),
                by: None,
            },
            session_id: session.clone(),
            trace,
            is_repeat: false,
        })
    }
}

/// Returns what a run waits for, the turns that counted so far, and its usage.
fn progress(
    view: &RunView,
    history: Transcript,
    records: &[Arc<Record>],
) -> (Vec<Pending>, u32, RunUsage) {
    match RunTree::restore(history, records) {
        Ok((tree, _)) => (tree.pending(), tree.turns(), tree.usage()),
        // The log is incomplete, for example because of the data policy: report what can be told without replaying it.
        Err(_) => (view.pending().to_vec(), view.turns(), view.usage().clone()),
    }
}
