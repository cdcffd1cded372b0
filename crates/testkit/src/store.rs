//! A session store that adds faults to a real one.

use std::collections::VecDeque;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::Carried;
use neuraxis_core::{
    ContentHash, InboxEntry, InputId, Record, RunId, Seq, SessionId, SessionMetrics, ToolCallId,
    Transcript,
};
use neuraxis_ports::{
    ChainHead, Continuation, LongOutput, OutputHead, OutputPage, OutputPlace, RunFilter, RunLease,
    RunLog, RunOutputs, RunStart, RunSummary, Session, SessionFilter, SessionIndex, SessionSearch,
    SessionStore, SessionSummary, SessionsFound, StoreError, UsageOf, async_trait,
};

use crate::scripted::lock;

/// Passes everything on to another store, except for the faults that a test orders.
#[derive(Debug)]
pub struct FailingStore<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: VecDeque<(StoreOperation, Fault)>,
    broken: Option<StoreError>,
    calls: Vec<StoreOperation>,
}

/// An operation of a store. A few stand for related methods of the port as well: `Sessions` for `summaries`,
/// `search`, `idle` and `shared_time`, `History` for `history_before`, `DeleteSession` for `delete_session_at`, `Release` for `expire`, and
/// `Unfinished` for `unfinished_of`, `due` and `mailed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named after a method of the port")]
pub enum StoreOperation {
    CreateSession,
    Session,
    Sessions,
    SetTitle,
    DeleteSession,
    History,
    Continuation,
    BeginRun,
    AbandonRun,
    Commit,
    Records,
    Prune,
    Renew,
    Release,
    Run,
    Runs,
    FindRuns,
    Unfinished,
    Post,
    Inbox,
    Settle,
    KeepOutput,
    Outputs,
    OutputPage,
    Metrics,
    UsageSince,
    Carried,
    Revoke,
    Verify,
    Probe,
}

/// How an operation fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The operation does not happen, and returns this error.
    Refuse(StoreError),
    /// The operation happens, but the caller gets this error.
    LoseAnswer(StoreError),
    /// The operation does not happen, and never returns.
    Hang,
    /// The operation happens immediately, but returns only after this time.
    AnswerLate(Duration),
}

impl<S> FailingStore<S> {
    /// Wraps a store.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// Orders a fault for the next operation of this kind. Several faults are used up in order.
    pub fn fail_next(&self, operation: StoreOperation, fault: Fault) {
        self.state().faults.push_back((operation, fault));
    }

    /// Makes every operation fail from now on.
    pub fn break_down(&self, error: StoreError) {
        self.state().broken = Some(error);
    }

    /// Ends a breakdown and discards unused faults.
    pub fn repair(&self) {
        let mut state = self.state();
        state.broken = None;
        state.faults.clear();
    }

    /// Returns the operations that were requested, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<StoreOperation> {
        self.state().calls.clone()
    }

    /// Returns the wrapped store.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn fault(&self, operation: StoreOperation) -> Option<Fault> {
        let mut state = self.state();
        state.calls.push(operation);
        if let Some(error) = &state.broken {
            return Some(Fault::Refuse(error.clone()));
        }
        let place = state.faults.iter().position(|(of, _)| *of == operation)?;
        state.faults.remove(place).map(|(_, fault)| fault)
    }

    async fn pass<T>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.fault(operation) {
            None => call.await,
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::LoseAnswer(error)) => call.await.and(Err(error)),
            Some(Fault::Hang) => future::pending().await,
            Some(Fault::AnswerLate(wait)) => {
                let answer = call.await;
                tokio::time::sleep(wait).await;
                answer
            }
        }
    }
}

#[async_trait]
impl<S: SessionStore> RunLog for FailingStore<S> {
    async fn begin(&self, start: &RunStart) -> Result<RunLease, StoreError> {
        self.pass(StoreOperation::BeginRun, self.inner.begin(start))
            .await
    }

    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.pass(StoreOperation::AbandonRun, self.inner.abandon_run(lease))
            .await
    }

    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError> {
        self.pass(StoreOperation::Commit, self.inner.commit(lease, records))
            .await
    }

    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError> {
        self.pass(StoreOperation::Records, self.inner.records(run, after))
            .await
    }

    async fn renew(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.pass(StoreOperation::Renew, self.inner.renew(lease))
            .await
    }

    async fn release(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.pass(StoreOperation::Release, self.inner.release(lease))
            .await
    }

    async fn expire(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.pass(StoreOperation::Release, self.inner.expire(lease))
            .await
    }

    async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError> {
        self.pass(StoreOperation::Post, self.inner.post(run, entry))
            .await
    }

    async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError> {
        self.pass(StoreOperation::Inbox, self.inner.inbox(lease))
            .await
    }

    async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError> {
        self.pass(StoreOperation::Settle, self.inner.settle(lease, ids))
            .await
    }
}

#[async_trait]
impl<S: SessionStore> RunOutputs for FailingStore<S> {
    async fn keep_output(&self, lease: &RunLease, output: &LongOutput) -> Result<(), StoreError> {
        self.pass(
            StoreOperation::KeepOutput,
            self.inner.keep_output(lease, output),
        )
        .await
    }

    async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError> {
        self.pass(StoreOperation::Outputs, self.inner.outputs(run))
            .await
    }

    async fn output_page(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        most: usize,
    ) -> Result<OutputPage, StoreError> {
        self.pass(
            StoreOperation::OutputPage,
            self.inner.output_page(run, call, from, most),
        )
        .await
    }
}

#[async_trait]
impl<S: SessionStore> SessionIndex for FailingStore<S> {
    async fn create_session(&self, session: &Session) -> Result<(), StoreError> {
        self.pass(
            StoreOperation::CreateSession,
            self.inner.create_session(session),
        )
        .await
    }

    async fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.pass(StoreOperation::Session, self.inner.session(id))
            .await
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        self.pass(StoreOperation::Sessions, self.inner.sessions(filter))
            .await
    }

    async fn summaries(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        self.pass(StoreOperation::Sessions, self.inner.summaries(filter))
            .await
    }

    async fn search(&self, search: &SessionSearch) -> Result<SessionsFound, StoreError> {
        self.pass(StoreOperation::Sessions, self.inner.search(search))
            .await
    }

    async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), StoreError> {
        self.pass(StoreOperation::SetTitle, self.inner.set_title(id, title))
            .await
    }

    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError> {
        self.pass(StoreOperation::DeleteSession, self.inner.delete_session(id))
            .await
    }

    async fn delete_session_at(&self, id: &SessionId, head: ChainHead) -> Result<(), StoreError> {
        let deleted = self.inner.delete_session_at(id, head);
        self.pass(StoreOperation::DeleteSession, deleted).await
    }

    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError> {
        self.pass(StoreOperation::History, self.inner.history(id))
            .await
    }

    async fn continuation(&self, id: &SessionId) -> Result<Continuation, StoreError> {
        self.pass(StoreOperation::Continuation, self.inner.continuation(id))
            .await
    }

    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        self.pass(StoreOperation::History, self.inner.history_before(run))
            .await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.pass(StoreOperation::Prune, self.inner.prune(before))
            .await
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.pass(StoreOperation::Run, self.inner.run(run)).await
    }

    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError> {
        self.pass(StoreOperation::Runs, self.inner.runs(session))
            .await
    }

    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        let found = self.pass(StoreOperation::FindRuns, self.inner.find_runs(filter));
        match found.await {
            // A query for a session that does not exist finds nothing, since it may come too early.
            Err(StoreError::NoSuchSession(_)) => Ok(Vec::new()),
            found => found,
        }
    }

    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.pass(StoreOperation::Unfinished, self.inner.unfinished())
            .await
    }

    async fn unfinished_of(&self, owner: Option<&str>) -> Result<Vec<RunSummary>, StoreError> {
        let found = self.inner.unfinished_of(owner);
        self.pass(StoreOperation::Unfinished, found).await
    }

    async fn idle(&self, before: Timestamp, most: usize) -> Result<Vec<SessionId>, StoreError> {
        self.pass(StoreOperation::Sessions, self.inner.idle(before, most))
            .await
    }

    async fn shared_time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.pass(StoreOperation::Sessions, self.inner.shared_time())
            .await
    }

    async fn due(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.pass(StoreOperation::Unfinished, self.inner.due())
            .await
    }

    async fn mailed(&self) -> Result<Vec<RunId>, StoreError> {
        self.pass(StoreOperation::Unfinished, self.inner.mailed())
            .await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.pass(StoreOperation::Probe, self.inner.probe()).await
    }

    async fn metrics(&self, session: &SessionId) -> Result<SessionMetrics, StoreError> {
        self.pass(StoreOperation::Metrics, self.inner.metrics(session))
            .await
    }

    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError> {
        self.pass(
            StoreOperation::UsageSince,
            self.inner.usage_since(of, since),
        )
        .await
    }

    async fn carried(&self, session: &SessionId) -> Result<Carried, StoreError> {
        self.pass(StoreOperation::Carried, self.inner.carried(session))
            .await
    }

    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError> {
        self.pass(StoreOperation::Revoke, self.inner.revoke(session, id))
            .await
    }

    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError> {
        self.pass(StoreOperation::Verify, self.inner.verify(session, expect))
            .await
    }
}
