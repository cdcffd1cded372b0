//! Writes the log of one run: records go to the store first, and then to listeners and trace sinks.

use std::borrow::Cow;
use std::future::pending;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::{DataPolicy, Grant, InboxEntry, InputId, Record, RunId};
use neuraxis_ports::{LongOutput, SessionStore, StoreError};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::feed::Feed;
use crate::long_result::Fate;
use crate::runs::RunSlot;
use crate::store_retry::retried;

/// Writes the log of one run.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) run_id: RunId,
    pub(super) engine: Arc<Engine>,
    /// The right to write; a run that is not stored needs none.
    pub(super) slot: Option<RunSlot>,
    pub(super) feed: Arc<Feed>,
    /// Which parts of the records may be stored and traced. Listeners of the run receive all of them.
    pub(super) policy: DataPolicy,
    /// The session grants that users gave in this run, in the order of their numbers; the store may not have all of
    /// them yet.
    pub(super) given: Mutex<Vec<Grant>>,
    /// The numbers of the grants that are on record. Some never are, because their check was no longer awaited when
    /// they were found.
    pub(super) recorded: std::sync::Mutex<Vec<u32>>,
    /// The session's grants that were last found to follow from its log.
    pub(super) verified: std::sync::Mutex<Vec<Grant>>,
}

impl Journal {
    /// Commits the records of a step and then shows them: durable before visible. Empties `records` unless it fails.
    pub(super) async fn append(&self, records: &mut Vec<Arc<Record>>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let stored = storable(self.policy, records);
        let began = Instant::now();
        if let Some(slot) = &self.slot {
            slot.commit(&stored).await?;
        }
        self.pass_to_sinks(&stored, began.elapsed());
        drop(stored);
        // The vector keeps its capacity for the next records.
        self.feed.publish(records);
        Ok(())
    }

    /// Shows the records of a step that were stored, with the time that took. Empties `records`.
    pub(super) fn show(&self, records: &mut Vec<Arc<Record>>, took: Duration) {
        self.pass_to_sinks(&storable(self.policy, records), took);
        self.feed.publish(records);
    }

    fn pass_to_sinks(&self, stored: &[Arc<Record>], took: Duration) {
        let took = self.slot.is_some().then_some(took);
        self.engine.pass_to_sinks(stored, took);
    }

    /// Returns when the lease must be renewed, if nothing is committed until then.
    pub(super) fn heartbeat(&self) -> Option<Instant> {
        self.slot.as_ref().and_then(RunSlot::heartbeat)
    }

    /// Renews the lease while the run has nothing to commit. Fails once the run is lost to this process.
    pub(super) async fn renew(&self) -> Result<(), StoreError> {
        match &self.slot {
            Some(slot) => slot.renew().await,
            None => Ok(()),
        }
    }

    /// Checks that no other process has the run, right before something begins.
    ///
    /// # Errors
    ///
    /// The reason why that is not known, or [`StoreError::Stale`]: then it must not begin.
    pub(super) async fn hold(&self) -> Result<(), StoreError> {
        match &self.slot {
            // Boxed because it is rarely needed.
            Some(slot) if !slot.is_held() => Box::pin(slot.hold_again()).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Stores the long output of a call beside the run, and returns the fate of the part that is cut out: readable if
    /// it was stored.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`]: the run is lost to this process.
    pub(super) async fn keep_output(&self, output: &LongOutput) -> Result<Fate, StoreError> {
        if !self.policy.tool_results {
            return Ok(Fate::Gone("results of tools are not stored here"));
        }
        let Some(slot) = &self.slot else {
            return Ok(Fate::Gone("nothing of this run is"));
        };
        let Err(error) = slot.keep_output(output).await else {
            return Ok(Fate::Readable);
        };
        let run = self.run_id;
        Ok(match error {
            StoreError::Stale(_) => return Err(error),
            StoreError::OutputsTooLarge { .. } => {
                tracing::warn!(%run, %error, "a long output was not stored");
                Fate::Gone("the run has kept as much as it may")
            }
            error => {
                tracing::warn!(%run, %error, "a long output was not stored");
                Fate::Gone("the store could not take it")
            }
        })
    }

    /// Returns the store that holds the run, if it is stored.
    pub(super) fn store(&self) -> Option<Arc<dyn SessionStore>> {
        self.slot.as_ref().map(RunSlot::shared_store)
    }

    /// Returns what was posted to the run and not taken yet.
    pub(super) async fn inbox(&self) -> Vec<InboxEntry> {
        let Some(slot) = &self.slot else {
            return Vec::new();
        };
        slot.inbox().await.unwrap_or_else(|error| {
            tracing::warn!(run = %self.run_id, %error, "could not read the run's inbox");
            Vec::new()
        })
    }

    /// Posts an entry to the run's inbox.
    pub(super) async fn post(&self, entry: InboxEntry) {
        if let Some(store) = self.store()
            && let Err(error) = retried(|| store.post(self.run_id, &entry)).await
        {
            tracing::error!(run = %self.run_id, %error, "could not store an input that was sent to the run");
        }
    }

    /// Notes that grants are on record: from now on they let calls run.
    pub(super) fn note_recorded(&self, grants: &[u32]) {
        self.recorded().extend_from_slice(grants);
    }

    /// Returns the numbers of the grants of this run that are on record.
    pub(super) fn recorded(&self) -> MutexGuard<'_, Vec<u32>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the session's grants need no check against its log: there are none, or exactly these passed it
    /// before in this run. A check reads the whole log of the session, so it is not repeated for every batch.
    pub(super) fn has_verified(&self, grants: &[Grant]) -> bool {
        let verified = self.verified.lock();
        grants.is_empty() || *verified.unwrap_or_else(PoisonError::into_inner) == grants
    }

    /// Notes that these are the session's grants according to its log.
    pub(super) fn note_verified(&self, grants: &[Grant]) {
        let verified = self.verified.lock();
        grants.clone_into(&mut verified.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns whether the inbox should be read even without a notification.
    pub(super) fn is_inbox_due(&self) -> bool {
        self.slot.as_ref().is_some_and(RunSlot::is_inbox_due)
    }

    /// Completes once another process has posted to the run; never for a run that is not stored.
    pub(super) async fn until_posted_to(&self) {
        match &self.slot {
            Some(slot) => slot.until_posted_to().await,
            None => pending().await,
        }
    }

    /// Removes from the inbox an entry that no record will name.
    pub(super) async fn settle(&self, id: &InputId) {
        if let Some(slot) = &self.slot
            && let Err(error) = slot.settle(id).await
        {
            tracing::warn!(run = %self.run_id, %error, "could not remove a refused input from the inbox");
        }
    }

    /// Lets other processes resume the run: it waits, and is not driven meanwhile.
    pub(super) async fn release(&self) {
        if let Some(slot) = &self.slot {
            self.log_release(slot.release().await);
        }
    }

    /// Lets other processes resume the run, whose log says nothing about what was in progress.
    pub(super) async fn expire(&self) {
        if let Some(slot) = &self.slot {
            self.log_release(slot.expire().await);
        }
    }

    fn log_release(&self, left: Result<(), StoreError>) {
        if let Err(error) = left {
            tracing::warn!(run = %self.run_id, %error, "could not release the run's lease; it will expire");
        }
    }
}

/// Returns the records without what a data policy keeps out of the store and traces.
pub(super) fn storable(policy: DataPolicy, records: &[Arc<Record>]) -> Cow<'_, [Arc<Record>]> {
    if policy == DataPolicy::ALL {
        return Cow::Borrowed(records);
    }
    let stored = records.iter().map(|record| {
        let withheld = record.withheld(policy);
        withheld.map_or_else(|| Arc::clone(record), Arc::new)
    });
    Cow::Owned(stored.collect())
}

/// Ends the feed however the run ends, so that no listener waits forever, and tells the sinks to forget the run.
impl Drop for Journal {
    fn drop(&mut self) {
        self.engine.notify_sinks(|sink| sink.end(self.run_id));
        self.feed.end();
    }
}
