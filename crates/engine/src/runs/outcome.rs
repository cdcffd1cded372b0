//! The status and result of a run by its id alone, whichever process drives it and however long ago it ended.

use neuraxis_core::{RunId, RunStatus, Seq};
use neuraxis_ports::{RunSummary, StoreError};
use tokio::time::sleep;

use super::Runs;
use super::resume::ResumeError;
use super::slot::Reachability;
use crate::result::{self, OrchestratorResult};
use crate::store_follower::LOOK_EVERY;

impl Runs {
    /// Waits for a run to end, or to wait for an answer from outside, and returns its result, whichever process drives
    /// the run. If the run is in progress in another process, the store is polled about four times a second. A run that
    /// no process drives, because its process died, is waited for until it is [recovered](Self::recover).
    ///
    /// If an answer that was supplied meanwhile lets the run continue, such as a [decision](crate::Approvals::decide),
    /// this waits for the result after that.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`] as [`ResumeError::Store`], or the reason why the run cannot be read;
    /// [`ResumeError::ShuttingDown`] once the engine shuts down and the run has not ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the run in progress.
    pub async fn result(&self, run: RunId) -> Result<OrchestratorResult, ResumeError> {
        self.check_seen(run).await?;
        loop {
            let found = match self.reach(run) {
                // The run was left without an end: it may continue in any process.
                Reachability::Here(handle) => handle.result().await.ok(),
                Reachability::Starting => None,
                Reachability::Absent => match self.stored_result(run).await {
                    Err(error) if error.is_retryable() => None,
                    found => found?,
                },
            };
            match found {
                Some(result) if !self.is_answered(&result).await? => return Ok(result),
                _ => self.pause().await?,
            }
        }
    }

    /// Returns the current summary of a run.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the run.
    pub async fn summary(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.visible_run(run).await
    }

    /// Returns the result of a run that no process drives, if it has one.
    async fn stored_result(&self, run: RunId) -> Result<Option<OrchestratorResult>, StoreError> {
        let store = &self.parts.store;
        let summary = store.run(run).await?;
        let waits = summary.status == RunStatus::Waiting && summary.leased_until.is_none();
        if summary.ended_at.is_none() && !waits {
            return Ok(None);
        }
        let records = store.records(run, Seq(0)).await?;
        let handle = self.stored_run(&summary.session, run, records).await?;
        let end = handle.link.end().await.ok();
        Ok(end.map(|end| result::of_run(&handle, &end)))
    }

    /// Returns whether an answer has arrived for a waiting run that it has not taken yet.
    async fn is_answered(&self, result: &OrchestratorResult) -> Result<bool, StoreError> {
        if result.status != RunStatus::Waiting {
            return Ok(false);
        }
        let run = self.parts.store.run(result.run_id).await?;
        Ok(run.has_mail || run.status != RunStatus::Waiting)
    }

    async fn pause(&self) -> Result<(), ResumeError> {
        let shutdown = &self.parts.engine.shutdown;
        let paused = shutdown.run_until_cancelled(sleep(LOOK_EVERY)).await;
        paused.ok_or(ResumeError::ShuttingDown)
    }
}
