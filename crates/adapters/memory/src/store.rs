//! The store: its data behind one lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{Record, RunId, Seq, SessionId, Transcript};
use neuraxis_ports::{RunLease, Session, SessionStore, StoreError, async_trait};

use crate::shelves::Shelves;

/// Keeps sessions in memory.
///
/// Cancel safe without exception: no method ever waits, so that none can be dropped midway.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Shelves>);

impl MemoryStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks the data, for no longer than a few lookups; never across an `await`. What is behind the lock stays whole
    /// even if its holder panics, since every change checks first and then only adds or removes.
    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn create_session(&self, session: &Session) -> Result<(), StoreError> {
        self.shelves().create_session(session)
    }

    async fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.shelves().session(id)
    }

    async fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        Ok(self.shelves().sessions())
    }

    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError> {
        // What is deleted may be large: it is freed after the lock is.
        let deleted = self.shelves().delete_session(id)?;
        drop(deleted);
        Ok(())
    }

    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError> {
        self.shelves().history(id)
    }

    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        self.shelves().history_before(run)
    }

    async fn begin_run(&self, session: &SessionId, run: RunId) -> Result<RunLease, StoreError> {
        self.shelves().begin_run(session, run)
    }

    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.shelves().abandon_run(lease)
    }

    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError> {
        self.shelves().commit(lease, records)
    }

    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError> {
        self.shelves().records(run, after)
    }
}
