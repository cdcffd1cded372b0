//! Errors of a store.

use neuraxis_core::{InputId, RunId, SessionId, ToolCallId};

/// Why a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No session has this id.
    #[error("there is no session {0}")]
    NoSuchSession(SessionId),
    /// A session already has this id.
    #[error("session {0} already exists")]
    SessionExists(SessionId),
    /// The session is no longer as it was read: another run came after the one that this run was to continue, or after
    /// what was to be removed.
    #[error("session {0} has changed in the meantime: read it again")]
    SessionChanged(SessionId),
    /// No run has this id.
    #[error("there is no run {0}")]
    NoSuchRun(RunId),
    /// Another run of the session has not ended, or another store drives this one.
    #[error("session {session} is busy with run {run}")]
    SessionBusy {
        /// The session.
        session: SessionId,
        /// The run that occupies it.
        run: RunId,
    },
    /// Another caller that is removing the session held it for longer than the store waits. Nothing was begun in the
    /// session.
    #[error("session {0} is being removed: try again in a moment")]
    SessionHeld(SessionId),
    /// Another run of the session began under the same idempotency key.
    #[error("run {run} of session {session} was started with the same idempotency key")]
    KeyTaken {
        /// The session.
        session: SessionId,
        /// The run that holds the key.
        run: RunId,
    },
    /// The writer no longer holds the session, or has missed records of its own run.
    #[error("run {0} no longer holds its session")]
    Stale(RunId),
    /// The run has ended and accepts nothing more.
    #[error("run {0} has ended")]
    RunEnded(RunId),
    /// The run has reached its maximum size: it accepts only its end.
    #[error("run {run} is too large: {records} records with {bytes} bytes in total")]
    RunTooLarge {
        /// The run.
        run: RunId,
        /// The number of records it would have.
        records: u64,
        /// The number of bytes they would take.
        bytes: u64,
    },
    /// The long outputs stored beside the run have reached their maximum size.
    #[error(
        "the long outputs of run {run} would take {bytes} bytes; the limit for a run is {most}"
    )]
    OutputsTooLarge {
        /// The run.
        run: RunId,
        /// The number of bytes they would have.
        bytes: u64,
        /// The maximum number of bytes.
        most: u64,
    },
    /// No long output of this call is stored.
    #[error("run {run} has no stored long output of call {call}")]
    NoSuchOutput {
        /// The run.
        run: RunId,
        /// The call.
        call: ToolCallId,
    },
    /// Another input was posted to the run's inbox under the same id.
    #[error("a different input was already sent to run {run} with the id {id}")]
    InputReused {
        /// The run.
        run: RunId,
        /// The id.
        id: InputId,
    },
    /// The run's inbox is full.
    #[error("the inbox of run {0} is full")]
    InboxFull(RunId),
    /// A value cannot be stored. Says which value and what it must be, but not the value itself, which may be hostile.
    #[error("not a valid {what}: it must be {rule}")]
    Invalid {
        /// The value, such as `input id`.
        what: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// The store cannot be reached or is overloaded.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store accepts no writes at present, for example because its server is a standby or its file cannot be written.
    /// Reading goes on.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// There is no space left for more data. Reading goes on.
    #[error("the store is unavailable: {0}")]
    Full(String),
    /// The store refuses the operation, for example because a permission is missing: it will fail until an operator
    /// changes that, and the stored data is unchanged.
    #[error("the store refuses it: {0}")]
    Refused(String),
    /// The stored data cannot be read, or is not what was stored.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// Returns whether the same request may succeed if it is repeated.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::ReadOnly(_) | Self::Full(_)
        )
    }
}
