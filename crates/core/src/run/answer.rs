//! Has an answer checked before an agent ends with it. If it is rejected, the model is told and answers again, up to a
//! maximum number of times.
//!
//! The machine cannot tell whether a text has the requested form, so it asks the driver, in the same way as it consults
//! a hook. An answer that a tool delivers is checked like the arguments of any call.

use super::Next;
use super::agent::{Agent, ConsultedAbout};
use super::agent_step::AgentStep;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::json::JsonText;
use crate::message::Message;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::Hook;
use crate::record::{Origin, PromptReason, ToolResult};
use crate::spec::{AgentSpec, AnswerRule};

impl AgentStep<'_> {
    /// The agent is about to end with a text. It does, unless the text must be examined first. An answer that the
    /// provider withheld is not examined, and at a limit there is no time for another answer.
    pub(super) fn answered(&mut self, reason: FinishReason, text: String) -> Next {
        let is_answer = matches!(reason, FinishReason::Stop | FinishReason::Length);
        let is_examined = is_answer && self.agent.closing.is_none() && self.consults(Hook::Answer);
        match is_examined {
            true => self.ask_hook(ConsultedAbout::Answer(reason, text)),
            false => Next::Finish(reason, text),
        }
    }

    /// Handles an accepted answer. A message that arrived in the meantime must be answered first.
    pub(super) fn accept_answer(&mut self, reason: FinishReason, text: String) -> Next {
        if self.agent.conversation.is_steered() {
            return self.ask_again(self.texts.notes.message_came.to_owned());
        }
        Next::Finish(reason, text)
    }

    /// Handles a rejected answer: the model is told why, unless its attempts are used up.
    pub(super) fn turn_down(
        &mut self,
        reason: FinishReason,
        text: String,
        message: String,
    ) -> Next {
        if !self.agent.use_retry(self.spec) {
            let reason = match reason {
                // The limit is the reason, whatever is wrong with the text.
                FinishReason::Length => reason,
                _ => FinishReason::InvalidAnswer(message),
            };
            return Next::Finish(reason, text);
        }
        self.ask_again(message)
    }

    /// Handles a reply of a turn that the program's code rejected: none of its calls runs, and the model is told why,
    /// unless its attempts are used up.
    pub(super) fn reply_turned_down(
        &mut self,
        message: &Message,
        reason: &str,
    ) -> Result<Next, InputError> {
        let calls = message.tool_calls().next().is_some();
        let may_retry = self.agent.closing.is_none() && self.agent.use_retry(self.spec);
        if calls {
            self.begin_batch(message, Origin::Model);
            self.batch()?.turned_down = true;
            let why = (self.texts.calls.reply_turned_down)(reason);
            self.settle_all(&ToolOutcome::failed(ToolFailure::Denied, &why))?;
        } else {
            self.agent.turns_used = self.agent.turns_used.saturating_add(1);
        }
        if !may_retry {
            self.join_results();
            let reason = FinishReason::InvalidAnswer(reason.to_owned());
            return Ok(Next::Finish(reason, self.agent.text()));
        }
        Ok(match calls {
            true => Next::Schedule,
            false => self.ask_again(reason.to_owned()),
        })
    }

    /// Notes that a call was meant to deliver the answer but has invalid arguments, unless another call of its batch
    /// delivered.
    pub(super) fn note_undelivered(&mut self, result: &ToolResult, arguments: &JsonText) {
        let is_refused = result.failure == Some(ToolFailure::InvalidArguments);
        if is_refused && self.agent.ending.is_none() && self.spec.is_delivered_by(&result.name) {
            let why = result.value.error_message().unwrap_or_default();
            let ending = (
                FinishReason::InvalidAnswer(why),
                arguments.as_str().to_owned(),
            );
            self.agent.ending = Some(ending);
        }
    }

    fn ask_again(&mut self, message: String) -> Next {
        self.inject_prompt(PromptReason::AnswerAgain, message);
        self.agent.conversation.join_steered();
        Next::Continue
    }
}

impl Agent {
    /// Returns whether the model may try again after a batch that ended this way: its call has a result that says what
    /// is wrong.
    pub(super) fn may_deliver_again(&mut self, spec: &AgentSpec, reason: &FinishReason) -> bool {
        matches!(reason, FinishReason::InvalidAnswer(_)) && self.use_retry(spec)
    }

    /// Counts another rejected answer. Returns whether the model may answer again.
    fn use_retry(&mut self, spec: &AgentSpec) -> bool {
        let most = spec.answer.as_ref().map(|rule| rule.retries);
        let may = self.turned_down < most.unwrap_or(AnswerRule::RETRIES);
        self.turned_down = self.turned_down.saturating_add(u32::from(may));
        may
    }
}

/// Returns whether a batch of an agent that must deliver ended with its answer.
pub(super) fn is_delivered(spec: &AgentSpec, ending: &(FinishReason, String)) -> bool {
    ending.0 == FinishReason::Stop && spec.delivering_tool().is_some()
}
