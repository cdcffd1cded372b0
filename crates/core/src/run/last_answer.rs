//! How a limit ends: with one more model call that may not use tools (loop rules 6 and 10).

use crate::effect::Purpose;
use crate::finish::{BudgetKind, FinishReason};
use crate::ids::AgentId;
use crate::message::Message;
use crate::profile::{LimitReached, Offer};
use crate::record::{
    LimitKind, LimitReachedRecord, MaxTurnsPromptInjected, MaxTurnsReached, RecordBody,
};
use crate::reply::Reply;
use crate::run::RunTree;
use crate::run::agent::{ModelCall, OfferedTools, PlannedCall};
use crate::run::draft::Draft;
use crate::run::tool_markup::is_tool_call_markup;

/// What the model is told when the turn limit is reached, word for word as the requirements have it.
pub const MAX_TURNS_PROMPT: &str = "You have reached the maximum number of turns. Please provide an answer based \
     on the information you have gathered so far.";

impl RunTree {
    /// Brings an agent to its end because of a limit: records the limit and asks for a last answer, unless the profile
    /// wants none.
    pub(super) fn close(&mut self, draft: &mut Draft, id: AgentId, reason: &FinishReason) {
        let asks = self.agent_spec(id).profile.limit_reached == LimitReached::LastAnswer;
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.closing = Some(reason.clone());
        let (turns, content) = (agent.turns_used, agent.text.clone());
        if *reason == FinishReason::MaxTurns {
            let reached = MaxTurnsReached { turns, content };
            self.record(
                draft,
                id,
                None,
                RecordBody::MaxTurnsReached(Box::new(reached)),
            );
            if asks {
                let injected = MaxTurnsPromptInjected {
                    message: self.inject_limit_prompt(id, reason),
                };
                self.record(
                    draft,
                    id,
                    None,
                    RecordBody::MaxTurnsPromptInjected(Box::new(injected)),
                );
            }
        } else {
            let prompt = asks.then(|| self.inject_limit_prompt(id, reason));
            let reached = LimitReachedRecord {
                limit: limit_kind(reason),
                content,
                prompt,
            };
            self.record(draft, id, None, RecordBody::LimitReached(Box::new(reached)));
        }
        if asks {
            self.ask_last_answer(draft, id);
        } else {
            self.finish_with_what_there_is(draft, id);
        }
    }

    fn ask_last_answer(&mut self, draft: &mut Draft, id: AgentId) {
        let spec = self.agent_spec(id);
        // A request that offered no tools so far has no prefix to keep by showing them now.
        let showed = spec.profile.offer != Offer::Never && spec.gather_tool().is_none();
        let tools = if !showed {
            OfferedTools::None
        } else {
            OfferedTools::Shown
        };
        let role = self.own_role(id);
        self.call_model(
            draft,
            id,
            PlannedCall::new(Purpose::LastAnswer, role, tools),
        );
    }

    /// Appends the system message that asks for the last answer, and returns it.
    fn inject_limit_prompt(&mut self, id: AgentId, reason: &FinishReason) -> String {
        let prompt = limit_prompt(reason);
        if let Some(agent) = self.agent_mut(id) {
            agent.transcript.push(Message::system(prompt.as_str()));
        }
        prompt
    }

    /// The last answer came: take it, or ask once more without tools, or fall back on what there is.
    pub(super) fn last_answer_replied(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ModelCall,
        reply: &Reply,
    ) {
        let text = reply.text();
        let usable = is_answer(&text);
        let nothing_but_calls =
            !usable && (reply.calls().next().is_some() || is_tool_call_markup(&text));
        if usable {
            self.finish_last_answer(draft, id, text);
        } else if nothing_but_calls && call.planned.tools == OfferedTools::Shown {
            let role = self.own_role(id);
            let without = PlannedCall::new(Purpose::LastAnswer, role, OfferedTools::None);
            self.call_model(draft, id, without);
        } else {
            self.finish_with_what_there_is(draft, id);
        }
    }

    /// Ends an agent without a usable last answer: with its text so far, or a sentence that names the limit.
    pub(super) fn finish_with_what_there_is(&mut self, draft: &mut Draft, id: AgentId) {
        let text = self
            .agent(id)
            .map(|agent| agent.text.clone())
            .unwrap_or_default();
        let content = if text.is_empty() {
            self.limit_sentence(id)
        } else {
            text
        };
        self.finish_last_answer(draft, id, content);
    }

    fn finish_last_answer(&mut self, draft: &mut Draft, id: AgentId, content: String) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        // What the user was told last stands in the history, wherever it came from.
        agent.transcript.push(Message::assistant(content.as_str()));
        let reason = agent.closing.clone().unwrap_or(FinishReason::MaxTurns);
        self.finish(draft, id, reason, content);
    }

    fn limit_sentence(&self, id: AgentId) -> String {
        let reason = self.agent(id).and_then(|agent| agent.closing.as_ref());
        format!(
            "I reached {} before I could give an answer.",
            reason.map_or("my limit", limit_name)
        )
    }
}

/// Tells whether a reply is what was asked for when a limit was reached: some text, and no tool call written as text. What is
/// shown of one that is not is void.
#[must_use]
pub fn is_last_answer(reply: &Reply) -> bool {
    is_answer(&reply.text())
}

fn is_answer(text: &str) -> bool {
    !text.trim().is_empty() && !is_tool_call_markup(text)
}

fn limit_prompt(reason: &FinishReason) -> String {
    if *reason == FinishReason::MaxTurns {
        return MAX_TURNS_PROMPT.to_owned();
    }
    let limit = limit_name(reason);
    format!(
        "You have reached {limit}. Please provide an answer based on the information you have gathered so far, \
         without calling any more tools."
    )
}

pub(super) const fn limit_kind(reason: &FinishReason) -> LimitKind {
    match reason {
        FinishReason::Budget(BudgetKind::ToolCalls) => LimitKind::ToolCalls,
        FinishReason::Budget(BudgetKind::Tokens) => LimitKind::Tokens,
        FinishReason::Budget(BudgetKind::Cost) => LimitKind::Cost,
        FinishReason::Budget(BudgetKind::Time) => LimitKind::Time,
        FinishReason::Budget(BudgetKind::ModelCalls) => LimitKind::ModelCalls,
        FinishReason::Budget(BudgetKind::UnknownTools) => LimitKind::UnknownTools,
        FinishReason::Budget(BudgetKind::RepeatedCalls) => LimitKind::RepeatedCalls,
        _ => LimitKind::Deadline,
    }
}

const fn limit_name(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::MaxTurns => "the maximum number of turns",
        FinishReason::Deadline => "the time limit",
        FinishReason::Budget(BudgetKind::ToolCalls) => "the maximum number of tool calls",
        FinishReason::Budget(BudgetKind::Tokens) => "the limit on tokens",
        FinishReason::Budget(BudgetKind::Cost) => "the limit on cost",
        FinishReason::Budget(BudgetKind::Time) => "the limit on time",
        FinishReason::Budget(BudgetKind::ModelCalls) => "the maximum number of model calls",
        FinishReason::Budget(BudgetKind::UnknownTools) => {
            "the maximum number of calls to unknown tools"
        }
        FinishReason::Budget(BudgetKind::RepeatedCalls) => {
            "the maximum number of times the same call is made"
        }
        FinishReason::Budget(BudgetKind::Log) => "the limit on what a run may record",
        _ => "a limit",
    }
}
