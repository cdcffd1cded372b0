//! A store that survives its processes, fails now and then, and lets a process die at a commit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::Carried;
use neuraxis_core::{
    ContentHash, InboxEntry, InputId, Record, RunId, Seq, SessionId, SessionMetrics, ToolCallId,
    Transcript,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    ChainHead, Continuation, LongOutput, OutputHead, OutputPage, OutputPlace, RunFilter, RunLease,
    RunLog, RunOutputs, RunStart, RunSummary, Session, SessionFilter, SessionIndex, SessionSearch,
    SessionSummary, SessionsFound, StoreError, UsageOf, async_trait,
};
use tokio::sync::Notify;

use crate::dice::Dice;

#[derive(Debug)]
pub(crate) struct MortalStore {
    inner: MemoryStore,
    dice: Dice,
    may_die: AtomicBool,
    death: Notify,
    begun: Mutex<Option<RunId>>,
}

impl MortalStore {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            inner: MemoryStore::new(),
            dice: Dice::new(seed),
            may_die: AtomicBool::new(false),
            death: Notify::new(),
            begun: Mutex::default(),
        }
    }

    /// Sets whether faults may occur from now on.
    pub(crate) fn may_die(&self, may: bool) {
        self.may_die.store(may, Ordering::SeqCst);
    }

    /// Returns the run for which a session was last reserved.
    pub(crate) fn last_begun(&self) -> Option<RunId> {
        *self.begun.lock().unwrap()
    }

    pub(crate) fn forget_begun(&self) {
        *self.begun.lock().unwrap() = None;
    }

    /// Lets a process work until it is done or dies; `None` if it dies.
    pub(crate) async fn until_death<T>(&self, life: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.death.notified() => None,
            lived = life => Some(lived),
        }
    }

    async fn die(&self) {
        self.death.notify_one();
        std::future::pending::<()>().await;
    }

    /// Performs a store operation, or fails without it, or performs it and lets the process die before it receives the
    /// answer.
    async fn risk<T>(
        &self,
        done: impl FnOnce() -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        if !self.may_die.load(Ordering::SeqCst) {
            return done();
        }
        let away = || StoreError::Unavailable("for a moment".to_owned());
        match self.dice.below(100) {
            0..3 => Err(away()),
            3..5 => done().and(Err(away())),
            5..7 => {
                self.die().await;
                Err(away())
            }
            7..10 => {
                let _ = done();
                self.die().await;
                Err(away())
            }
            10 if self.dice.percent(30) => Err(StoreError::Damaged("page 7".to_owned())),
            _ => done(),
        }
    }
}

/// The memory store never waits, so its operations complete immediately.
fn now<T>(done: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(done).unwrap()
}

#[async_trait]
impl RunLog for MortalStore {
    async fn renew(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.inner.renew(lease).await
    }

    async fn release(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.inner.release(lease).await
    }

    async fn expire(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.inner.expire(lease).await
    }

    async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError> {
        self.inner.post(run, entry).await
    }

    async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError> {
        self.inner.inbox(lease).await
    }

    async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError> {
        self.inner.settle(lease, ids).await
    }

    async fn begin(&self, start: &RunStart) -> Result<RunLease, StoreError> {
        *self.begun.lock().unwrap() = Some(start.run);
        self.risk(|| now(self.inner.begin(start))).await
    }

    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.inner.abandon_run(lease).await
    }

    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError> {
        self.risk(|| now(self.inner.commit(lease, records))).await
    }

    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError> {
        self.inner.records(run, after).await
    }
}

#[async_trait]
impl RunOutputs for MortalStore {
    async fn keep_output(&self, lease: &RunLease, output: &LongOutput) -> Result<(), StoreError> {
        self.risk(|| now(self.inner.keep_output(lease, output)))
            .await
    }

    async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError> {
        self.inner.outputs(run).await
    }

    async fn output_page(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        most: usize,
    ) -> Result<OutputPage, StoreError> {
        self.inner.output_page(run, call, from, most).await
    }
}

#[async_trait]
impl SessionIndex for MortalStore {
    async fn create_session(&self, session: &Session) -> Result<(), StoreError> {
        self.inner.create_session(session).await
    }

    async fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.inner.session(id).await
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        self.inner.sessions(filter).await
    }

    async fn summaries(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        self.inner.summaries(filter).await
    }

    async fn search(&self, search: &SessionSearch) -> Result<SessionsFound, StoreError> {
        self.inner.search(search).await
    }

    async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), StoreError> {
        self.inner.set_title(id, title).await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.inner.prune(before).await
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.inner.run(run).await
    }

    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError> {
        self.inner.runs(session).await
    }

    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.inner.find_runs(filter).await
    }

    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.inner.unfinished().await
    }

    async fn metrics(&self, session: &SessionId) -> Result<SessionMetrics, StoreError> {
        self.inner.metrics(session).await
    }

    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError> {
        self.inner.usage_since(of, since).await
    }

    async fn carried(&self, session: &SessionId) -> Result<Carried, StoreError> {
        self.inner.carried(session).await
    }

    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError> {
        self.inner.revoke(session, id).await
    }

    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError> {
        self.inner.verify(session, expect).await
    }

    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError> {
        self.inner.delete_session(id).await
    }

    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError> {
        self.inner.history(id).await
    }

    async fn mailed(&self) -> Result<Vec<RunId>, StoreError> {
        self.inner.mailed().await
    }

    async fn continuation(&self, id: &SessionId) -> Result<Continuation, StoreError> {
        self.inner.continuation(id).await
    }

    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        self.inner.history_before(run).await
    }
}
