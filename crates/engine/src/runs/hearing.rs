//! Has runs that are at work here hear soon of what other processes post to them: what cancels or steers a run is kept in the
//! store, whichever process took it, and the one that drives the run would find it with the next renewal of its lease.
//!
//! One question to the store is about all runs, so that it costs the same however many are at work.

use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

use neuraxis_core::RunId;

use super::Runs;

impl Runs {
    /// Has a run look into its inbox at once, if it is at work in this process: for whoever was told that something was posted to
    /// it.
    pub fn hear(&self, run_id: RunId) {
        self.parts.active.hear(run_id);
    }

    /// Asks the store again and again to which runs something was posted, until the engine shuts down and nothing is at work here
    /// any more, and has those that are at work here look into their inboxes. Nothing is asked while none is.
    ///
    /// # Cancel safety
    ///
    /// Dropped, runs hear of what is posted elsewhere with the next renewals of their leases.
    pub async fn keep_hearing(&self, every: Duration) {
        let (closing, active) = (&self.parts.engine.closing, &self.parts.active);
        // Where no new runs are taken, those at work go on for a while.
        while !closing.is_cancelled() || !active.is_empty() {
            tokio::time::sleep(every).await;
            let at_work: HashSet<RunId> = active.ids().into_iter().collect();
            if at_work.is_empty() {
                continue;
            }
            match self.parts.store.mailed().await {
                Ok(mailed) => {
                    for run in mailed.into_iter().filter(|run| at_work.contains(run)) {
                        self.hear(run);
                    }
                }
                Err(error) => {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::debug!(error, "nobody knows to which runs something was posted");
                }
            }
        }
    }
}
