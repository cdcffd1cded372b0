//! Notifies runs in progress here soon of what other processes post to them. A cancellation or a steering message is
//! stored by whichever process received it, and the process that drives the run would otherwise find it only at the
//! next renewal of its lease.
//!
//! One query to the store covers all runs, so the cost does not depend on how many are in progress.

use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

use neuraxis_core::RunId;

use super::Runs;

impl Runs {
    /// Makes a run check its inbox immediately, if it is in progress in this process: for callers that know that
    /// something was posted to it.
    pub fn check_inbox(&self, run_id: RunId) {
        self.parts.active.check_inbox(run_id);
    }

    /// Repeatedly asks the store which runs something was posted to, and makes those that are in progress here check
    /// their inboxes, until the engine shuts down and no run is in progress here. Nothing is asked while no run is in
    /// progress.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, runs learn of what is posted elsewhere at the next renewals of their leases.
    pub async fn keep_checking_inboxes(&self, every: Duration) {
        let (closing, active) = (&self.parts.engine.closing, &self.parts.active);
        // When no new runs are accepted, those in progress continue for a while.
        while !closing.is_cancelled() || !active.is_empty() {
            tokio::time::sleep(every).await;
            let at_work: HashSet<RunId> = active.ids().into_iter().collect();
            if at_work.is_empty() {
                continue;
            }
            match self.parts.store.mailed().await {
                Ok(mailed) => {
                    for run in mailed.into_iter().filter(|run| at_work.contains(run)) {
                        self.check_inbox(run);
                    }
                }
                Err(error) => {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::debug!(error, "could not check which runs have new input");
                }
            }
        }
    }
}
