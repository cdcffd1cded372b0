//! The task that writes: it takes the jobs of all runs from a queue and writes each batch in one transaction. On a
//! server a second task removes sessions.
//!
//! The queue is bounded: callers that write faster than the disk wait. A job's outcome is reported only after its
//! transaction has committed. Reads do not go through this task.

mod beginnings;
mod commit;
mod inbox;
mod later_runs;
mod leases;
mod operation;
mod outcomes;
mod outputs;
mod run_state;
mod sessions;
mod tokens;
mod transaction;
mod upsert;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuraxis_core::RunId;
use neuraxis_ports::{RunBounds, RunLease, StoreError};
use sqlx::Error;
use sqlx::error::DatabaseError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub(crate) use operation::{Beginning, Done, Operation};
use outcomes::{Outcomes, lost, no_outcomes, outcome, set_outcomes};
use run_state::RunState;
use sessions::EMPTY_AGAIN;
use transaction::Transaction;
pub(crate) use upsert::{in_chunks, keys};

use crate::database::{Database, FileIdentity};
use crate::error::{self, Failure, Kind};
use crate::link::Link;
use crate::log_copy::Copier;
use crate::read::history::Histories;
use crate::step::EncodedStep;

/// The maximum number of waiting jobs.
const QUEUE: usize = 256;

/// The maximum number of commits in one transaction.
const BATCH: usize = 128;

/// The maximum number of attempts of a transaction that fails for a temporary reason.
const ATTEMPTS: usize = 3;

/// The pause before opening a new connection, or before retrying a session that was locked.
const PAUSE: Duration = Duration::from_millis(50);

/// How long to retry when another transaction has the session locked.
const SESSION_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A handle to the writer.
#[derive(Debug, Clone)]
pub(crate) struct Writer(mpsc::Sender<Job>);

/// A job for the writer, with the channel to its caller.
#[derive(Debug)]
struct Job {
    work: Work,
    reply: oneshot::Sender<Result<Done, StoreError>>,
}

/// The work of a job.
#[derive(Debug)]
enum Work {
    Commit(Box<EncodedStep>),
    Begin(Arc<Beginning>),
    Operation(Operation),
}

impl Writer {
    /// Starts the task. It ends once all handles to it are dropped.
    pub(crate) fn start(
        database: Arc<Database>,
        histories: Arc<Histories>,
        settings: Settings,
        copier: Option<Copier>,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, jobs) = mpsc::channel(QUEUE);
        let task = Task::new(database, histories, settings, copier);
        (Self(sender), tokio::spawn(task.work(jobs)))
    }

    /// Stores a step.
    pub(crate) async fn commit(&self, step: EncodedStep) -> Result<(), StoreError> {
        match self.send(Work::Commit(Box::new(step))).await? {
            Done::Nothing => Ok(()),
            // Never acknowledge what may not be stored.
            Done::Leased(_) | Done::Held | Done::Counted(_) => Err(lost()),
        }
    }

    /// Begins a run. If another transaction has its session locked, retries for a while.
    pub(crate) async fn begin(&self, beginning: Beginning) -> Result<RunLease, StoreError> {
        let beginning = Arc::new(beginning);
        let started = Instant::now();
        loop {
            match self.send(Work::Begin(Arc::clone(&beginning))).await? {
                Done::Leased(lease) => return Ok(lease),
                Done::Held if started.elapsed() < SESSION_LOCK_TIMEOUT => {
                    tokio::time::sleep(PAUSE).await;
                }
                // Not `Unavailable`, which the caller would retry: it has been retried for long enough.
                Done::Held => {
                    let session = beginning.start.session.clone();
                    return Err(StoreError::SessionHeld(session));
                }
                _ => return Err(StoreError::Stale(beginning.start.run)),
            }
        }
    }

    /// Performs any other operation.
    pub(crate) async fn perform(&self, operation: Operation) -> Result<Done, StoreError> {
        self.send(Work::Operation(operation)).await
    }

    async fn send(&self, work: Work) -> Result<Done, StoreError> {
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let (reply, done) = oneshot::channel();
        let job = Job { work, reply };
        self.0.send(job).await.map_err(|_| closed())?;
        done.await.map_err(|_| closed())?
    }
}

/// The writer's configuration.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The name of this store among those that share the database.
    pub(crate) holder: String,
    pub(crate) lease: Duration,
    pub(crate) bounds: RunBounds,
    pub(crate) kind: WriterKind,
}

/// What a task writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterKind {
    /// Steps, and all other work that has no task of its own.
    Commits,
    /// Removals of sessions, which may take long: one job per transaction, over a connection that is open only while
    /// there are jobs.
    Removals,
}

impl Settings {
    fn lease_millis(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX / 2)
    }
}

#[derive(Debug)]
struct Task {
    database: Arc<Database>,
    histories: Arc<Histories>,
    settings: Settings,
    link: Option<Link>,
    /// The open SQLite file.
    file: Option<FileIdentity>,
    /// Reserved lease numbers, in ascending order.
    tokens: Vec<i64>,
    /// Cached state of the runs that this store drives: only the holder of a lease changes it.
    runs: HashMap<RunId, RunState>,
    /// Set when the disk failed: nothing is acknowledged any more.
    stopped: Option<StoreError>,
    /// Whether the disk may be full: either nothing was tried yet, or a write found no space, and no probe has
    /// succeeded since.
    may_lack_room: bool,
    /// Whether an earlier attempt, whose answer was lost, may already have committed this work.
    repeats: bool,
    /// Whether the file may still hold pages freed by deletions that can be returned to the disk.
    has_free_pages: bool,
    /// When the log of the file was last found in use, so that what deletions removed from the file may still be in it.
    deleted_in_log: Option<Instant>,
    /// Copies what was committed.
    copier: Option<Copier>,
}

impl Task {
    fn new(
        database: Arc<Database>,
        histories: Arc<Histories>,
        settings: Settings,
        copier: Option<Copier>,
    ) -> Self {
        Self {
            database,
            histories,
            settings,
            link: None,
            file: None,
            tokens: Vec::new(),
            runs: HashMap::new(),
            stopped: None,
            repeats: false,
            may_lack_room: true,
            has_free_pages: false,
            deleted_in_log: None,
            copier,
        }
    }

    async fn work(mut self, mut jobs: mpsc::Receiver<Job>) {
        let most = match self.settings.kind {
            WriterKind::Commits => BATCH,
            WriterKind::Removals => 1,
        };
        let mut batch = Vec::with_capacity(most);
        while self.receive(&mut jobs, &mut batch, most).await > 0 {
            // A caller that no longer waits has not been told that its job was done, so the job is skipped. Steps are
            // stored anyway: later ones of the run may follow.
            batch.retain(|job| matches!(job.work, Work::Commit(_)) || !job.reply.is_closed());
            let (works, replies): (Vec<_>, Vec<_>) =
                batch.drain(..).map(|job| (job.work, job.reply)).unzip();
            let outcomes = self.write(&works).await;
            let mut without_holder = Vec::new();
            for (reply, outcome) in replies.into_iter().zip(outcomes) {
                if let Err(Ok(Done::Leased(lease))) = reply.send(outcome) {
                    // Removes the run if it has no records; otherwise the release lets another process resume it.
                    without_holder.push(Work::Operation(Operation::Abandon(lease.clone())));
                    without_holder.push(Work::Operation(Operation::Release(lease)));
                }
            }
            if !without_holder.is_empty() {
                // The sessions of these leases must not stay reserved.
                self.write(&without_holder).await;
            }
            while self.has_free_pages && jobs.is_empty() && !jobs.is_closed() {
                self.continue_freeing().await;
            }
            if self.settings.kind == WriterKind::Removals && jobs.is_empty() {
                self.close_link().await;
            }
        }
        self.close_link().await;
    }

    /// Waits for jobs, and returns how many there are; none if there will be no more. Meanwhile tries to remove what was
    /// deleted from the log of the file.
    async fn receive(
        &mut self,
        jobs: &mut mpsc::Receiver<Job>,
        batch: &mut Vec<Job>,
        most: usize,
    ) -> usize {
        while self.deleted_in_log.is_some() && self.stopped.is_none() {
            let received = timeout(EMPTY_AGAIN, jobs.recv_many(batch, most)).await;
            if let Ok(count) = received {
                return count;
            }
            self.empty_log_again().await;
        }
        jobs.recv_many(batch, most).await
    }

    async fn close_link(&mut self) {
        if let Some(link) = self.link.take() {
            link.close().await;
        }
    }

    /// Writes jobs, all in one transaction if possible.
    async fn write(&mut self, works: &[Work]) -> Outcomes {
        if let Some(stopped) = &self.stopped {
            return works.iter().map(|_| Err(stopped.clone())).collect();
        }
        self.repeats = false;
        let error = match self.write_in_one_transaction(works).await {
            Ok(outcomes) => return outcomes,
            Err(error) => error,
        };
        self.may_lack_room |= error::is_full(&error);
        match error::kind(&error) {
            // One of them may be the cause.
            Kind::Permanent | Kind::Refused if works.len() > 1 => {
                let mut outcomes = Vec::with_capacity(works.len());
                for work in works {
                    let single = self
                        .write_in_one_transaction(std::slice::from_ref(work))
                        .await;
                    outcomes.push(match single {
                        Ok(mut outcome) => outcome.pop().unwrap_or_else(|| Err(lost())),
                        Err(error) => Err(self.database.store_error(error.into())),
                    });
                }
                outcomes
            }
            kind => {
                let error = self.database.store_error(error.into());
                if kind == Kind::Disk {
                    tracing::error!(%error, "the disk failed; the store accepts no more writes until it is reopened");
                    self.stopped = Some(error.clone());
                }
                works.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    /// Writes jobs in one transaction, retrying with a new connection if that may help. Work that was committed
    /// although its answer was lost is recognized.
    async fn write_in_one_transaction(&mut self, works: &[Work]) -> Result<Outcomes, Error> {
        let mut attempt = 1;
        loop {
            let error = match self.transaction(works).await {
                Ok(outcomes) => return Ok(outcomes),
                Err(error) => error,
            };
            // The cached state of these runs may be wrong.
            for work in works {
                self.runs.remove(&work.run());
            }
            let again = match error::kind(&error) {
                Kind::Broken => !matches!(error, Error::PoolTimedOut),
                Kind::Transient => is_conflict(&error),
                Kind::Disk | Kind::Refused | Kind::Permanent => false,
            };
            self.repeats |= error::kind(&error) == Kind::Broken;
            if !again || attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn transaction(&mut self, works: &[Work]) -> Result<Outcomes, Error> {
        let link = match self.link.take() {
            Some(link) => link,
            None => {
                // The new connection may lead to a server that replaced another one and lost what that had
                // acknowledged. There the same keys and numbers are assigned again, to others.
                self.runs.clear();
                self.tokens.clear();
                let link = self.database.writer().await?;
                self.file = self.file.or_else(|| self.database.file_identity());
                link
            }
        };
        let mut transaction = Transaction::begin(link).await?;
        let done = match self.apply(&mut transaction, works).await {
            Ok(outcomes) => transaction.commit().await.map(|()| outcomes),
            Err(error) => Err(error),
        };
        let Transaction {
            mut link, ended, ..
        } = transaction;
        match done {
            Ok(outcomes) => {
                for run in &ended {
                    self.histories.add(run);
                }
                let is_probe = |work: &Work| matches!(work, Work::Operation(Operation::Probe));
                self.may_lack_room &= !works.iter().any(is_probe);
                self.copy(works, &outcomes);
                self.free_space(&mut link, works).await;
                self.link = Some(link);
                Ok(outcomes)
            }
            Err(error) => {
                self.tokens.clear();
                // A connection that cannot even do this is dropped.
                if error::kind(&error) != Kind::Broken && link.run("ROLLBACK", &[]).await.is_ok() {
                    self.link = Some(link);
                }
                Err(error)
            }
        }
    }

    /// Copies the committed steps. A step that was committed twice, because an answer was lost, is copied twice.
    fn copy(&mut self, works: &[Work], outcomes: &[Result<Done, StoreError>]) {
        if let Some(copier) = &mut self.copier {
            let done = works.iter().zip(outcomes);
            let done = done.filter(|(_, outcome)| !matches!(outcome, Err(_) | Ok(Done::Held)));
            copier.append(done.filter_map(|(work, _)| work.step()));
        }
    }

    /// Applies jobs that wait at the same time. Their order does not matter, except that of each run's steps, so jobs
    /// that fit into one statement go together.
    async fn apply<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        works: &'a [Work],
    ) -> Result<Outcomes, Error> {
        let mut outcomes = no_outcomes(works.len());
        // Work on existing runs continues where it began. Anything else is refused if it would not be found there
        // later.
        let placed = match works.iter().any(Work::requires_file_in_place) {
            // Not `Unavailable`, which would be retried for a while.
            true => self.check_place().map_err(StoreError::Refused),
            false => Ok(()),
        };
        let (mut steps, mut others) = (Vec::new(), Vec::new());
        let (mut in_new_sessions, mut in_sessions) = (Vec::new(), Vec::new());
        for (place, work) in works.iter().enumerate() {
            if let (true, Err(error)) = (work.requires_file_in_place(), &placed) {
                set_outcomes(&mut outcomes, vec![place], vec![Err(error.clone())]);
                continue;
            }
            match work {
                Work::Commit(step) => steps.push((place, step.as_ref())),
                Work::Begin(beginning) => {
                    let kind = match beginning.start.new_session {
                        Some(_) => &mut in_new_sessions,
                        None => &mut in_sessions,
                    };
                    kind.push((place, beginning.as_ref()));
                }
                Work::Operation(operation) => others.push((place, operation)),
            }
        }
        while !steps.is_empty() {
            let mut runs = HashSet::new();
            let (together, later): (Vec<_>, Vec<_>) = steps
                .into_iter()
                .partition(|(_, step)| runs.insert(step.lease.run));
            let (places, together): (Vec<_>, Vec<_>) = together.into_iter().unzip();
            let done = self.commit(transaction, &together).await?;
            set_outcomes(&mut outcomes, places, done);
            steps = later;
        }
        let (places, beginnings): (Vec<_>, Vec<_>) = in_new_sessions.into_iter().unzip();
        let begun = self.begin_in_new_sessions(transaction, &beginnings).await?;
        set_outcomes(&mut outcomes, places, begun);
        let (places, beginnings): (Vec<_>, Vec<_>) = in_sessions.into_iter().unzip();
        let begun = self.begin_in_sessions(transaction, &beginnings).await?;
        set_outcomes(&mut outcomes, places, begun);
        for (place, operation) in others {
            // It may remove rows that were inserted earlier in this transaction.
            transaction.flush().await?;
            let done = outcome(self.perform(&mut transaction.link, operation).await)?;
            set_outcomes(&mut outcomes, vec![place], vec![done]);
        }
        Ok(outcomes)
    }
}

/// Returns whether a server aborted a transaction because of a concurrent one.
fn is_conflict(error: &Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    // serialization failure, deadlock detected
    code.is_some_and(|code| code == "40001" || code == "40P01")
}

impl Work {
    fn step(&self) -> Option<&EncodedStep> {
        match self {
            Self::Commit(step) => Some(step),
            Self::Begin(beginning) => beginning.first.as_ref(),
            Self::Operation(_) => None,
        }
    }

    /// Returns whether the work is useless to its caller unless the next process to open the store finds it: creating
    /// or removing sessions, beginning or resuming a run, posting to a run, or revoking a grant.
    const fn requires_file_in_place(&self) -> bool {
        matches!(
            self,
            Self::Begin(_)
                | Self::Operation(
                    Operation::Create(_)
                        | Operation::Delete(..)
                        | Operation::Prune(_)
                        | Operation::Post { .. }
                        | Operation::Revoke(..)
                )
        )
    }

    /// Returns the run whose state it may change; the nil id for none.
    fn run(&self) -> RunId {
        match self {
            Self::Commit(step) => step.lease.run,
            Self::Begin(beginning) => beginning.start.run,
            Self::Operation(operation) => operation.run().unwrap_or(RunId(uuid::Uuid::nil())),
        }
    }
}

/// Returns the refusal of a lease that is no longer valid.
fn stale(lease: &RunLease) -> Failure {
    Failure::Refused(StoreError::Stale(lease.run))
}
