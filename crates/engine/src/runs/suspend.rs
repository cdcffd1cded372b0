//! Stops the engine without ending its runs: those that do not end in time are left as a process that dies leaves them,
//! but free to be taken up at once.

use std::time::Duration;

use neuraxis_core::RunId;
use neuraxis_ports::StoreError;

use super::Runs;
use super::slot::{Claim, StoppedRun};

impl Runs {
    /// Takes no new runs, lets those at work go on for a while, and leaves what has not ended then. Returns the runs that are
    /// left.
    pub(crate) async fn suspend(&self, grace: Duration) -> Vec<RunId> {
        let engine = &self.parts.engine;
        engine.closing.cancel();
        engine.tasks.close();
        let ended = tokio::time::timeout(grace, engine.tasks.wait()).await;
        let stopped = match ended {
            Ok(()) => Vec::new(),
            Err(_) => self.parts.active.stop().await,
        };
        // For those that nobody could take up. The others are gone: they would record it.
        engine.shutdown.cancel();
        engine.tasks.wait().await;
        let mut left = Vec::new();
        for stopped in stopped {
            let is_left = self.leave(&stopped).await;
            self.parts.active.note_left(stopped.run);
            if is_left {
                left.push(stopped.run);
            }
        }
        left
    }

    /// Gives the lease of a run back that nobody drives any more; false if it has ended after all.
    async fn leave(&self, stopped: &StoppedRun) -> bool {
        let run = stopped.run;
        let left = async {
            // Somebody here is just about to see that it is left.
            let Some(claim) = Claim::take(&self.parts, run) else {
                return Ok(());
            };
            // Nobody knows its lease any more, so that it is begun anew.
            let slot = claim.lease(&stopped.session).await?;
            match stopped.has_only_begun {
                true => slot.expire().await,
                false => slot.release().await,
            }
        };
        match left.await {
            Ok(()) => true,
            // It ended with what it did last.
            Err(StoreError::Stale(_)) => false,
            Err(error) => {
                tracing::warn!(%run, %error, "a run's lease was not given back; it runs out by itself");
                true
            }
        }
    }
}
