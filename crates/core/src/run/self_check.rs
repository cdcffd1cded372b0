//! Has a model check a draft before it becomes the answer. A check that fails, returns nothing or comes too late
//! accepts the draft.

use std::sync::Arc;

use super::Next;
use super::agent::{Agent, ModelCall, OfferedTools, Phase, PlannedCall};
use super::agent_step::AgentStep;
use super::last_answer::is_tool_call_markup;
use crate::decision::{Checked, SelfCheck, TakesOver};
use crate::effect::Purpose;
use crate::finish::FinishReason;
use crate::message::Message;
use crate::record::{PromptReason, RecordBody, Summarized};
use crate::reply::{Reply, ReplyFinish};
use crate::spec::AgentSpec;
use crate::transcript::Transcript;

impl AgentStep<'_> {
    /// Plans the check of a draft; `None` if the draft becomes the answer unchecked.
    pub(super) fn plan_check(&mut self, text: &str) -> Option<PlannedCall> {
        let check = self.agent.self_check(self.spec)?;
        if text.trim().is_empty() {
            return None;
        }
        if self.budgets().exceeded_by(1).is_some() {
            let message = "the draft is not checked: the budget would not last";
            self.warn("not_checked", message.to_owned());
            return None;
        }
        let governed = self.agent.governed.as_deref()?;
        let checker = governed.role().unwrap_or(&check.role).clone();
        let tools = OfferedTools::not_to_be_called(self.spec);
        Some(PlannedCall::new(Purpose::SelfCheck, checker, tools))
    }

    /// Handles the result of the check of a draft; `None` if the check failed.
    pub(super) fn draft_checked(&mut self, call: &ModelCall, reply: Option<&Reply>) -> Next {
        let may_continue = self.agent.closing.is_none();
        let takes_over = match reply.map(checked) {
            None => TakesOver::Nobody,
            Some(Checked::Accepted) => {
                self.agent.succeeded();
                self.record_summary(call, self.texts.notes.draft_accepted);
                TakesOver::Nobody
            }
            Some(Checked::Corrected(text)) => {
                self.agent.conversation.correct(&text);
                self.record_summary(call, self.texts.notes.draft_corrected);
                if may_continue {
                    self.agent.count_failure();
                    self.take_over()
                } else {
                    TakesOver::Nobody
                }
            }
        };
        match takes_over {
            TakesOver::Role(_) => {
                let again = self.texts.notes.draft_rejected.to_owned();
                self.inject_prompt(PromptReason::DraftCorrected, again);
                self.agent.conversation.join_steered();
                Next::Continue
            }
            TakesOver::Person => Next::FinishWithQuestion,
            TakesOver::Nobody if may_continue && self.agent.conversation.is_steered() => {
                self.agent.conversation.join_steered();
                Next::Continue
            }
            TakesOver::Nobody => Next::FinishWithDraft,
        }
    }

    /// Ends the agent with its draft, or with the check's correction: whichever came last.
    pub(super) fn finish_with_draft(&mut self) -> Next {
        let draft = self.agent.conversation.last_text();
        self.answered(FinishReason::Stop, draft)
    }

    fn record_summary(&mut self, call: &ModelCall, text: &str) {
        let text = text.to_owned();
        let summed = RecordBody::Summary(Box::new(Summarized { text }));
        self.record_at(call.content_index, summed);
    }
}

impl Agent {
    /// Returns how this agent's answer is checked before a user sees it, if it is.
    pub(super) fn self_check(&self, spec: &AgentSpec) -> Option<&SelfCheck> {
        spec.checked_by(self.governed.as_deref()?.self_check.as_ref())
    }

    /// Returns whether its draft is being checked.
    pub(super) fn awaits_check(&self) -> bool {
        matches!(&self.phase, Phase::Model(call) if call.planned.purpose == Purpose::SelfCheck)
    }

    /// Returns the message of the check that is not part of the conversation.
    pub(super) fn check_prompt(&self) -> Option<Arc<Message>> {
        let check = self.governed.as_deref()?.self_check.as_ref()?;
        Some(Arc::new(Message::system(check.prompt.as_str())))
    }

    /// Returns what is sent for a check: the conversation with its draft, and the instructions for the check.
    pub(super) fn with_check_prompt(&self) -> Transcript {
        let conversation = self.conversation.messages().iter().cloned();
        conversation.chain(self.check_prompt()).collect()
    }
}

/// Reads the result of a check. A check that was cut off, or made calls instead, is ignored.
pub(crate) fn checked(reply: &Reply) -> Checked {
    let text = reply.text();
    let is_accepted = reply.turned_down().is_none();
    let is_whole =
        is_accepted && reply.finish == ReplyFinish::Stop && reply.calls().next().is_none();
    SelfCheck::read(Some(text.as_str()).filter(|text| is_whole && !is_tool_call_markup(text)))
}
