//! Delivers inputs to runs, whichever process drives them: messages, results of client tools, decisions and
//! cancellations. The inputs are stored, and the process in which the run is in progress is notified.

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
use super::slot::Reachability;
use crate::run_handle::NotAccepted;

impl Runs {
    /// Posts an input to a run's inbox, from any process, and lets the run continue if no process drives it. Once this
    /// returns the input is stored: the run takes it in one of its next steps, or refuses it. If a data policy keeps
    /// parts of a run out of its log, and the run is in progress here, it is told directly instead, without storing the
    /// input. The same happens to a cancellation that the store refuses to store.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the run does not exist, has ended, or the store could not store the input;
    /// [`StoreError::InboxFull`] as [`ResumeError::Store`] if the run takes its inputs more slowly than they come;
    /// [`ResumeError::Closed`] if the run could not continue with it and was ended, unless the input asked for that;
    /// [`ResumeError::Altered`] if nothing may continue its session.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the input may still have been stored; posting it again under its id changes nothing.
    pub async fn post(&self, run_id: RunId, mut input: InboxInput) -> Result<(), ResumeError> {
        if let InboxInput::ApprovalDecided(decided) = &mut input {
            self.parts.engine.approval_key.sign(run_id, decided);
        }
        self.check_owner_of(run_id).await?;
        self.check_unaltered_for(run_id, &input).await?;
        if self.deliver_unstored(run_id, &input)? {
            return Ok(());
        }
        let entry = InboxEntry::new(input);
        let stored = self.parts.store.post(run_id, &entry).await;
        // A store that accepts nothing more, such as one whose file was moved, must not prevent a run in progress here
        // from being ended.
        let is_refused = matches!(stored, Err(StoreError::Refused(_)));
        let may_deliver =
            stored.is_ok() || is_refused && matches!(entry.input, InboxInput::Cancelled(_));
        if may_deliver && let Reachability::Here(handle) = self.reach(run_id) {
            match handle.link.send(entry.input.input()) {
                Ok(()) => return Ok(()),
                // It takes the input from its inbox in the store.
                Err(NotAccepted::Busy) if stored.is_ok() => {
                    self.check_inbox(run_id);
                    return Ok(());
                }
                Err(_) => {}
            }
        }
        stored?;
        match (self.resume(run_id, Vec::new()).await, &entry.input) {
            (Ok(handle), _) if handle.run_id() == run_id => {}
            // Another run continues instead. It gets nothing else that was meant for this one, since it has other
            // sub-agents.
            (Ok(next), InboxInput::Cancelled(cancelled)) if cancelled.agent == AgentId::ROOT => {
                next.link
                    .sent_by(cancelled.by.clone())
                    .cancel(&cancelled.reason);
            }
            (Ok(_), _) => return Err(ResumeError::Ended(run_id)),
            (Err(ResumeError::Closed { .. }), InboxInput::Cancelled(_)) => {}
            (Err(ResumeError::Elsewhere { .. }), InboxInput::Cancelled(cancelled))
                if cancelled.agent == AgentId::ROOT =>
            {
                self.close_elsewhere(run_id, &cancelled.reason).await?;
            }
            // Otherwise the caller would be told that the run ends or continues, and it never would.
            (Err(why @ (ResumeError::Closed { .. } | ResumeError::Altered { .. })), _) => {
                return Err(why);
            }
            (Err(ResumeError::AtWork(_) | ResumeError::NothingToDo), _) => {}
            // Another process drives it and checks the inbox by itself.
            (Err(ResumeError::Store(StoreError::SessionBusy { .. })), _) => {}
            (Err(ResumeError::Ended(ended)), _) => {
                // The input came while the end was being stored. Unless the run took it before, it never will be.
                let records = self.parts.store.records(run_id, Seq(0)).await?;
                let mut taken = records.iter().filter_map(|record| record.inbox_id());
                if !taken.any(|taken| taken == entry.id) {
                    return Err(ResumeError::Ended(ended));
                }
            }
            (Err(error), _) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(run = %run_id, error, "the input is stored, but the run does not continue here");
            }
        }
        Ok(())
    }

    /// Delivers an input that may not be stored directly to a run in progress in this process; returns `false` if it
    /// must go through the store. No other process could continue such a run, so if this process dies the input is lost
    /// either way.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Ended`]; [`StoreError::InboxFull`] if the run cannot accept the input now.
    pub(crate) fn deliver_unstored(
        &self,
        run: RunId,
        input: &InboxInput,
    ) -> Result<bool, ResumeError> {
        let Reachability::Here(handle) = self.reach(run) else {
            return Ok(false);
        };
        let driven_here = handle.link.feed.driven_here();
        if driven_here.is_none_or(|here| here.policy == DataPolicy::ALL) {
            return Ok(false);
        }
        match handle.link.send(input.input()) {
            Ok(()) => Ok(true),
            Err(NotAccepted::Parked) => Ok(false),
            Err(NotAccepted::Ended) => Err(ResumeError::Ended(run)),
            Err(NotAccepted::Busy) => Err(StoreError::InboxFull(run).into()),
        }
    }

    /// Refuses an input for a run of an altered session before storing it: the run would otherwise take it once the
    /// session is intact again, although its sender was told that it was refused.
    async fn check_unaltered_for(&self, run: RunId, input: &InboxInput) -> Result<(), ResumeError> {
        // No caller waits for the result of an expiry, and storing it avoids trying it repeatedly. Runs in progress
        // here proceed without a check.
        let is_expiry = matches!(input, InboxInput::ApprovalDecided(decided) if decided.decision == ApprovalDecision::Expired);
        let is_here = !matches!(self.reach(run), Reachability::Absent);
        if self.parts.verified.is_none() || is_expiry || is_here {
            return Ok(());
        }
        let run = self.parts.store.run(run).await?;
        match run.ended_at {
            Some(_) => Ok(()),
            None => self.refuse_altered(&run.session).await,
        }
    }

    /// Ends a run, whichever process drives it: its open calls get results, and its history stays valid. A run that no
    /// process drives is resumed to process the cancellation; one that works in another folder is ended as interrupted.
    /// The run may not have ended yet when this returns.
    ///
    /// # Errors
    ///
    /// Same as [`post`](Self::post).
    ///
    /// # Cancel safety
    ///
    /// Same as [`post`](Self::post).
    pub async fn cancel(
        &self,
        run_id: RunId,
        reason: impl Into<String>,
    ) -> Result<(), ResumeError> {
        let cancelled = Cancelled::new(self.new_input_id(), reason).by(self.by.clone());
        self.post(run_id, InboxInput::Cancelled(cancelled)).await
    }

    /// Adds a user message to a run, whichever process drives it. The message joins the conversation after the current
    /// batch of tool calls. Returns the id that its record has.
    ///
    /// # Errors
    ///
    /// Same as [`post`](Self::post).
    ///
    /// # Cancel safety
    ///
    /// Same as [`post`](Self::post).
    pub async fn steer(
        &self,
        run_id: RunId,
        message: impl Into<String>,
    ) -> Result<InputId, ResumeError> {
        let message = Arc::new(Message::user(message));
        let steered = Steered::new(self.new_input_id(), message).by(self.by.clone());
        let id = steered.id.clone();
        self.post(run_id, InboxInput::Steered(steered)).await?;
        Ok(id)
    }

    /// Supplies a run with the result of a tool that its client runs, whichever process drives it.
    ///
    /// # Errors
    ///
    /// [`ResumeError::NotWaiting`] if no such call was handed to the client, or another result was supplied before;
    /// otherwise same as [`post`](Self::post).
    ///
    /// # Cancel safety
    ///
    /// Same as [`post`](Self::post).
    pub async fn supply_result(
        &self,
        run_id: RunId,
        call: &ToolCallId,
        outcome: ToolOutcome,
        duration: Duration,
    ) -> Result<(), ResumeError> {
        // Only the owner may find out whether a call waits.
        self.check_owner_of(run_id).await?;
        let records = self.parts.store.records(run_id, Seq(0)).await?;
        let mut finished = client_finished(&records, call, outcome, duration)
            .ok_or_else(|| ResumeError::NotWaiting(call.clone()))?;
        finished.by.clone_from(&self.by);
        let input = InboxInput::ClientResult(finished.into());
        match self.post(run_id, input).await {
            // Another result was supplied before, which the run has not received yet.
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
