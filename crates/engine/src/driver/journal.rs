//! The log of one run as it is written: records go to the store first, then in front of listeners and trace sinks.

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
    /// The right to write; a run that is kept nowhere needs none.
    pub(super) slot: Option<RunSlot>,
    pub(super) feed: Arc<Feed>,
    /// What of the records may be stored and traced. Whoever listens to the run hears all of it.
    pub(super) policy: DataPolicy,
    /// What people allowed for the session in this run, in the order of its numbers: the store may not know all of it yet.
    pub(super) given: Mutex<Vec<Grant>>,
    /// The numbers of those that are on record. Some never are: by the time they were found, nobody waited for the check any
    /// more.
    pub(super) recorded: std::sync::Mutex<Vec<u32>>,
}

impl Journal {
    /// Commits the records of a step and then shows them: durable before visible. Takes them unless it fails.
    pub(super) async fn append(&self, records: &mut Vec<Arc<Record>>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let stored = storable(self.policy, records);
        let began = Instant::now();
        if let Some(slot) = &self.slot {
            slot.commit(&stored).await?;
        }
        self.tell_sinks(&stored, began.elapsed());
        drop(stored);
        // The room for them stays for the next ones.
        self.feed.publish(records);
        Ok(())
    }

    /// Shows the records of a step that were kept, and how long that took. Takes them.
    pub(super) fn show(&self, records: &mut Vec<Arc<Record>>, took: Duration) {
        self.tell_sinks(&storable(self.policy, records), took);
        self.feed.publish(records);
    }

    fn tell_sinks(&self, stored: &[Arc<Record>], took: Duration) {
        let took = self.slot.is_some().then_some(took);
        self.engine.show_sinks(stored, took);
    }

    /// Returns when the lease has to be renewed, if nothing is committed until then.
    pub(super) fn heartbeat(&self) -> Option<Instant> {
        self.slot.as_ref().and_then(RunSlot::heartbeat)
    }

    /// Keeps the run while it has nothing to commit. Fails once it is lost to this process.
    pub(super) async fn renew(&self) -> Result<(), StoreError> {
        match &self.slot {
            Some(slot) => slot.renew().await,
            None => Ok(()),
        }
    }

    /// Makes sure that nobody else has the run, right before something begins.
    ///
    /// # Errors
    ///
    /// Why nobody knows, or [`StoreError::Stale`]: then it must not begin.
    pub(super) async fn hold(&self) -> Result<(), StoreError> {
        match &self.slot {
            // Boxed, because it is seldom needed.
            Some(slot) if !slot.is_held() => Box::pin(slot.hold_again()).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Keeps the long output of a call beside the run, and says what becomes of what is cut out: readable, if it is kept.
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
                tracing::warn!(%run, %error, "a long output is not kept");
                Fate::Gone("the run has kept as much as it may")
            }
            error => {
                tracing::warn!(%run, %error, "a long output is not kept");
                Fate::Gone("the store could not take it")
            }
        })
    }

    /// Returns the store that the run is kept in, if it is.
    pub(super) fn store(&self) -> Option<Arc<dyn SessionStore>> {
        self.slot.as_ref().map(RunSlot::shared_store)
    }

    /// Returns what was posted to the run and is not taken yet.
    pub(super) async fn inbox(&self) -> Vec<InboxEntry> {
        let Some(slot) = &self.slot else {
            return Vec::new();
        };
        slot.inbox().await.unwrap_or_else(|error| {
            tracing::warn!(run = %self.run_id, %error, "the run's inbox was not read");
            Vec::new()
        })
    }

    /// Puts an entry into the run's inbox.
    pub(super) async fn post(&self, entry: InboxEntry) {
        if let Some(store) = self.store()
            && let Err(error) = retried(|| store.post(self.run_id, &entry)).await
        {
            tracing::error!(run = %self.run_id, %error, "what was sent to the run was not kept");
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

    /// Tells whether the inbox has to be read though nobody said that anything is in it.
    pub(super) fn is_inbox_due(&self) -> bool {
        self.slot.as_ref().is_some_and(RunSlot::is_inbox_due)
    }

    /// Is over once another process has posted to the run; never for one that is kept nowhere.
    pub(super) async fn is_posted_to(&self) {
        match &self.slot {
            Some(slot) => slot.is_posted_to().await,
            None => pending().await,
        }
    }

    /// Takes out of the inbox what no record will name.
    pub(super) async fn settle(&self, id: &InputId) {
        if let Some(slot) = &self.slot
            && let Err(error) = slot.settle(id).await
        {
            tracing::warn!(run = %self.run_id, %error, "a refused input stays in the inbox");
        }
    }

    /// Lets others take the run up: it waits, and nobody drives it meanwhile.
    pub(super) async fn release(&self) {
        if let Some(slot) = &self.slot {
            self.note_left(slot.release().await);
        }
    }

    /// Lets others take the run up, whose log says nothing of what was under way.
    pub(super) async fn expire(&self) {
        if let Some(slot) = &self.slot {
            self.note_left(slot.expire().await);
        }
    }

    fn note_left(&self, left: Result<(), StoreError>) {
        if let Err(error) = left {
            tracing::warn!(run = %self.run_id, %error, "the run's lease was not given back; it runs out by itself");
        }
    }
}

/// Returns the records without what a data policy keeps out of store and traces.
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
        self.engine.tell_sinks(|sink| sink.end(self.run_id));
        self.feed.end();
    }
}
