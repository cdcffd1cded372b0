//! Why a store could not do something.

use neuraxis_core::{InputId, RunId, SessionId, ToolCallId};

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
    /// The session is no longer as it was read: another run came after the one that this run was to go on from, or after what
    /// was to be removed.
    #[error("session {0} went on meanwhile: read it again")]
    SessionChanged(SessionId),
    /// No run has this id.
    #[error("there is no run {0}")]
    NoSuchRun(RunId),
    /// Another run of the session has not ended, or another store drives this one.
    #[error("session {session} is busy with run {run}")]
    SessionBusy {
        /// The session.
        session: SessionId,
        /// The run that holds it.
        run: RunId,
    },
    /// Somebody, who removes the session, held it for longer than the store waits for that. Nothing was begun in it.
    #[error("session {0} is just being removed: try again in a moment")]
    SessionHeld(SessionId),
    /// Another run of the session was begun under the same idempotency key.
    #[error("run {run} of session {session} was begun under the same idempotency key")]
    KeyTaken {
        /// The session.
        session: SessionId,
        /// The run that holds the key.
        run: RunId,
    },
    /// The writer no longer holds the session, or missed records of its own run.
    #[error("run {0} no longer holds its session")]
    Stale(RunId),
    /// The run has ended and takes nothing more.
    #[error("run {0} has ended")]
    RunEnded(RunId),
    /// The run is as long as a run may be: it takes nothing more but its end.
    #[error("run {run} has {records} records of {bytes} bytes in all, more than a run may have")]
    RunTooLarge {
        /// The run.
        run: RunId,
        /// How many records it would have.
        records: u64,
        /// How many bytes they would take.
        bytes: u64,
    },
    /// The outputs that are kept beside the run take as much room as they may.
    #[error(
        "the long outputs of run {run} would have {bytes} bytes, more than the {most} that are kept of a run"
    )]
    OutputsTooLarge {
        /// The run.
        run: RunId,
        /// How many bytes they would have.
        bytes: u64,
        /// The most that they may have.
        most: u64,
    },
    /// No long output of this call is kept.
    #[error("no long output of call {call} of run {run} is kept")]
    NoSuchOutput {
        /// The run.
        run: RunId,
        /// The call.
        call: ToolCallId,
    },
    /// Another input was put into the run's inbox under the same id.
    #[error("another input was sent to run {run} under the id {id}")]
    InputReused {
        /// The run.
        run: RunId,
        /// The id.
        id: InputId,
    },
    /// As much waits in the run's inbox as may.
    #[error("the inbox of run {0} is full")]
    InboxFull(RunId),
    /// What is to be kept cannot be. Says what, and what it has to be; not the text itself, which may be hostile.
    #[error("not a valid {what}: it must be {rule}")]
    Invalid {
        /// Which value it is, such as `input id`.
        what: &'static str,
        /// What it has to be.
        rule: &'static str,
    },
    /// The store cannot be reached or is overloaded.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store does not let it be done, such as where a right is missing: it fails until somebody changes that, and what is
    /// stored is as it was.
    #[error("the store refuses it: {0}")]
    Refused(String),
    /// What is stored cannot be read, or is not what was stored.
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
