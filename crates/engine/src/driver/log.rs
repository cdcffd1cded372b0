//! The log of one run: records go to the store first, then in front of listeners and trace sinks.

use std::sync::Arc;

use backon::{ExponentialBuilder, Retryable};
use neuraxis_core::{Record, RunId};
use neuraxis_ports::{RunLease, StoreError};

use crate::feed::Feed;
use crate::orchestrator::Engine;

/// How often a commit is tried before the run is given up: its records must not be lost silently.
const COMMIT_ATTEMPTS: usize = 5;

/// Writes the log of one run.
#[derive(Debug)]
pub(super) struct RunLog {
    pub(super) run_id: RunId,
    pub(super) engine: Arc<Engine>,
    /// The right to write; a run that is kept nowhere needs none.
    pub(super) lease: Option<RunLease>,
    pub(super) feed: Arc<Feed>,
}

impl RunLog {
    /// Commits the records of a step and then shows them: durable before visible.
    pub(super) async fn append(&self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        if let (Some(store), Some(lease)) = (&self.engine.store, &self.lease) {
            let commit = || store.commit(lease, records);
            let retries = ExponentialBuilder::default()
                .with_jitter()
                .with_max_times(COMMIT_ATTEMPTS - 1);
            commit
                .retry(retries)
                .sleep(tokio::time::sleep)
                .when(StoreError::is_retryable)
                .await?;
        }
        self.feed.publish(records);
        for sink in &self.engine.sinks {
            for record in records {
                sink.record(record);
            }
        }
        Ok(())
    }
}

/// Ends the feed however the run ends, so that no listener waits forever, and tells the sinks to forget the run.
impl Drop for RunLog {
    fn drop(&mut self) {
        for sink in &self.engine.sinks {
            sink.end(self.run_id);
        }
        self.feed.end();
    }
}
