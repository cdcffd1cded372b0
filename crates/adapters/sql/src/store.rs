//! The store: reads bypass the writer; everything else goes through it.

use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::{Carried, Stats};
use neuraxis_core::{
    ContentHash, InboxEntry, InputId, Record, RunId, Seq, SessionId, SessionMetrics, ToolCallId,
    Transcript,
};
use neuraxis_ports::{
    ChainHead, Continuation, LongOutput, OutputHead, OutputPage, OutputPlace, RunBounds, RunFilter,
    RunLease, RunLog, RunOutputs, RunSize, RunStart, RunSummary, SPAN_TARGET, Session,
    SessionFilter, SessionIndex, SessionSearch, SessionSummary, SessionsFound, StatsFilter,
    StoreError, UsageOf, async_trait, check_input, check_title,
};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tracing::{Instrument, Span};
use uuid::Uuid;

use crate::config::SqlConfig;
use crate::database::{self, Database, Dialect};
use crate::error::{Failure, OpenError};
use crate::link::Link;
use crate::log_copy::Copier;
use crate::read::{self, history::Histories, verify::Contents};
use crate::step::EncodedStep;
use crate::writer::{Beginning, Done, Operation, Settings, Writer, WriterKind};

/// A session store in a database.
///
/// A clone is another handle to the same store. Several stores may share a database, in one process or in many: leases
/// keep them out of each other's runs.
#[derive(Debug, Clone)]
pub struct SqlStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    database: Arc<Database>,
    histories: Arc<Histories>,
    bounds: RunBounds,
    /// `None` once the store is closed.
    writers: std::sync::RwLock<Option<Writers>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Handles to the tasks that write.
#[derive(Debug, Clone)]
struct Writers {
    commits: Writer,
    /// On a server a separate writer, so no run waits while a long session is removed. A file has one writer at a time
    /// anyway. Revoking a grant of that very session, or setting its title, waits, and so do the writes queued behind
    /// it.
    removals: Writer,
}

impl SqlStore {
    /// Opens a database, creates it if it does not exist, and upgrades its schema. Needs a tokio runtime, which from
    /// then on runs the task that writes.
    ///
    /// # Errors
    ///
    /// Returns an [`OpenError`] if the URL names no database, or if the database cannot be reached, is damaged, holds
    /// another program's data, was written by a newer version, or is no longer beside its `-wal`. Nothing is changed
    /// then.
    pub async fn open(config: &SqlConfig) -> Result<Self, OpenError> {
        let database = Database::open(config).await?;
        if let Some(file) = config.file().filter(|_| !database.is_read_only()) {
            database::tighten(&file);
        }
        Self::with_database(database, config)
    }

    /// Opens a store in the Postgres database of a pool that the rest of the program also uses. The tables are in a
    /// separate schema, `neuraxis`.
    ///
    /// Reads take connections from the pool and return them with the settings they had. Writes use one connection of
    /// the store's own, and a second one while sessions are removed; both are created the way the pool creates its own.
    /// The configuration's `url` and [`max_connections`](SqlConfig::max_connections) are ignored. Closing the store
    /// leaves the pool open.
    ///
    /// ```no_run
    /// use neuraxis_sql::{PgPool, SqlConfig, SqlStore};
    ///
    /// # async fn example(pool: PgPool) -> Result<(), neuraxis_sql::OpenError> {
    /// let store = SqlStore::open_in_pool(&pool, &SqlConfig::new("")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    #[cfg(feature = "postgres")]
    pub async fn open_in_pool(pool: &crate::PgPool, config: &SqlConfig) -> Result<Self, OpenError> {
        let database = Database::open_in_pool(pool, config).await?;
        Self::with_database(database, config)
    }

    fn with_database(database: Database, config: &SqlConfig) -> Result<Self, OpenError> {
        let database = Arc::new(database);
        let settings = Settings {
            holder: Uuid::new_v4().to_string(),
            lease: config.lease,
            bounds: config.bounds,
            kind: WriterKind::Commits,
        };
        let copier = config.log.clone().map(Copier::open);
        let histories = Arc::<Histories>::default();
        let start = |settings, copier| {
            Writer::start(
                Arc::clone(&database),
                Arc::clone(&histories),
                settings,
                copier,
            )
        };
        let (commits, task) = start(settings.clone(), copier.transpose()?);
        let mut tasks = vec![task];
        let removals = match database.dialect {
            Dialect::Sqlite => commits.clone(),
            Dialect::Postgres => {
                let kind = WriterKind::Removals;
                let (removals, task) = start(Settings { kind, ..settings }, None);
                tasks.push(task);
                removals
            }
        };
        let writers = Writers { commits, removals };
        Ok(Self(Arc::new(Inner {
            database,
            histories,
            bounds: config.bounds,
            writers: std::sync::RwLock::new(Some(writers)),
            tasks: Mutex::new(tasks),
        })))
    }

    /// Returns whether the database is a file that cannot be written, and was opened all the same, to
    /// [read](crate::UnwritableFile::Read) it. Every write fails with [`StoreError::ReadOnly`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.database.is_read_only()
    }

    /// Finishes pending writes and closes all connections. From then on every operation fails with
    /// [`StoreError::Unavailable`]. Not needed for safety: acknowledged data is kept without it.
    pub async fn close(&self) {
        // The connection that writes closes last: it checkpoints the file.
        self.0.database.close().await;
        let writers = self.0.writers.write().map(|mut writers| writers.take());
        drop(writers);
        for task in self.0.tasks.lock().await.drain(..) {
            // A task that panicked has nothing left to finish.
            let _ = task.await;
        }
    }

    /// Checks that the database is intact and counts its contents. For SQLite this reads the whole file and checks its
    /// structure. It does not check that the records are those that were stored: [`SessionIndex::verify`] does.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] naming the file and what is wrong; [`StoreError::Refused`] naming the tables that the
    /// user of the database may not read and change; [`StoreError::Unavailable`].
    pub async fn check(&self) -> Result<Contents, StoreError> {
        let database = &self.0.database;
        let found = read::verify::contents(&mut self.link("check").await?, database.dialect).await;
        found.map_err(|failure| match failure {
            Failure::Refused(StoreError::Damaged(what)) => {
                StoreError::Damaged(format!("{}: {what}", database.place))
            }
            failure => self.store_error(failure),
        })
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn database(&self) -> &Database {
        &self.0.database
    }

    fn writers(&self) -> Result<Writers, StoreError> {
        let writers = self.0.writers.read();
        let writers = writers.ok().and_then(|writers| writers.clone());
        writers.ok_or_else(|| StoreError::Unavailable("the store is closed".to_owned()))
    }

    async fn perform(&self, operation: Operation) -> Result<Done, StoreError> {
        let span = span(operation.name());
        let writers = self.writers()?;
        let writer = match operation {
            Operation::Delete(..) | Operation::Prune(_) => writers.removals,
            _ => writers.commits,
        };
        writer.perform(operation).instrument(span).await
    }

    async fn delete(&self, id: &SessionId, at: Option<ChainHead>) -> Result<(), StoreError> {
        self.perform(Operation::Delete(id.clone(), at)).await?;
        self.0.histories.forget(|known| known == id);
        Ok(())
    }

    /// Returns a connection for a read; dropping it ends the read's span.
    async fn link(&self, operation: &'static str) -> Result<Link, StoreError> {
        let span = span(operation);
        let link = self.0.database.reader().instrument(span.clone()).await;
        let link = link.map_err(|error| self.store_error(error.into()))?;
        Ok(link.within(span))
    }

    fn store_error(&self, failure: Failure) -> StoreError {
        self.0.database.store_error(failure)
    }
}

/// Starts the span of an operation within a request. Returns no span if there is no current span or none is exported:
/// the spans of runs are built from their records, so operations outside a span need none.
fn span(operation: &'static str) -> Span {
    if Span::current().is_none() {
        return Span::none();
    }
    tracing::debug_span!(
        target: SPAN_TARGET,
        "store",
        otel.name = %format_args!("store {operation}"),
        otel.kind = "client",
        db.operation.name = operation,
    )
}

#[async_trait]
impl RunLog for SqlStore {
    async fn begin(&self, start: &RunStart) -> Result<RunLease, StoreError> {
        if let Some(session) = &start.new_session {
            session.check()?;
        }
        let first = EncodedStep::first(start)?;
        if let Some(first) = &first {
            let size = first.added_to(RunSize::default());
            size.check(&self.0.bounds, start.run, first.ending)?;
        }
        let start = start.clone();
        let writer = self.writers()?.commits;
        let begun = writer.begin(Beginning { start, first });
        begun.instrument(span("begin")).await
    }

    async fn renew(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.perform(Operation::Renew(lease.clone()))
            .await
            .map(drop)
    }

    async fn release(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.perform(Operation::Release(lease.clone()))
            .await
            .map(drop)
    }

    async fn expire(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.perform(Operation::Expire(lease.clone()))
            .await
            .map(drop)
    }

    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.perform(Operation::Abandon(lease.clone()))
            .await
            .map(drop)
    }

    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let step = EncodedStep::new(lease, records)?;
        self.writers()?.commits.commit(step).await
    }

    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError> {
        let mut link = self.link("records").await?;
        let found = async {
            let key = read::records::key(&mut link, run).await?;
            read::records::of_run(&mut link, key, run, after.0).await
        };
        found.await.map_err(|failure| self.store_error(failure))
    }

    async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError> {
        let body = check_input(entry)?;
        let hash = ContentHash::of(body.as_bytes());
        let id = entry.id.clone();
        let operation = Operation::Post {
            run,
            id,
            body,
            hash,
        };
        self.perform(operation).await.map(drop)
    }

    async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError> {
        let found = read::records::inbox(&mut self.link("inbox").await?, lease).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError> {
        let operation = Operation::Settle(lease.clone(), ids.to_vec());
        self.perform(operation).await.map(drop)
    }
}

#[async_trait]
impl RunOutputs for SqlStore {
    async fn keep_output(&self, lease: &RunLease, output: &LongOutput) -> Result<(), StoreError> {
        let operation = Operation::KeepOutput(lease.clone(), output.clone());
        self.perform(operation).await.map(drop)
    }

    async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError> {
        let found = read::outputs::of_run(&mut self.link("outputs").await?, run).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn output_page(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        most: usize,
    ) -> Result<OutputPage, StoreError> {
        let found =
            read::outputs::page(&mut self.link("output_page").await?, run, call, from, most).await;
        found.map_err(|failure| self.store_error(failure))
    }
}

#[async_trait]
impl SessionIndex for SqlStore {
    async fn create_session(&self, session: &Session) -> Result<(), StoreError> {
        session.check()?;
        self.perform(Operation::Create(session.clone()))
            .await
            .map(drop)
    }

    async fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        let found = read::sessions::find(&mut self.link("session").await?, id).await;
        found
            .map(|(_, session)| session)
            .map_err(|failure| self.store_error(failure))
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        let found = read::session_lists::plain(&mut self.link("sessions").await?, filter).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn summaries(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        let mut link = self.link("summaries").await?;
        let found = read::session_lists::summaries(&mut link, filter).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn search(&self, search: &SessionSearch) -> Result<SessionsFound, StoreError> {
        let found = read::search::sessions(&mut self.link("search").await?, search).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), StoreError> {
        let title = title.map(check_title).transpose()?.map(str::to_owned);
        let operation = Operation::SetTitle(id.clone(), title);
        self.perform(operation).await.map(drop)
    }

    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError> {
        self.delete(id, None).await
    }

    async fn delete_session_at(&self, id: &SessionId, head: ChainHead) -> Result<(), StoreError> {
        self.delete(id, Some(head)).await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut pruned = 0;
        loop {
            // One page at a time, so other writers get a turn.
            match self
                .perform(Operation::Prune(before.as_microsecond()))
                .await?
            {
                Done::Counted(count) if count > 0 => {
                    pruned += count;
                    // The result does not say which sessions were removed.
                    self.0.histories.forget(|_| true);
                }
                _ => return Ok(pruned),
            }
        }
    }

    async fn idle(&self, before: Timestamp, most: usize) -> Result<Vec<SessionId>, StoreError> {
        let before = before.as_microsecond();
        let found = read::sessions::idle(&mut self.link("idle").await?, before, most).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn shared_time(&self) -> Result<Option<Timestamp>, StoreError> {
        let dialect = self.0.database.dialect;
        let found =
            read::sessions::shared_time(&mut self.link("shared_time").await?, dialect).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError> {
        let mut link = self.link("history").await?;
        let found = read::history::of_session(&mut link, &self.0.histories, id).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn continuation(&self, id: &SessionId) -> Result<Continuation, StoreError> {
        let mut link = self.link("continuation").await?;
        let found = read::history::continuation(&mut link, &self.0.histories, id).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        let mut link = self.link("history_before").await?;
        let found = read::history::before(&mut link, &self.0.histories, run).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        let database = &self.0.database;
        let found = read::runs::find(&mut self.link("run").await?, database, run).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError> {
        let database = &self.0.database;
        let found = read::runs::of_session(&mut self.link("runs").await?, database, session).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        let database = &self.0.database;
        let found = read::runs::list(&mut self.link("find_runs").await?, database, filter).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError> {
        let database = &self.0.database;
        let found = read::runs::unfinished(&mut self.link("unfinished").await?, database).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn unfinished_of(&self, owner: Option<&str>) -> Result<Vec<RunSummary>, StoreError> {
        let (database, mut link) = (&self.0.database, self.link("unfinished_of").await?);
        let found = read::runs::unfinished_of(&mut link, database, owner).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn due(&self) -> Result<Vec<RunSummary>, StoreError> {
        let database = &self.0.database;
        let found = read::runs::due(&mut self.link("due").await?, database).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn mailed(&self) -> Result<Vec<RunId>, StoreError> {
        let found = read::runs::mailed(&mut self.link("mailed").await?).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.perform(Operation::Probe).await.map(drop)
    }

    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError> {
        let found = read::usage::since(&mut self.link("usage_since").await?, of, since).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn stats(&self, filter: &StatsFilter) -> Result<Stats, StoreError> {
        let found = read::stats::of(&mut self.link("stats").await?, filter).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn carried(&self, session: &SessionId) -> Result<Carried, StoreError> {
        let found = read::sessions::carried(&mut self.link("carried").await?, session).await;
        found.map_err(|failure| self.store_error(failure))
    }

    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError> {
        let done = self.perform(Operation::Revoke(session.clone(), id)).await?;
        Ok(matches!(done, Done::Counted(1)))
    }

    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError> {
        let found = read::verify::session(&mut self.link("verify").await?, session, expect).await;
        found.map_err(|failure| self.store_error(failure))
    }
}
