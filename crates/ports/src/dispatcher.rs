//! The port by which runs are driven in other processes than those that begin them.

use std::error::Error;
use std::fmt;

use async_trait::async_trait;
use neuraxis_core::{RunId, SessionId};

/// Has runs driven by other processes, such as the workers of a durable-execution engine, which take them up from the store
/// that they share with whoever dispatches.
///
/// What is to be done stands in the store before anything is dispatched: the run's first records, and what was posted to its
/// inbox. So a dispatch carries no content, may be repeated and may come in any order.
#[async_trait]
pub trait RunDispatcher: fmt::Debug + Send + Sync + 'static {
    /// Has a run driven that nobody drives; one that waits, or is at work, looks into its inbox. For one that has ended, whatever
    /// still waits in its name is over, so that it keeps no later run of its session waiting. Returns once that cannot be lost
    /// any more.
    ///
    /// # Errors
    ///
    /// A [`DispatchError`] if nobody took it. The caller repeats it; this makes one attempt.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have been taken all the same.
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
    /// Says what whoever was asked answered.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    /// Adds what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}
