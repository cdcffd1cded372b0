//! A run seen from outside.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, Cancelled, ContentHash, Input, InputId, Message,
    Record, RunId, Seq, SessionId, Steered, ToolCallId, ToolOutcome,
};
use neuraxis_ports::{Ids, StoreError, TraceContext};
use tokio::sync::mpsc;

use crate::driver::KEPT_TO_CANCEL;
use crate::event::Events;
use crate::feed::Feed;
use crate::result::{self, OrchestratorResult};
use crate::run_end::{EndReceiver, RunEnd};
use crate::runs::client_finished;

/// A run at work. Dropping the handle leaves it at work.
#[derive(Debug, Clone)]
pub struct RunHandle {
    pub(crate) link: RunLink,
    pub(crate) session_id: SessionId,
    pub(crate) trace: TraceContext,
    pub(crate) is_repeat: bool,
}

/// What joins a run to whoever started it.
#[derive(Debug, Clone)]
pub(crate) struct RunLink {
    pub(crate) run_id: RunId,
    /// Boxed, because a queue keeps room for many and most runs never get one.
    pub(crate) inbox: mpsc::Sender<Box<Input>>,
    pub(crate) end: EndReceiver,
    pub(crate) feed: Arc<Feed>,
    pub(crate) ids: Arc<dyn Ids>,
}

/// Why a run has no result: nothing of it is under way here any more, and it has not ended here. What is on record of it is
/// whole, and unless another process ended it, it goes on once it is taken up: by [`Runs::resume`](crate::Runs::resume), by
/// [`keep_recovering`](crate::Runs::keep_recovering), or by a request that is made again under its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoResult {
    /// What it did next could not be recorded, or another process has taken it over.
    #[error("{}", unrecorded(.0))]
    Unrecorded(#[source] StoreError),
    /// It was left by [`suspend`](crate::Orchestrator::suspend), or its task crashed, which only a defect can cause.
    #[error("the run was stopped before it ended")]
    Stopped,
}

/// Says why a run is left that could not be recorded. Of one that another process has, only that one knows whether it has ended.
const fn unrecorded(why: &StoreError) -> &'static str {
    match why {
        StoreError::Stale(_) => "another process has taken the run over, or may have by now",
        _ => "the run could not be recorded: it has not ended, and goes on when it is taken up",
    }
}

/// The run takes nothing by this handle: it has ended, it was put aside until somebody answers what it waits for, or it is too
/// busy to take another input now.
///
/// A run that was put aside has not ended, and its session stays busy. It is reached by [`Runs::cancel`](crate::Runs::cancel),
/// [`Runs::steer`](crate::Runs::steer) and [`Approvals::decide`](crate::Approvals::decide), as is any run, whichever process it
/// is in. Once it goes on it has a handle of its own; this one stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run has ended, waits without taking anything by this handle, or cannot take another input now"
)]
#[non_exhaustive]
pub struct RunEnded;

/// Why a result that a client brought, or a decision, was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No call with this id was handed to the client.
    #[error("call {0} is not waiting for a result")]
    NotWaiting(ToolCallId),
    /// No call with this id, and with these arguments, waits for a person.
    #[error("call {0} is not waiting for a decision about these arguments")]
    NotAsked(ToolCallId),
    /// That a question expired is said by the time alone.
    #[error("nobody decides that the question about call {0} has expired: allow it, or deny it")]
    NotADecision(ToolCallId),
    /// The run takes nothing by this handle.
    #[error(transparent)]
    RunEnded(#[from] RunEnded),
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

    /// Tells whether the run was begun by an earlier request under the same idempotency key. It may have ended before this
    /// handle was made: then the handle tells what its log tells.
    #[must_use]
    pub const fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    /// Waits for the run to end, or to wait for somebody who is not here.
    ///
    /// # Errors
    ///
    /// [`NoResult`] if the run was left without an end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the run at work.
    pub async fn result(&self) -> Result<OrchestratorResult, NoResult> {
        let end = self.link.end().await?;
        Ok(result::of_run(self, &end))
    }

    /// Listens to the run from its first record on.
    #[must_use]
    pub fn events(&self) -> Events {
        self.link.feed.listen()
    }

    /// As [`events`](Self::events), but only what came after one of the records.
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

    /// Ends the run: its calls get their results, its history stays valid.
    ///
    /// # Errors
    ///
    /// [`RunEnded`] if it has ended already, or was put aside as waiting: then [`Runs::cancel`](crate::Runs::cancel) ends it.
    /// However much was sent to it before, it takes this.
    pub fn cancel(&self, reason: impl Into<String>) -> Result<(), RunEnded> {
        self.cancel_agent(AgentId::ROOT, reason)
    }

    /// Ends one agent of the run and all below it; its parent goes on with what it has.
    ///
    /// # Errors
    ///
    /// [`RunEnded`] if the run has ended already, or was put aside as waiting.
    pub fn cancel_agent(&self, agent: AgentId, reason: impl Into<String>) -> Result<(), RunEnded> {
        self.link.cancel_agent(agent, reason)
    }

    /// Adds a user message, which joins after the current tool batch. One that a run took is on record
    /// ([`RecordBody::Steered`](neuraxis_core::RecordBody)): a run that comes to its end at this very moment takes none.
    ///
    /// # Errors
    ///
    /// [`RunEnded`] if the run has ended already, or was put aside as waiting: then [`Runs::steer`](crate::Runs::steer) takes it.
    pub fn steer(&self, message: impl Into<String>) -> Result<(), RunEnded> {
        self.steer_agent(AgentId::ROOT, message)
    }

    /// As [`steer`](Self::steer), for one agent of the run. What a sub-agent's model did not hear before that agent ended, nobody
    /// does.
    ///
    /// # Errors
    ///
    /// As [`steer`](Self::steer).
    pub fn steer_agent(&self, agent: AgentId, message: impl Into<String>) -> Result<(), RunEnded> {
        self.link.steer_agent(agent, message)
    }

    /// Brings the result of a tool that the caller runs.
    ///
    /// # Errors
    ///
    /// [`AnswerError::NotWaiting`] if no such call was made; [`AnswerError::RunEnded`] if the run has ended, or was put
    /// aside as waiting: then [`Runs::resume`](crate::Runs::resume) takes it.
    pub fn bring(
        &self,
        call: &ToolCallId,
        outcome: ToolOutcome,
        duration: Duration,
    ) -> Result<(), AnswerError> {
        let finished = client_finished(&self.records(), call, outcome, duration)
            .ok_or_else(|| AnswerError::NotWaiting(call.clone()))?;
        self.link.send(Input::ToolFinished(finished))?;
        Ok(())
    }

    /// Decides about a call that waits for approval in a run at work. The hash is that of the arguments the person was shown.
    /// Arguments that were edited are checked by the run alone, for which they use up the approval if the tool does not take
    /// them: [`Approvals::decide`](crate::Approvals::decide) refuses them before.
    ///
    /// # Errors
    ///
    /// [`AnswerError::NotAsked`] if the run asks nothing about such a call with such arguments; [`AnswerError::NotADecision`]
    /// for [`ApprovalDecision::Expired`]; [`AnswerError::RunEnded`] if the run has ended, or was put aside as waiting: then
    /// [`Approvals::decide`](crate::Approvals::decide) takes it.
    pub fn decide(
        &self,
        call: ToolCallId,
        arguments_hash: ContentHash,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<(), AnswerError> {
        let view = RunView::of(&self.records());
        let is_asked = view.open_approvals().any(|asked| {
            let request = asked.request;
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
    ) -> Result<(), RunEnded> {
        let cancelled = Cancelled::new(self.new_id(), reason);
        self.send(Input::Cancelled(Cancelled { agent, ..cancelled }))
    }

    pub(crate) fn steer_agent(
        &self,
        agent: AgentId,
        message: impl Into<String>,
    ) -> Result<(), RunEnded> {
        let message = Arc::new(Message::user(message));
        let steered = Steered::new(self.new_id(), message);
        self.send(Input::Steered(Steered { agent, ..steered }))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.has_ended()
    }

    pub(crate) fn cancel(&self, reason: &str) {
        // A run that has ended cannot be cancelled, and need not be.
        let _ = self.cancel_agent(AgentId::ROOT, reason);
    }

    fn new_id(&self) -> InputId {
        InputId::new(self.ids.new_id().to_string())
    }

    /// Sends the run an input. However many wait to be taken, there is room for the wish that it end.
    pub(crate) fn send(&self, input: Input) -> Result<(), RunEnded> {
        let ends_all = matches!(&input, Input::Cancelled(it) if it.agent == AgentId::ROOT);
        if !ends_all && self.inbox.capacity() <= KEPT_TO_CANCEL {
            return Err(RunEnded);
        }
        self.inbox.try_send(Box::new(input)).map_err(|_| RunEnded)
    }
}

/// Cancels a run when nobody waits for its result anymore.
pub(crate) struct CancelOnDrop(pub(crate) RunLink);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.cancel("the caller went away");
        }
    }
}
