//! A run seen from outside.

use std::sync::Arc;

use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, Cancelled, ContentHash, Input, InputId, Message, RunId,
    SessionId, Steered, ToolCallId,
};
use neuraxis_ports::Ids;
use tokio::sync::{mpsc, watch};

use crate::event::Events;
use crate::feed::Feed;
use crate::result::OrchestratorResult;

/// A run at work. Dropping the handle leaves it at work.
#[derive(Debug, Clone)]
pub struct RunHandle {
    pub(crate) run_id: RunId,
    pub(crate) session_id: SessionId,
    /// Boxed, because a queue keeps room for many and most runs never get one.
    pub(crate) inbox: mpsc::Sender<Box<Input>>,
    pub(crate) result: watch::Receiver<Option<Arc<OrchestratorResult>>>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) ids: Arc<dyn Ids>,
}

/// The run is over, or too busy to take another input now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the run has ended or cannot take another input now")]
#[non_exhaustive]
pub struct RunEnded;

impl RunHandle {
    /// Returns the run's id.
    #[must_use]
    pub const fn run_id(&self) -> RunId {
        self.run_id
    }

    /// Returns the session's id.
    #[must_use]
    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// Waits for the run to end, or to wait for somebody who is not here.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the run at work.
    pub async fn result(&self) -> Option<Arc<OrchestratorResult>> {
        let mut result = self.result.clone();
        let found = result.wait_for(Option::is_some).await.ok()?;
        found.clone()
    }

    pub(crate) fn has_result(&self) -> bool {
        self.result.borrow().is_some()
    }

    /// Listens to the run from its first record on.
    #[must_use]
    pub fn events(&self) -> Events {
        self.feed.listen()
    }

    /// Ends the run: its calls get their results, its history stays valid.
    ///
    /// # Errors
    ///
    /// [`RunEnded`] if it has ended already.
    pub fn cancel(&self, reason: impl Into<String>) -> Result<(), RunEnded> {
        self.send(Input::Cancelled(Cancelled {
            id: self.new_id(),
            reason: reason.into(),
        }))
    }

    /// Adds a user message, which joins after the current tool batch.
    ///
    /// # Errors
    ///
    /// [`RunEnded`] if the run has ended already.
    pub fn steer(&self, message: impl Into<String>) -> Result<(), RunEnded> {
        let message = Arc::new(Message::user(message));
        self.send(Input::Steered(Steered {
            id: self.new_id(),
            message,
        }))
    }

    /// Decides about a call that waits for approval.
    ///
    /// # Errors
    ///
    /// [`RunEnded`] if the run has ended already.
    pub fn decide(
        &self,
        call: ToolCallId,
        arguments_hash: ContentHash,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<(), RunEnded> {
        let id = self.new_id();
        self.send(Input::ApprovalDecided(ApprovalDecided {
            id,
            tool_call_id: call,
            arguments_hash,
            decision,
            by,
        }))
    }

    fn new_id(&self) -> InputId {
        InputId::new(self.ids.new_id().to_string())
    }

    fn send(&self, input: Input) -> Result<(), RunEnded> {
        self.inbox.try_send(Box::new(input)).map_err(|_| RunEnded)
    }
}
