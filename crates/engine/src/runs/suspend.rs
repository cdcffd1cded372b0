//! Stops the engine without ending its runs: runs that do not end in time are left as by a process that died, except
//! that they can be resumed immediately.

use std::time::Duration;

use neuraxis_core::RunId;
use neuraxis_ports::StoreError;

use super::Runs;
use super::slot::{Claim, StoppedRun};

impl Runs {
    /// Stops accepting new runs, lets those in progress continue for a grace period, and leaves the rest. Returns the
    /// runs that were left.
    pub(crate) async fn suspend(&self, grace: Duration) -> Vec<RunId> {
        let engine = &self.parts.engine;
        engine.closing.cancel();
        engine.tasks.close();
        let ended = tokio::time::timeout(grace, engine.tasks.wait()).await;
        let stopped = match ended {
            Ok(()) => Vec::new(),
            Err(_) => self.parts.active.stop().await,
        };
        // Ends the runs that could not be resumed. The others are gone by now; otherwise they would record the
        // shutdown.
        engine.shutdown.cancel();
        engine.tasks.wait().await;
        let mut left = Vec::new();
        for stopped in stopped {
            let is_left = self.release_stopped(&stopped).await;
            self.parts.active.note_released(stopped.run);
            if is_left {
                left.push(stopped.run);
            }
        }
        left
    }

    /// Releases the lease of a run that is no longer driven; returns `false` if the run has ended after all.
    async fn release_stopped(&self, stopped: &StoppedRun) -> bool {
        let run = stopped.run;
        let left = async {
            // Another task here is about to find that the run was left.
            let Some(claim) = Claim::take(&self.parts, run) else {
                return Ok(());
            };
            // Its lease is no longer known, so the run is begun again.
            let slot = claim.lease(&stopped.session).await?;
            match stopped.has_only_begun {
                true => slot.expire().await,
                false => slot.release().await,
            }
        };
        match left.await {
            Ok(()) => true,
            // Its last step ended it.
            Err(StoreError::Stale(_)) => false,
            Err(error) => {
                tracing::warn!(%run, %error, "could not release a run's lease; it will expire");
                true
            }
        }
    }
}
