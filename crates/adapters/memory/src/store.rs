//! The store: its data behind one lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::{Carried, Stats};
use neuraxis_core::{
    ContentHash, InboxEntry, InputId, Record, RunId, Seq, SessionId, SessionMetrics, ToolCallId,
    Transcript,
};
use neuraxis_ports::{
    ChainHead, Continuation, LongOutput, OutputHead, OutputPage, OutputPlace, RunBounds, RunFilter,
    RunLease, RunLog, RunOutputs, RunStart, RunSummary, Session, SessionFilter, SessionIndex,
    SessionSearch, SessionSummary, SessionsFound, StatsFilter, StoreError, UsageOf, async_trait,
};

use crate::run::Run;
use crate::state::State;

/// How long a lease lasts by default.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Keeps sessions in memory.
///
/// Every method is cancel safe: none ever waits, so none can be dropped midway.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    bounds: RunBounds,
    on_commit: Option<OnCommit>,
}

type Listener = dyn Fn(&[Arc<Record>]) + Send + Sync;

/// The listener that is called on each commit.
struct OnCommit(Box<Listener>);

impl fmt::Debug for OnCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCommit")
    }
}

impl MemoryStore {
    /// Creates an empty store whose leases last 30 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self::with_lease(DEFAULT_LEASE)
    }

    /// Creates an empty store whose leases last for the given time.
    #[must_use]
    pub fn with_lease(lease: Duration) -> Self {
        Self {
            state: Mutex::new(State::new(lease)),
            bounds: RunBounds::default(),
            on_commit: None,
        }
    }

    /// Sets the limits on the size of each run.
    #[must_use]
    pub const fn bounded(mut self, bounds: RunBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Calls `listener` with the records of each commit after it is made, in the order of the commits. Use it to copy
    /// the log to a place that outlives this store. The store is locked until `listener` returns, so it must be quick.
    /// A repeated commit is passed again.
    #[must_use]
    pub fn on_commit(mut self, listener: impl Fn(&[Arc<Record>]) + Send + Sync + 'static) -> Self {
        self.on_commit = Some(OnCommit(Box::new(listener)));
        self
    }

    /// Passes committed records to the listener.
    fn notify_listener(&self, records: &[Arc<Record>]) {
        if let Some(OnCommit(listener)) = &self.on_commit
            && !records.is_empty()
        {
            listener(records);
        }
    }

    /// Locks the data for no longer than a few lookups, and never across an `await`. The data stays consistent even if
    /// the holder of the lock panics, since every change checks first and then only adds or removes.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut state = self.state();
        let lease = state.begin(start, &self.bounds)?;
        self.notify_listener(&start.records);
        drop(state);
        Ok(lease)
    }

    async fn renew(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.state().renew(lease)
    }

    async fn release(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.state().leased(lease).map(Run::release)
    }

    async fn expire(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.state().leased(lease).map(Run::expire)
    }

    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.state().abandon_run(lease)
    }

    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let mut state = self.state();
        state.commit(lease, records, &self.bounds)?;
        self.notify_listener(records);
        drop(state);
        Ok(())
    }

    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError> {
        let state = self.state();
        Ok(state.run(run)?.records_after(after).to_vec())
    }

    async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError> {
        self.state().run_mut(run)?.post(entry)
    }

    async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError> {
        self.state().leased(lease).map(|run| run.inbox())
    }

    async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError> {
        self.state().leased(lease).map(|run| run.settle(ids))
    }
}

#[async_trait]
impl RunOutputs for MemoryStore {
    async fn keep_output(&self, lease: &RunLease, output: &LongOutput) -> Result<(), StoreError> {
        let mut state = self.state();
        state.leased(lease)?.keep_output(output, &self.bounds)
    }

    async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError> {
        self.state().run(run).map(Run::outputs)
    }

    async fn output_page(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        most: usize,
    ) -> Result<OutputPage, StoreError> {
        // The page is cut after the lock is released, so only the caller waits for it.
        let output = self.state().run(run)?.output(call)?;
        Ok(output.page(from, most))
    }
}

#[async_trait]
impl SessionIndex for MemoryStore {
    async fn create_session(&self, session: &Session) -> Result<(), StoreError> {
        self.state().create_session(session)
    }

    async fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.state().session(id)
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        Ok(self.state().sessions(filter))
    }

    async fn summaries(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        Ok(self.state().summaries(filter))
    }

    async fn search(&self, search: &SessionSearch) -> Result<SessionsFound, StoreError> {
        Ok(self.state().search(search))
    }

    async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), StoreError> {
        self.state().set_title(id, title)
    }

    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError> {
        // Deleted data may be large: it is freed after the lock is released.
        let deleted = self.state().delete_session(id)?;
        drop(deleted);
        Ok(())
    }

    async fn delete_session_at(&self, id: &SessionId, head: ChainHead) -> Result<(), StoreError> {
        let deleted = self.state().delete_session_at(id, head)?;
        drop(deleted);
        Ok(())
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let deleted = self.state().prune(before);
        Ok(deleted.len().try_into().unwrap_or(u64::MAX))
    }

    async fn idle(&self, before: Timestamp, most: usize) -> Result<Vec<SessionId>, StoreError> {
        Ok(self.state().idle(before, most))
    }

    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError> {
        self.state().history(id)
    }

    async fn continuation(&self, id: &SessionId) -> Result<Continuation, StoreError> {
        self.state().continuation(id)
    }

    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        self.state().history_before(run)
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.state().run(run).map(Run::summary)
    }

    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError> {
        let state = self.state();
        Ok(state.session_runs(session)?.map(Run::summary).collect())
    }

    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        Ok(self.state().find_runs(filter))
    }

    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError> {
        Ok(self.state().unfinished())
    }

    async fn due(&self) -> Result<Vec<RunSummary>, StoreError> {
        Ok(self.state().due())
    }

    async fn mailed(&self) -> Result<Vec<RunId>, StoreError> {
        Ok(self.state().mailed())
    }

    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError> {
        self.state().usage_since(of, since)
    }

    async fn stats(&self, filter: &StatsFilter) -> Result<Stats, StoreError> {
        Ok(self.state().stats(filter))
    }

    async fn carried(&self, session: &SessionId) -> Result<Carried, StoreError> {
        self.state().carried(session)
    }

    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError> {
        self.state().revoke(session, id)
    }

    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError> {
        self.state().verify(session, expect)
    }
}
