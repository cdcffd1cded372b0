//! Has a draft checked by a model before it becomes the answer. A check that fails, says nothing or comes too late lets
//! the draft stand.

use std::sync::Arc;

use crate::decision::{Checked, SelfCheck, TakesOver};
use crate::effect::{ModelRequest, Purpose};
use crate::finish::FinishReason;
use crate::ids::AgentId;
use crate::message::Message;
use crate::profile::Offer;
use crate::record::{PromptReason, RecordBody, Summarized, Warning};
use crate::reply::{Reply, ReplyFinish};
use crate::run::RunTree;
use crate::run::agent::{Agent, ModelCall, OfferedTools, Phase, PlannedCall};
use crate::run::draft::Draft;
use crate::run::tool_markup::is_tool_call_markup;
use crate::transcript::Transcript;

/// What the larger role is told whose turn it is after a check turned a draft down.
const ANSWER_AGAIN: &str = "A check turned the last draft down; the answer above is a correction that may still be wrong. \
     Answer the request again, on your own.";

impl RunTree {
    /// Tells whether the answer of this agent is checked before a person sees it.
    pub(super) fn checks_drafts(&self, id: AgentId) -> bool {
        let checks = self.ways(id).is_some_and(|ways| ways.self_check.is_some());
        // A correction would not have the form that was asked for.
        checks && self.agent_spec(id).reply_format.is_text()
    }

    /// Has a draft checked; false if it is the answer as it is.
    pub(super) fn ask_check(&mut self, draft: &mut Draft, id: AgentId, text: &str) -> bool {
        if text.trim().is_empty() || !self.checks_drafts(id) {
            return false;
        }
        if self.short_of(id).is_some() {
            let warning = Warning {
                code: "not_checked".to_owned(),
                message: "the draft is not checked: the budget would not last".to_owned(),
            };
            self.record(draft, id, None, RecordBody::Warning(Box::new(warning)));
            return false;
        }
        let Some(checker) = self.checker(id) else {
            return false;
        };
        let spec = self.agent_spec(id);
        let showed = spec.profile.offer != Offer::Never && spec.gather_tool().is_none();
        let tools = if showed {
            OfferedTools::Shown
        } else {
            OfferedTools::None
        };
        let planned = PlannedCall::new(Purpose::SelfCheck, checker, tools);
        self.begin_call(draft, id, planned, None);
        true
    }

    fn checker(&self, id: AgentId) -> Option<crate::ids::Role> {
        let ways = self.ways(id)?;
        let taken_over = ways.larger.as_ref().or(ways.chosen.as_ref());
        let role = taken_over.or_else(|| Some(&ways.self_check.as_ref()?.role));
        role.cloned()
    }

    /// The messages of the check that are not part of the conversation.
    pub(super) fn check_prompt(&self, id: AgentId) -> Vec<Arc<Message>> {
        let check = self.ways(id).and_then(|ways| ways.self_check.as_ref());
        let prompt = check.map(|check| Arc::new(Message::system(check.prompt.as_str())));
        Vec::from_iter(prompt)
    }

    /// Turns the request of a turn into that of a check: the conversation with its draft, and what is to be done with it.
    pub(super) fn check_request(&self, agent: &Agent, request: ModelRequest) -> ModelRequest {
        let conversation = agent.transcript.messages().iter().cloned();
        let messages: Transcript = conversation.chain(self.check_prompt(agent.id)).collect();
        ModelRequest {
            messages,
            ..request
        }
    }

    /// The check came, or did not.
    pub(super) fn checked(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ModelCall,
        reply: Option<&Reply>,
    ) {
        let may_go_on = self.agent(id).is_some_and(|agent| agent.closing.is_none());
        let takes_over = match reply.map(checked) {
            None => TakesOver::Nobody,
            Some(Checked::Accepted) => {
                self.succeeded(id);
                self.sum_up(draft, id, call, "The draft was checked and stands.");
                TakesOver::Nobody
            }
            Some(Checked::Corrected(text)) => {
                self.correct(id, &text);
                self.sum_up(draft, id, call, "The draft was checked and corrected.");
                if may_go_on {
                    self.failed(draft, id)
                } else {
                    TakesOver::Nobody
                }
            }
        };
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        match takes_over {
            TakesOver::Role(_) => {
                self.tell(
                    draft,
                    id,
                    PromptReason::DraftCorrected,
                    ANSWER_AGAIN.to_owned(),
                );
                if let Some(agent) = self.agent_mut(id) {
                    agent.join_steered();
                }
                self.go_on(draft, id);
            }
            TakesOver::Person => self.ask_person(draft, id),
            TakesOver::Nobody if may_go_on && !agent.steered.is_empty() => {
                agent.join_steered();
                self.go_on(draft, id);
            }
            TakesOver::Nobody => self.draft_stands(draft, id),
        }
    }

    /// Ends the agent with its draft, or with what a check made of it.
    pub(super) fn draft_stands(&mut self, draft: &mut Draft, id: AgentId) {
        let last = self
            .agent(id)
            .and_then(|agent| agent.transcript.messages().last());
        let text = last.map(|message| message.text()).unwrap_or_default();
        self.finish(draft, id, FinishReason::Stop, text);
    }

    /// Ends the agent with its draft if that is being checked, because there is no time for it; false if it is not.
    pub(super) fn give_up_check(&mut self, draft: &mut Draft, id: AgentId) -> bool {
        let Some(Phase::Model(call)) = self.agent(id).map(|agent| &agent.phase) else {
            return false;
        };
        if call.planned.purpose != Purpose::SelfCheck {
            return false;
        }
        self.cancel_model_call(draft, id);
        self.draft_stands(draft, id);
        true
    }

    fn sum_up(&mut self, draft: &mut Draft, id: AgentId, call: &ModelCall, text: &str) {
        let text = text.to_owned();
        let summed = RecordBody::Summary(Box::new(Summarized { text }));
        self.record(draft, id, Some(call.content_index), summed);
    }

    /// Puts a correction in the place of the draft: it is what the user is told.
    fn correct(&mut self, id: AgentId, correction: &str) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let draft = agent.transcript.messages().last();
        let draft = draft.map(|message| message.text()).unwrap_or_default();
        agent.transcript = corrected(agent.transcript.messages(), correction);
        // The correction stands in the record of the check.
        agent.recorded = agent.transcript.digest();
        if let Some(before) = agent.text.strip_suffix(draft.trim()) {
            let length = before.trim_end().len();
            agent.text.truncate(length);
        }
        agent.gather_text(correction);
    }
}

/// Reads what a check said. One that was cut off, or calls tools instead, says nothing.
pub(crate) fn checked(reply: &Reply) -> Checked {
    let text = reply.text();
    let is_whole = reply.finish == ReplyFinish::Stop && reply.calls().next().is_none();
    SelfCheck::read(Some(text.as_str()).filter(|text| is_whole && !is_tool_call_markup(text)))
}

/// Returns a conversation with a correction in the place of its last message.
pub(crate) fn corrected(messages: &[Arc<Message>], correction: &str) -> Transcript {
    let before = messages.len().saturating_sub(1);
    let before = messages.iter().take(before).cloned();
    let correction = Arc::new(Message::assistant(correction));
    before.chain([correction]).collect()
}
