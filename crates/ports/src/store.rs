//! The port to what is kept: sessions, runs and their records.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use neuraxis_core::{Record, RecordBody, RunId, Seq, SessionId, Transcript, jiff::Timestamp};

/// Keeps sessions, and for each its runs' records. A session's messages are a projection of its records.
///
/// **Who repeats.** The caller, on [`StoreError::is_retryable`]. **Cancel safety.** A dropped `commit` has happened whole
/// or not at all. **Order.** Commits of one run are called one after the other and become visible in that order.
#[async_trait]
pub trait SessionStore: Debug + Send + Sync + 'static {
    /// Adds a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionExists`] if the id is taken.
    async fn create_session(&self, session: &Session) -> Result<(), StoreError>;

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn session(&self, id: &SessionId) -> Result<Session, StoreError>;

    /// Returns all sessions, the newest first.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn sessions(&self) -> Result<Vec<Session>, StoreError>;

    /// Removes a session with all of its runs.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::SessionBusy`] while a run of it has not ended.
    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Returns the messages of a session as its ended runs left them.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError>;

    /// Returns the messages of a session as a run of it found them when it began: what it goes on from.
    ///
    /// As provided, it finds them at the beginning of the session's history, which later runs only add to unless they
    /// leave something out to make room. A store that can tell more should.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::Damaged`] if the history of then can no longer be told.
    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        let records = self.records(run, Seq(0)).await?;
        let started = records.first().and_then(|record| match &record.body {
            RecordBody::RunStarted(started) => Some(started),
            _ => None,
        });
        let session = started.and_then(|started| Some((started.session_id.as_ref()?, started)));
        let Some((session, started)) = session else {
            return Err(StoreError::Damaged(format!(
                "run {run} does not say which session it belongs to"
            )));
        };
        let history = self.history(session).await?;
        let count = usize::try_from(started.history.count).unwrap_or(usize::MAX);
        let before: Transcript = history.messages().iter().take(count).cloned().collect();
        if before.digest() == started.history {
            Ok(before)
        } else {
            Err(StoreError::Damaged(format!(
                "the history that run {run} began with is no longer there"
            )))
        }
    }

    /// Reserves a session for a run: from now on until that run has ended, nobody else can.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::SessionBusy`] if another run has not ended.
    async fn begin_run(&self, session: &SessionId, run: RunId) -> Result<RunLease, StoreError>;

    /// Gives a session back whose run never began: nothing of it was committed. The run is as if it had never been.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid or records were committed.
    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError>;

    /// Appends the records of one step, all or none. A record that ends the run frees its session.
    ///
    /// Committing the last step once more changes nothing and succeeds: a caller whose answer was lost may repeat it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid or the records do not follow the last ones kept.
    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError>;

    /// Returns the records of a run after the given one, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError>;
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is; `None` where there is only one user.
    pub owner: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// What its history begins with, where it goes on from another conversation.
    pub seed: Transcript,
}

impl Session {
    /// Describes a session of the only user.
    #[must_use]
    pub fn new(id: SessionId, created_at: Timestamp) -> Self {
        Self {
            id,
            owner: None,
            created_at,
            seed: Transcript::default(),
        }
    }

    /// Lets its history begin with another conversation.
    #[must_use]
    pub fn seeded(mut self, history: Transcript) -> Self {
        self.seed = history;
        self
    }
}

/// The right to write the records of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunLease {
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// Grows with every lease of the session, so that a stalled holder that comes back cannot write.
    pub token: u64,
}

impl RunLease {
    /// Makes a lease; for implementations of [`SessionStore`].
    #[must_use]
    pub const fn new(session: SessionId, run: RunId, token: u64) -> Self {
        Self {
            session,
            run,
            token,
        }
    }
}

/// Why the store could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No session has this id.
    #[error("there is no session {0}")]
    NoSuchSession(SessionId),
    /// A session already has this id.
    #[error("there already is a session {0}")]
    SessionExists(SessionId),
    /// No run has this id.
    #[error("there is no run {0}")]
    NoSuchRun(RunId),
    /// Another run of the session has not ended.
    #[error("session {session} is busy with run {run}")]
    SessionBusy {
        /// The session.
        session: SessionId,
        /// The run that holds it.
        run: RunId,
    },
    /// The writer no longer holds the session, or missed records of its own run.
    #[error("run {0} no longer holds its session")]
    Stale(RunId),
    /// The store cannot be reached or is overloaded.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// Tells whether the same request may succeed when it is made again.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
