//! The log of one run: records go to the store first, then in front of listeners and trace sinks.

use std::borrow::Cow;
use std::sync::Arc;

use backon::{ExponentialBuilder, Retryable};
use neuraxis_core::{DataPolicy, InboxEntry, InputId, Record, RunId};
use neuraxis_ports::{RunLease, SessionStore, StoreError};
use tokio::time::Instant;

use crate::driver::lease::{HeldLease, Moment};
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
    pub(super) lease: Option<HeldLease>,
    pub(super) feed: Arc<Feed>,
    /// What of the records may be stored and traced. Whoever listens to the run hears all of it.
    pub(super) policy: DataPolicy,
}

impl RunLog {
    /// Commits the records of a step and then shows them: durable before visible. Takes them unless it fails.
    pub(super) async fn append(&self, records: &mut Vec<Arc<Record>>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let stored = self.storable(records);
        if let (Some(store), Some(held)) = (&self.engine.store, &self.lease) {
            // Before the first attempt: a later one may only hear that this one was kept, which gives no more time.
            let asked = self.moment();
            match store.commit(&held.lease, &stored).await {
                // Boxed, because it is seldom needed and every step would have to keep room for it.
                Err(error) if error.is_retryable() => {
                    // Once others may have the run, its work here has to stop, whatever becomes of the commit.
                    let again = commit_again(store.as_ref(), &held.lease, &stored, error);
                    let again = tokio::time::timeout(held.left(self.moment()), Box::pin(again));
                    let over = |_| StoreError::Stale(self.run_id);
                    again.await.map_err(over)??;
                }
                first => first?,
            }
            held.is_renewed(asked);
        }
        for sink in &self.engine.sinks {
            for record in stored.iter() {
                sink.record(record);
            }
        }
        drop(stored);
        self.feed.publish(std::mem::take(records));
        Ok(())
    }

    /// Returns when the lease has to be renewed, if nothing is committed until then.
    pub(super) fn heartbeat(&self) -> Option<Instant> {
        self.lease.as_ref().and_then(HeldLease::heartbeat)
    }

    /// Keeps the run while it has nothing to commit. Fails once it is lost: somebody else has it, or may have it by now.
    pub(super) async fn renew(&self) -> Result<(), StoreError> {
        let Err(error) = self.ask_for_more_time().await else {
            return Ok(());
        };
        if matches!(error, StoreError::Stale(_)) || !self.is_held() {
            return Err(error);
        }
        tracing::warn!(run = %self.run_id, %error, "the run's lease was not renewed yet");
        Ok(())
    }

    /// Tells whether nobody else can have the run at this moment. To be asked right before anything begins.
    pub(super) fn is_held(&self) -> bool {
        let held = self.lease.as_ref();
        held.is_none_or(|held| held.is_valid(self.moment()))
    }

    /// Makes sure of a run whose lease may have run out: if nobody has taken it over, nobody can from now on.
    pub(super) async fn hold_again(&self) -> Result<(), StoreError> {
        self.ask_for_more_time().await?;
        match self.is_held() {
            true => Ok(()),
            // The answer, too, came when the time was over.
            false => Err(StoreError::Stale(self.run_id)),
        }
    }

    async fn ask_for_more_time(&self) -> Result<(), StoreError> {
        let (Some(store), Some(held)) = (&self.engine.store, &self.lease) else {
            return Ok(());
        };
        let asked = self.moment();
        held.is_tried(asked);
        store.renew(&held.lease).await?;
        held.is_renewed(asked);
        Ok(())
    }

    fn moment(&self) -> Moment {
        Moment::now(self.engine.clock.as_ref())
    }

    /// Returns what was posted to the run and is not taken yet.
    pub(super) async fn mail(&self) -> Vec<InboxEntry> {
        let (Some(store), Some(held)) = (&self.engine.store, &self.lease) else {
            return Vec::new();
        };
        store.inbox(&held.lease).await.unwrap_or_else(|error| {
            tracing::warn!(run = %self.run_id, %error, "the run's inbox was not read");
            Vec::new()
        })
    }

    /// Takes out of the inbox what no record will name.
    pub(super) async fn settle(&self, id: &InputId) {
        if let (Some(store), Some(held)) = (&self.engine.store, &self.lease)
            && let Err(error) = store.settle(&held.lease, std::slice::from_ref(id)).await
        {
            tracing::warn!(run = %self.run_id, %error, "a refused input stays in the inbox");
        }
    }

    /// Lets others take the run up: it waits, and nobody drives it meanwhile.
    pub(super) async fn release(&self) {
        if let (Some(store), Some(held)) = (&self.engine.store, &self.lease)
            && let Err(error) = store.release(&held.lease).await
        {
            tracing::warn!(run = %self.run_id, %error, "the run's lease was not given back; it runs out by itself");
        }
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

/// Makes a commit that failed again, a few times. The attempt that was made counts.
async fn commit_again(
    store: &dyn SessionStore,
    lease: &RunLease,
    records: &[Arc<Record>],
    failed: StoreError,
) -> Result<(), StoreError> {
    let mut failed = Some(failed);
    let commit = || {
        let failed = failed.take();
        async move {
            match failed {
                Some(error) => Err(error),
                None => store.commit(lease, records).await,
            }
        }
    };
    let retries = ExponentialBuilder::default()
        .with_jitter()
        .with_max_times(COMMIT_ATTEMPTS - 1);
    commit
        .retry(retries)
        .sleep(tokio::time::sleep)
        .when(StoreError::is_retryable)
        .await
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
