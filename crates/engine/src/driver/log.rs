//! The log of one run: records go to the store first, then in front of listeners and trace sinks.

use std::borrow::Cow;
use std::sync::Arc;

use backon::{ExponentialBuilder, Retryable};
use neuraxis_core::{DataPolicy, Record, RunId};
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
    /// What of the records may be stored and traced. Whoever listens to the run hears all of it.
    pub(super) policy: DataPolicy,
}

impl RunLog {
    /// Commits the records of a step and then shows them: durable before visible.
    pub(super) async fn append(&self, records: Vec<Arc<Record>>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let stored = self.storable(&records);
        if let (Some(store), Some(lease)) = (&self.engine.store, &self.lease) {
            let commit = || store.commit(lease, &stored);
            let retries = ExponentialBuilder::default()
                .with_jitter()
                .with_max_times(COMMIT_ATTEMPTS - 1);
            commit
                .retry(retries)
                .sleep(tokio::time::sleep)
                .when(StoreError::is_retryable)
                .await?;
        }
        for sink in &self.engine.sinks {
            for record in stored.iter() {
                sink.record(record);
            }
        }
        drop(stored);
        self.feed.publish(records);
        Ok(())
    }

    /// Returns the records without what the data policy keeps out of store and traces.
    fn storable<'a>(&self, records: &'a [Arc<Record>]) -> Cow<'a, [Arc<Record>]> {
        if self.policy == DataPolicy::ALL {
            return Cow::Borrowed(records);
        }
        let stored = records.iter().map(|record| {
            let withheld = record.withheld(self.policy);
            withheld.map_or_else(|| Arc::clone(record), Arc::new)
        });
        Cow::Owned(stored.collect())
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
