//! Brings runs what is meant for them, whichever process drives them: messages, results of clients' tools, decisions, and the wish
//! that they end. What is brought is kept, and heard where the run is at work.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    AgentId, ApprovalDecision, Cancelled, DataPolicy, InboxEntry, InboxInput, InputId, Message,
    RunId, Seq, Steered, ToolCallId, ToolOutcome,
};
use neuraxis_ports::StoreError;

use super::Runs;
use super::restored::client_finished;
use super::resume::ResumeError;
use super::slot::Reached;

impl Runs {
    /// Puts an input into a run's inbox, from whichever process, and lets the run go on if nobody drives it. Once this
    /// returns the input is kept: the run takes it with one of its next steps, or refuses it. A run of which a data policy keeps
    /// something out of its log is told without that where it is at work here, and so is one that is to end where the store
    /// refuses to keep that.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if there is no such run, it has ended, or the store could not keep the input; [`ResumeError::Closed`] if
    /// the run could not go on with it and was ended, unless that was what the input asked for; [`ResumeError::Altered`] if
    /// nothing goes on from its session.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the input may have been kept all the same; posting it again under its id changes nothing.
    pub async fn post(&self, run_id: RunId, mut input: InboxInput) -> Result<(), ResumeError> {
        if let InboxInput::ApprovalDecided(decided) = &mut input {
            self.parts.engine.approval_key.sign(run_id, decided);
        }
        self.check_owner_of(run_id).await?;
        self.check_kept_whole(run_id, &input).await?;
        if self.tell_unstored(run_id, &input) {
            return Ok(());
        }
        let entry = InboxEntry::new(input);
        let kept = self.parts.store.post(run_id, &entry).await;
        // A store that takes nothing more, as one whose file was moved, keeps nobody from ending what is at work here.
        let is_refused = matches!(kept, Err(StoreError::Refused(_)));
        let is_heard =
            kept.is_ok() || is_refused && matches!(entry.input, InboxInput::Cancelled(_));
        if is_heard
            && let Reached::Here(handle) = self.parts.active.reach(run_id)
            && handle.link.send(entry.input.input()).is_ok()
        {
            return Ok(());
        }
        kept?;
        match (self.resume(run_id, Vec::new()).await, &entry.input) {
            (Ok(handle), _) if handle.run_id() == run_id => {}
            // Another run goes on in its place, which hears of nothing else that was meant for this one: it has other sub-agents.
            (Ok(next), InboxInput::Cancelled(cancelled)) if cancelled.agent == AgentId::ROOT => {
                next.link.cancel(&cancelled.reason);
            }
            (Ok(_), _) => return Err(ResumeError::Ended(run_id)),
            (Err(ResumeError::Closed { .. }), InboxInput::Cancelled(_)) => {}
            (Err(ResumeError::Elsewhere { .. }), InboxInput::Cancelled(cancelled))
                if cancelled.agent == AgentId::ROOT =>
            {
                self.close_elsewhere(run_id, &cancelled.reason).await?;
            }
            // It would be said to end or to go on, and never would.
            (Err(why @ (ResumeError::Closed { .. } | ResumeError::Altered { .. })), _) => {
                return Err(why);
            }
            (Err(ResumeError::AtWork(_) | ResumeError::NothingToDo), _) => {}
            // Another process drives it and looks into the inbox by itself.
            (Err(ResumeError::Store(StoreError::SessionBusy { .. })), _) => {}
            (Err(ResumeError::Ended(ended)), _) => {
                // It came while the end was being kept. Unless the run took it before, nobody will.
                let records = self.parts.store.records(run_id, Seq(0)).await?;
                let mut taken = records.iter().filter_map(|record| record.inbox_id());
                if !taken.any(|taken| taken == entry.id) {
                    return Err(ResumeError::Ended(ended));
                }
            }
            (Err(error), _) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(run = %run_id, error, "the input is kept, but the run does not go on here");
            }
        }
        Ok(())
    }

    /// Tells a run at work here something that may not be stored, so that it passes through no store on its way; false if it
    /// has to. Nobody else could go on with such a run: should this process die, it is heard as little as if it had been kept.
    pub(crate) fn tell_unstored(&self, run: RunId, input: &InboxInput) -> bool {
        let Reached::Here(handle) = self.parts.active.reach(run) else {
            return false;
        };
        let origin = handle.link.feed.origin();
        origin.is_some_and(|origin| origin.policy != DataPolicy::ALL)
            && handle.link.send(input.input()).is_ok()
    }

    /// Refuses what is meant for a run of an altered session before it is kept: the run would take it once its session is
    /// whole again, though whoever sent it was told otherwise.
    async fn check_kept_whole(&self, run: RunId, input: &InboxInput) -> Result<(), ResumeError> {
        // Nobody is told of an expiry, and kept it is not tried again and again. What is at work here goes on without a look.
        let is_expiry = matches!(input, InboxInput::ApprovalDecided(decided) if decided.decision == ApprovalDecision::Expired);
        if self.parts.verified.is_none() || is_expiry || self.parts.active.contains(run) {
            return Ok(());
        }
        let run = self.parts.store.run(run).await?;
        match run.ended_at {
            Some(_) => Ok(()),
            None => self.refuse_altered(&run.session).await,
        }
    }

    /// Ends a run, whichever process drives it: its calls get their results, its history stays valid. If nobody drives it, it is
    /// taken up to hear of it, and one that works in another folder is ended as interrupted. It need not have ended when this
    /// returns.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    ///
    /// # Cancel safety
    ///
    /// As [`post`](Self::post).
    pub async fn cancel(
        &self,
        run_id: RunId,
        reason: impl Into<String>,
    ) -> Result<(), ResumeError> {
        let cancelled = Cancelled::new(self.new_input_id(), reason);
        self.post(run_id, InboxInput::Cancelled(cancelled)).await
    }

    /// Adds a user message to a run, whichever process drives it. It joins after the current batch of tool calls. Returns the id
    /// that its record has.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    ///
    /// # Cancel safety
    ///
    /// As [`post`](Self::post).
    pub async fn steer(
        &self,
        run_id: RunId,
        message: impl Into<String>,
    ) -> Result<InputId, ResumeError> {
        let message = Arc::new(Message::user(message));
        let steered = Steered::new(self.new_input_id(), message);
        let id = steered.id.clone();
        self.post(run_id, InboxInput::Steered(steered)).await?;
        Ok(id)
    }

    /// Brings a run the result of a tool that its client runs, whichever process drives it.
    ///
    /// # Errors
    ///
    /// [`ResumeError::NotWaiting`] if no such call was handed to the client, or another result was brought before; otherwise as
    /// [`post`](Self::post).
    ///
    /// # Cancel safety
    ///
    /// As [`post`](Self::post).
    pub async fn bring(
        &self,
        run_id: RunId,
        call: &ToolCallId,
        outcome: ToolOutcome,
        duration: Duration,
    ) -> Result<(), ResumeError> {
        // Whether a call waits is for its owner alone.
        self.check_owner_of(run_id).await?;
        let records = self.parts.store.records(run_id, Seq(0)).await?;
        let finished = client_finished(&records, call, outcome, duration)
            .ok_or_else(|| ResumeError::NotWaiting(call.clone()))?;
        let input = InboxInput::ClientResult(finished.into());
        match self.post(run_id, input).await {
            // Somebody brought another one, of which the run has not heard yet.
            Err(ResumeError::Store(StoreError::InputReused { .. })) => {
                Err(ResumeError::NotWaiting(call.clone()))
            }
            posted => posted,
        }
    }

    fn new_input_id(&self) -> InputId {
        InputId::new(self.parts.engine.ids.new_id().to_string())
    }
}
