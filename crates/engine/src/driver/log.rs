//! The log of one run: records go to the store first, then in front of listeners and trace sinks.

use std::sync::Arc;

use backon::{ExponentialBuilder, Retryable};
use neuraxis_core::Record;
use neuraxis_ports::{RunLease, StoreError};

use crate::feed::Feed;
use crate::orchestrator::Engine;

/// How often a commit is tried before the run is given up: its records must not be lost silently.
const COMMIT_ATTEMPTS: usize = 5;

/// Writes the log of one run.
#[derive(Debug)]
pub(super) struct RunLog {
    pub(super) engine: Arc<Engine>,
    pub(super) lease: RunLease,
    pub(super) feed: Arc<Feed>,
}

impl RunLog {
    /// Commits the records of a step and then shows them: durable before visible.
    pub(super) async fn append(&self, records: Vec<Arc<Record>>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let commit = || self.engine.store.commit(&self.lease, &records);
        let retries = ExponentialBuilder::default()
            .with_jitter()
            .with_max_times(COMMIT_ATTEMPTS - 1);
        commit
            .retry(retries)
            .sleep(tokio::time::sleep)
            .when(StoreError::is_retryable)
            .await?;
        for sink in &self.engine.sinks {
            for record in &records {
                sink.record(record);
            }
        }
        self.feed.publish(records);
        Ok(())
    }
}

/// Ends the feed however the run ends, so that no listener waits forever.
impl Drop for RunLog {
    fn drop(&mut self) {
        self.feed.end();
    }
}
