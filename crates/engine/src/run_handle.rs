//! A handle to a run.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, Cancelled, ContentHash, Input, InputId, Message,
    Record, RunId, Seq, SessionId, Steered, ToolCallId, ToolOutcome,
};
use neuraxis_ports::{Ids, StoreError, TraceContext};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::driver::KEPT_TO_CANCEL;
use crate::event::Events;
use crate::feed::Feed;
use crate::result::{self, OrchestratorResult};
use crate::run_end::{EndReceiver, RunEnd};
use crate::runs::client_finished;

/// A handle to a run in progress. Dropping the handle leaves the run in progress.
#[derive(Debug, Clone)]
pub struct RunHandle {
    pub(crate) link: RunLink,
    pub(crate) session_id: SessionId,
    pub(crate) trace: TraceContext,
    pub(crate) is_repeat: bool,
}

/// The connection between a run and the caller that started it.
#[derive(Debug, Clone)]
pub(crate) struct RunLink {
    pub(crate) run_id: RunId,
    /// Boxed because a queue reserves space for many inputs and most runs never get one.
    pub(crate) inbox: mpsc::Sender<Box<Input>>,
    pub(crate) end: EndReceiver,
    pub(crate) feed: Arc<Feed>,
    pub(crate) ids: Arc<dyn Ids>,
    /// Who sends what is sent over it, for the run's records.
    pub(crate) by: Option<String>,
}

/// Why a run has no result: it is no longer in progress in this engine and has not ended here. Its records are
/// complete. Unless another process ended it, it continues once it is resumed: by
/// [`Runs::resume`](crate::Runs::resume), by [`keep_recovering`](crate::Runs::keep_recovering), or by a repeated
/// request with its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoResult {
    /// Its next records could not be stored, or another process has taken the run over.
    #[error("{}", unrecorded(.0))]
    Unrecorded(#[source] StoreError),
    /// It was left by [`suspend`](crate::Orchestrator::suspend), or its task crashed or its state contradicted itself,
    /// which only a defect can cause.
    #[error("the run was stopped before it ended")]
    Stopped,
}

/// Returns why a run whose records could not be stored was left. If another process has taken it over, only that
/// process knows whether it has ended.
const fn unrecorded(why: &StoreError) -> &'static str {
    match why {
        StoreError::Stale(_) => "another process has taken over the run, or may have by now",
        _ => "the run could not be recorded: it has not ended, and continues when it is resumed",
    }
}

/// Why a run did not accept an input through its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAccepted {
    /// The run has ended, or is just ending: it accepts nothing more.
    #[error("the run has ended")]
    Ended,
    /// The run was parked until what it waits for is answered, or was left by this engine. It has not ended, and its
    /// session stays busy. [`Runs::cancel`](crate::Runs::cancel), [`Runs::steer`](crate::Runs::steer) and
    /// [`Approvals::decide`](crate::Approvals::decide) reach it, as they reach any run, whichever process drives it.
    /// When it continues it has a new handle; this one does not change.
    #[error("the run is parked, and accepts nothing through this handle")]
    Parked,
    /// The run has not taken earlier inputs yet, and there is no place for another one now. Try again later. Never the
    /// answer to a cancellation of the whole run.
    #[error("the run is too busy to accept another input now")]
    Busy,
}

/// Why a client's result, or a decision, was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No call with this id was handed to the client.
    #[error("call {0} is not waiting for a result")]
    NotWaiting(ToolCallId),
    /// No call with this id and these arguments waits for approval.
    #[error("call {0} is not waiting for a decision about these arguments")]
    NotAsked(ToolCallId),
    /// `Expired` is not a decision to give: only the passing of time makes a question expire.
    #[error("expiry is not a decision: allow or deny call {0}")]
    NotADecision(ToolCallId),
    /// The run did not accept it through this handle.
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
}

impl RunHandle {
    /// Returns the run's id.
    #[must_use]
    pub const fn run_id(&self) -> RunId {
        self.link.run_id
    }

    /// Returns the session's id.
    #[must_use]
    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// Returns whether an earlier request with the same idempotency key began the run. The run may have ended before
    /// this handle was created; the handle then reports what the log holds.
    #[must_use]
    pub const fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    /// Waits until the run ends, or until it waits for an answer from outside this process.
    ///
    /// # Errors
    ///
    /// [`NoResult`] if the run was left without an end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the run in progress.
    pub async fn result(&self) -> Result<OrchestratorResult, NoResult> {
        let end = self.link.end().await?;
        Ok(result::of_run(self, &end))
    }

    /// Returns the events of the run from its first record on.
    #[must_use]
    pub fn events(&self) -> Events {
        self.link.feed.listen()
    }

    /// Like [`events`](Self::events), but only events after the given record.
    #[must_use]
    pub fn events_after(&self, last: Seq) -> Events {
        if last == Seq(0) {
            return self.events();
        }
        self.events().after(last)
    }

    /// Returns the records committed so far.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.link.feed.with_records(<[_]>::to_vec)
    }

    /// Sets who sends what is sent through this handle, except decisions: the records of messages, cancellations and
    /// results then name the sender, as those of decisions do. By default, they name nobody.
    #[must_use]
    pub fn sent_by(mut self, by: Option<String>) -> Self {
        self.link.by = by;
        self
    }

    /// Ends the run: its open calls get results, and its history stays valid.
    ///
    /// # Errors
    ///
    /// [`NotAccepted::Ended`]; [`NotAccepted::Parked`]: use [`Runs::cancel`](crate::Runs::cancel) to end a parked run. A
    /// cancellation is accepted however much other input is queued.
    pub fn cancel(&self, reason: impl Into<String>) -> Result<(), NotAccepted> {
        self.cancel_agent(AgentId::ROOT, reason)
    }

    /// Ends one agent of the run and all agents below it; its parent continues with what it has.
    ///
    /// # Errors
    ///
    /// A [`NotAccepted`].
    pub fn cancel_agent(
        &self,
        agent: AgentId,
        reason: impl Into<String>,
    ) -> Result<(), NotAccepted> {
        self.link.cancel_agent(agent, reason)
    }

    /// Adds a user message, which joins the conversation after the current tool batch. A message that the run accepted
    /// is on record ([`RecordBody::Steered`](neuraxis_core::RecordBody)); a run that is ending at this very moment
    /// accepts none.
    ///
    /// # Errors
    ///
    /// A [`NotAccepted`]: [`Runs::steer`](crate::Runs::steer) also reaches a parked run.
    pub fn steer(&self, message: impl Into<String>) -> Result<(), NotAccepted> {
        self.steer_agent(AgentId::ROOT, message)
    }

    /// Like [`steer`](Self::steer), for one agent of the run. A message that a sub-agent's model was not sent before
    /// that agent ended is sent to no other agent.
    ///
    /// # Errors
    ///
    /// Same as [`steer`](Self::steer).
    pub fn steer_agent(
        &self,
        agent: AgentId,
        message: impl Into<String>,
    ) -> Result<(), NotAccepted> {
        self.link.steer_agent(agent, message)
    }

    /// Supplies the result of a tool that the caller runs.
    ///
    /// # Errors
    ///
    /// [`AnswerError::NotWaiting`] if no such call was made; [`AnswerError::NotAccepted`]:
    /// [`Runs::resume`](crate::Runs::resume) accepts the result of a parked run.
    pub fn supply_result(
        &self,
        call: &ToolCallId,
        outcome: ToolOutcome,
        duration: Duration,
    ) -> Result<(), AnswerError> {
        let mut finished = client_finished(&self.records(), call, outcome, duration)
            .ok_or_else(|| AnswerError::NotWaiting(call.clone()))?;
        finished.by.clone_from(&self.link.by);
        self.link.send(Input::ToolFinished(finished))?;
        Ok(())
    }

    /// Decides about a call that waits for approval in a run in progress. The hash is that of the arguments that the
    /// user was shown. Edited arguments are checked only by the run itself, and if the tool does not accept them the
    /// approval is used up; [`Approvals::decide`](crate::Approvals::decide) refuses them beforehand.
    ///
    /// # Errors
    ///
    /// [`AnswerError::NotAsked`] if the run does not ask about such a call with such arguments;
    /// [`AnswerError::NotADecision`] for [`ApprovalDecision::Expired`]; [`AnswerError::NotAccepted`]:
    /// [`Approvals::decide`](crate::Approvals::decide) accepts the decision for a parked run.
    pub fn decide(
        &self,
        call: ToolCallId,
        arguments_hash: ContentHash,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<(), AnswerError> {
        let view = RunView::of(&self.records());
        let is_asked = view.open_approvals().any(|open| {
            let request = open.request;
            request.tool_call_id == call && request.arguments_hash == arguments_hash
        });
        if !is_asked {
            return Err(AnswerError::NotAsked(call));
        }
        if decision == ApprovalDecision::Expired {
            return Err(AnswerError::NotADecision(call));
        }
        self.link.send(Input::ApprovalDecided(ApprovalDecided {
            id: self.link.new_id(),
            tool_call_id: call,
            arguments_hash,
            decision,
            by,
            code: None,
            given_before: None,
        }))?;
        Ok(())
    }
}

impl RunLink {
    pub(crate) async fn end(&self) -> Result<Arc<RunEnd>, NoResult> {
        let ended = self.end.wait().await.ok_or(NoResult::Stopped)?;
        ended.map_err(NoResult::Unrecorded)
    }

    pub(crate) fn cancel_agent(
        &self,
        agent: AgentId,
        reason: impl Into<String>,
    ) -> Result<(), NotAccepted> {
        let cancelled = Cancelled::new(self.new_id(), reason).by(self.by.clone());
        self.send(Input::Cancelled(Cancelled { agent, ..cancelled }))
    }

    pub(crate) fn steer_agent(
        &self,
        agent: AgentId,
        message: impl Into<String>,
    ) -> Result<(), NotAccepted> {
        let message = Arc::new(Message::user(message));
        let steered = Steered::new(self.new_id(), message).by(self.by.clone());
        self.send(Input::Steered(Steered { agent, ..steered }))
    }

    /// Returns a connection over which this person sends.
    pub(crate) fn sent_by(mut self, by: Option<String>) -> Self {
        self.by = by;
        self
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.has_ended()
    }

    pub(crate) fn cancel(&self, reason: &str) {
        // A run that has ended cannot be cancelled, and does not need to be.
        let _ = self.cancel_agent(AgentId::ROOT, reason);
    }

    fn new_id(&self) -> InputId {
        InputId::new(self.ids.new_id().to_string())
    }

    /// Sends the run an input. There is always room for a cancellation, however many inputs are queued.
    pub(crate) fn send(&self, input: Input) -> Result<(), NotAccepted> {
        if self.inbox.is_closed() {
            return Err(self.why_closed());
        }
        let ends_all = matches!(&input, Input::Cancelled(it) if it.agent == AgentId::ROOT);
        if !ends_all && self.inbox.capacity() <= KEPT_TO_CANCEL {
            return Err(NotAccepted::Busy);
        }
        let sent = self.inbox.try_send(Box::new(input));
        sent.map_err(|error| match error {
            TrySendError::Full(_) => NotAccepted::Busy,
            TrySendError::Closed(_) => self.why_closed(),
        })
    }

    fn why_closed(&self) -> NotAccepted {
        match self.end.is_over() {
            true => NotAccepted::Ended,
            false => NotAccepted::Parked,
        }
    }
}

/// Cancels a run when its result is no longer awaited.
pub(crate) struct CancelOnDrop(pub(crate) RunLink);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.cancel("the caller went away");
        }
    }
}
