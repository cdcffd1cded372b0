//! The port through which processes other than the one that begins a run drive it.

use std::error::Error;
use std::fmt;

use async_trait::async_trait;
use neuraxis_core::{RunId, SessionId};

/// Has runs driven by other processes, such as the workers of a durable-execution engine, which resume them from the
/// store that they share with the dispatching process.
///
/// The work is in the store before anything is dispatched: the run's first records, and what was posted to its inbox.
/// So a dispatch carries no content, may be repeated, and may arrive in any order.
#[async_trait]
pub trait RunDispatcher: fmt::Debug + Send + Sync + 'static {
    /// Has a run driven that no process drives. A run that waits or is in progress checks its inbox instead. For a run
    /// that has ended, whatever still waits on its behalf stops waiting, so it does not hold up later runs of its
    /// session. Returns once the dispatch can no longer be lost.
    ///
    /// # Errors
    ///
    /// A [`DispatchError`] if the dispatch was not accepted. The caller retries; this makes one attempt.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the dispatch may still have been accepted.
    async fn dispatch(&self, session: &SessionId, run: RunId) -> Result<(), DispatchError>;
}

/// Why a run was not dispatched.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DispatchError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl DispatchError {
    /// Creates an error with the message of the service that was asked.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}
