//! The store: its data behind one lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    ContentHash, Grant, InboxEntry, InputId, JsonText, Record, Remembered, RunId, Seq, SessionId,
    SessionMetrics, Taint, Transcript,
};
use neuraxis_ports::{
    ChainHead, Ending, RunBounds, RunFilter, RunLease, RunLog, RunStart, RunSummary, Session,
    SessionFilter, SessionIndex, StoreError, UsageOf, async_trait,
};

use crate::run::Run;
use crate::shelves::Shelves;

/// How long a lease lasts unless told otherwise.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Keeps sessions in memory.
///
/// Cancel safe without exception: no method ever waits, so that none can be dropped midway.
#[derive(Debug)]
pub struct MemoryStore {
    shelves: Mutex<Shelves>,
    bounds: RunBounds,
    on_commit: Option<OnCommit>,
}

type Listener = dyn Fn(&[Arc<Record>]) + Send + Sync;

/// Who hears of each commit.
struct OnCommit(Box<Listener>);

impl fmt::Debug for OnCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCommit")
    }
}

impl MemoryStore {
    /// Makes an empty store, whose leases last 30 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self::with_lease(DEFAULT_LEASE)
    }

    /// Makes an empty store, whose leases last so long.
    #[must_use]
    pub fn with_lease(lease: Duration) -> Self {
        Self {
            shelves: Mutex::new(Shelves::new(lease)),
            bounds: RunBounds::default(),
            on_commit: None,
        }
    }

    /// Lets runs become so long at the most.
    #[must_use]
    pub const fn bounded(mut self, bounds: RunBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Hands the records of each commit over once it is made, in the order of the commits: for a copy of the log, which
    /// outlives this store. Nobody else reaches the store until this has returned, so it has to be quick. A commit that is
    /// repeated is handed over again.
    #[must_use]
    pub fn on_commit(mut self, heard: impl Fn(&[Arc<Record>]) + Send + Sync + 'static) -> Self {
        self.on_commit = Some(OnCommit(Box::new(heard)));
        self
    }

    /// Locks the data, for no longer than a few lookups; never across an `await`. What is behind the lock stays whole
    /// even if its holder panics, since every change checks first and then only adds or removes.
    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl RunLog for MemoryStore {
    async fn begin(&self, start: &RunStart) -> Result<RunLease, StoreError> {
        self.shelves().begin_run(&start.session, start.run)
    }

    async fn renew(&self, lease: &RunLease) -> Result<(), StoreError> {
        let mut shelves = self.shelves();
        let time = shelves.lease();
        shelves.leased(lease)?.renew(time)
    }

    async fn release(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.shelves().leased(lease).map(Run::release)
    }

    async fn mark_imported(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.shelves().leased(lease).map(Run::mark_imported)
    }

    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.shelves().abandon_run(lease)
    }

    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let mut shelves = self.shelves();
        let time = shelves.lease();
        let ending = shelves.leased(lease)?.commit(records, &self.bounds, time)?;
        shelves.read_taint(&lease.session, records);
        if ending == Ending::Ends {
            shelves.free(lease);
        }
        if let Some(OnCommit(heard)) = &self.on_commit {
            heard(records);
        }
        Ok(())
    }

    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError> {
        let shelves = self.shelves();
        Ok(shelves.run(run)?.records_after(after).to_vec())
    }

    async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError> {
        self.shelves().run_mut(run)?.post(entry)
    }

    async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError> {
        self.shelves().leased(lease).map(|run| run.inbox())
    }

    async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError> {
        self.shelves().leased(lease).map(|run| run.settle(ids))
    }

    async fn remember(&self, lease: &RunLease, grant: &Grant) -> Result<(), StoreError> {
        self.shelves().remember(lease, grant)
    }
}

#[async_trait]
impl SessionIndex for MemoryStore {
    async fn create_session(&self, session: &Session) -> Result<(), StoreError> {
        self.shelves().create_session(session)
    }

    async fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.shelves().session(id)
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        Ok(self.shelves().sessions(filter))
    }

    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError> {
        // What is deleted may be large: it is freed after the lock is.
        let deleted = self.shelves().delete_session(id)?;
        drop(deleted);
        Ok(())
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let deleted = self.shelves().prune(before);
        Ok(deleted.len().try_into().unwrap_or(u64::MAX))
    }

    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError> {
        self.shelves().history(id)
    }

    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        self.shelves().history_before(run)
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.shelves().run(run).map(Run::summary)
    }

    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError> {
        let shelves = self.shelves();
        Ok(shelves.session_runs(session)?.map(Run::summary).collect())
    }

    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        Ok(self.shelves().find_runs(filter))
    }

    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError> {
        Ok(self.shelves().unfinished())
    }

    async fn metrics(&self, session: &SessionId) -> Result<SessionMetrics, StoreError> {
        let of = UsageOf::Session(session.clone());
        self.shelves().usage_since(&of, Timestamp::MIN)
    }

    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError> {
        self.shelves().usage_since(of, since)
    }

    async fn plan(&self, session: &SessionId) -> Result<Option<JsonText>, StoreError> {
        let shelves = self.shelves();
        let plan = shelves.session_runs(session)?.rev().find_map(Run::plan);
        Ok(plan)
    }

    async fn taint(&self, session: &SessionId) -> Result<Taint, StoreError> {
        self.shelves().taint(session)
    }

    async fn remembered(&self, session: &SessionId) -> Result<Remembered, StoreError> {
        self.shelves().remembered(session)
    }

    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError> {
        self.shelves().revoke(session, id)
    }

    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError> {
        self.shelves().chain(session)?.expect(expect)
    }
}
