//! Stops the engine without ending its runs: those that do not end in time are left as a process that dies leaves them,
//! but free to be taken up at once.

use std::time::Duration;

use neuraxis_core::{RestoreError, RunId};
use neuraxis_ports::StoreError;

use super::slot::Claim;
use super::{ResumeError, Runs};
use crate::run_handle::RunHandle;

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
        for handle in stopped {
            let run = handle.run_id();
            let is_left = self.leave(&handle).await;
            self.parts.active.note_left(run);
            if is_left {
                left.push(run);
            }
        }
        left
    }

    /// Gives the lease of a run back that nobody drives any more, or ends the run if nobody could go on with it: what it waits
    /// for would be asked in vain. False if it has ended.
    async fn leave(&self, stopped: &RunHandle) -> bool {
        let run = stopped.run_id();
        let left = async {
            // Somebody here is just about to see that it is left.
            let Some(claim) = Claim::take(&self.parts, run) else {
                return Ok(true);
            };
            if let Some(what) = withheld(stopped) {
                let why = RestoreError::Withheld(what).to_string();
                self.close_claimed(claim, &why).await?;
                return Ok(false);
            }
            // Nobody knows its lease any more, so that it is begun anew.
            let slot = claim.lease(&stopped.session_id).await?;
            slot.release().await?;
            Ok::<_, ResumeError>(true)
        };
        match left.await {
            Ok(is_left) => is_left,
            // It ended with what it did last.
            Err(ResumeError::Ended(_) | ResumeError::Store(StoreError::Stale(_))) => false,
            Err(error) => {
                tracing::warn!(%run, %error, "a run's lease was not given back; it runs out by itself");
                true
            }
        }
    }
}

/// Names what the data policy keeps out of the log of a run, if anything.
fn withheld(run: &RunHandle) -> Option<&'static str> {
    run.link.feed.with_records(|records| {
        let started = records.first()?.run_started()?;
        started.spec.withheld()
    })
}
