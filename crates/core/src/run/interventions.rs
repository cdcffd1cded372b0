//! Handles input from outside for a run in progress: a decision about a call, a message (loop rule 16), or a request to
//! end it.

use jiff::Timestamp;

use super::agent::Agent;
use super::agent_step::{AgentStep, StepBuilder};
use super::batch::{Call, CallState};
use super::last_answer::Limit;
use super::{Next, RunTree};
use crate::effect::Approved;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, CallIndex};
use crate::input::{ApprovalDecided, ApprovalDecision, Cancelled, CutOutput, Steered};
use crate::json::JsonText;
use crate::message::Message;
use crate::outcome::ToolFailure;
use crate::record::RecordBody;
use crate::texts::Texts;

impl AgentStep<'_> {
    pub(super) fn approval_decided(
        &mut self,
        mut decided: ApprovalDecided,
    ) -> Result<Next, InputError> {
        let now = self.step.stamp.at;
        let batch = self.batch()?;
        let id = &decided.tool_call_id;
        let index = batch.index_of(id);
        let index = index.ok_or_else(|| InputError::NotWaiting(id.clone()))?;
        let call = batch.call(index)?;
        let CallState::Asking { asked, .. } = &call.state else {
            return Err(InputError::NotWaiting(id.clone()));
        };
        if call.arguments.hash() != decided.arguments_hash {
            return Err(InputError::ApprovalMismatch(id.clone()));
        }
        // A late decision has no effect and is not recorded as the user's. A decision that was accepted in time may
        // arrive late.
        let is_over = |end: Timestamp| end <= now && decided.given_before != Some(end);
        if asked.expires_at.is_some_and(is_over) {
            (decided.decision, decided.by) = (ApprovalDecision::Expired, None);
            (decided.code, decided.given_before) = (None, None);
        }
        let (decision, by) = (decided.decision.clone(), decided.by.clone());
        let (code, given_before) = (decided.code, decided.given_before);
        self.record_in_batch(RecordBody::ApprovalDecided(Box::new(decided)));
        match decision {
            ApprovalDecision::Approve {
                arguments,
                remember,
            } => {
                let approved = Approved {
                    remember,
                    by,
                    code,
                    given_before,
                };
                self.approve(index, arguments, approved)?;
            }
            ApprovalDecision::Deny { reason } => {
                let message = (self.texts.calls.denied_by_user)(reason.as_deref());
                self.refuse(index, ToolFailure::Denied, &message)?;
            }
            ApprovalDecision::Expired => {
                let message = self.texts.calls.not_approved_in_time;
                self.refuse(index, ToolFailure::ApprovalExpired, message)?;
            }
        }
        Ok(Next::Schedule)
    }

    /// Marks a call as approved. The final arguments are always checked: an approval answers an ask, not a deny.
    fn approve(
        &mut self,
        index: CallIndex,
        arguments: Option<JsonText>,
        approved: Approved,
    ) -> Result<(), InputError> {
        let effect_id = self.step.new_effect();
        let call = self.batch()?.call(index)?;
        call.approved = Some(Box::new(approved));
        if let Some(arguments) = arguments {
            call.arguments = arguments;
            call.advised = None;
        }
        call.state = CallState::Vetting { effect_id };
        self.request_vetting(effect_id)
    }

    /// Holds a message until it can join: it must not come between a call and its result.
    pub(super) fn steered(&mut self, steered: Steered) -> Next {
        self.agent.conversation.steer(steered.message.clone());
        self.record(RecordBody::Steered(Box::new(steered)));
        Next::Wait
    }
}

impl Steered {
    /// Checks that the message may steer a run.
    pub(super) fn check(&self) -> Result<(), InputError> {
        match self.message.as_ref() {
            Message::User { .. } => Ok(()),
            _ => Err(InputError::NotFromUser),
        }
    }
}

impl RunTree {
    /// Ends the run, or one of its agents, at any point.
    pub(super) fn cancelled(
        &mut self,
        step: &mut StepBuilder,
        mut cancelled: Cancelled,
    ) -> Result<Next, InputError> {
        let (id, limit) = (cancelled.agent, cancelled.limit);
        let is_root = id == AgentId::ROOT;
        // Only the shown part of an answer stays, and not if a limit ends the run.
        let cut = cancelled.cut.take().filter(|_| limit.is_none());
        let agent = &self.agent_step(id, step)?.agent;
        cancelled.cut = cut.filter(|cut| is_root && agent.is_answering(cut));
        let cut = cancelled.cut.clone();
        let printed = cancelled.printed.clone();
        let record = RecordBody::Cancelled(Box::new(cancelled));
        self.agent_step(id, step)?.record(record);
        for output in printed {
            self.note_printed(output);
        }
        let limit = limit.filter(|_| is_root);
        let texts = &Texts::of(self.state.loop_version).stops;
        let why = match limit {
            Some(_) => texts.limit,
            None if is_root => texts.run_cancelled,
            None => texts.agent_cancelled,
        };
        self.stop_work(step, id, ToolFailure::Cancelled, why)?;
        if let Some(cut) = cut {
            self.agent_step(id, step)?
                .agent
                .conversation
                .push_cut(&cut.text);
        }
        let agent_step = self.agent_step(id, step)?;
        if let Some(limit) = limit {
            // Treated like a limit that leaves no room for a last answer: ends with the text so far.
            agent_step.agent.closing = Some(Limit::Budget(limit));
            return Ok(Next::FinishWithoutAnswer);
        }
        let text = agent_step.agent.text();
        Ok(Next::Finish(FinishReason::Cancelled, text))
    }

    /// Stores the output of a running call for the result that it gets when it is cut off.
    fn note_printed(&mut self, output: CutOutput) {
        let batches = self.agents.iter_mut().filter_map(Agent::batch_mut);
        let mut calls = batches.flat_map(|batch| &mut batch.calls);
        let runs = |call: &&mut Call| matches!(call.state, CallState::Running { begun, .. } if begun.effect_id == output.effect_id);
        if let Some(call) = calls.find(runs) {
            call.printed = Some(output.text);
        }
    }
}
