//! How an agent ends at a limit: with one more model call that may not use tools (loop rules 6 and 10).

use std::sync::Arc;

use super::Next;
use super::agent::{Agent, ModelCall, OfferedTools, PlannedCall};
use super::agent_step::AgentStep;
use crate::effect::Purpose;
use crate::error::InputError;
use crate::finish::{BudgetKind, FinishReason};
use crate::log::root_records;
use crate::profile::LimitReached;
use crate::record::{
    LimitKind, LimitReachedRecord, MaxTurnsPromptInjected, MaxTurnsReached, Record, RecordBody,
};
use crate::reply::Reply;
use crate::spec::AgentSpec;
use crate::texts::{LimitTexts, MAX_TURNS_PROMPT, Texts};

/// Openings of tool calls that models write as text, by model family: servers leave them unparsed when tools may not be
/// called. This is a constant because a log must lead to the same run regardless of the provider's adapter.
const TOOL_CALL_MARKUP: [&str; 8] = [
    "<tool_call",
    "<function_call",
    "<function=",
    "<|tool_call",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "<｜DSML｜",
    "<|DSML|",
];

/// A limit that ends an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Turns,
    Deadline,
    Budget(BudgetKind),
}

impl Limit {
    /// Returns the finish reason of an agent that ends at this limit.
    const fn reason(self) -> FinishReason {
        match self {
            Self::Turns => FinishReason::MaxTurns,
            Self::Deadline => FinishReason::Deadline,
            Self::Budget(kind) => FinishReason::Budget(kind),
        }
    }

    fn name(self, texts: &LimitTexts) -> &'static str {
        match self {
            Self::Turns => texts.turns,
            Self::Deadline => texts.deadline,
            Self::Budget(kind) => (texts.budget)(kind),
        }
    }

    fn prompt(self, texts: &LimitTexts) -> String {
        match self {
            Self::Turns => MAX_TURNS_PROMPT.to_owned(),
            Self::Deadline | Self::Budget(_) => (texts.prompt)(self.name(texts)),
        }
    }
}

impl AgentStep<'_> {
    /// Begins the end of an agent because of a limit: records the limit and asks for a last answer, unless the profile
    /// wants none or the agent began with nothing left.
    pub(super) fn ask_last_answer(&mut self, limit: Limit) -> Next {
        self.agent.closing = Some(limit);
        let asks = self.spec.profile.limit_reached == LimitReached::LastAnswer
            && !self.began_without_budget();
        let prompt = asks.then(|| limit.prompt(&self.texts.limits));
        if let Some(prompt) = &prompt {
            self.agent.conversation.add_system_note(prompt);
        }
        match limit {
            Limit::Turns => {
                let (turns, content) = (self.agent.turns_used, self.agent.text());
                let reached = Box::new(MaxTurnsReached { turns, content });
                self.record(RecordBody::MaxTurnsReached(reached));
                if let Some(message) = prompt {
                    let injected = Box::new(MaxTurnsPromptInjected { message });
                    self.record(RecordBody::MaxTurnsPromptInjected(injected));
                }
            }
            Limit::Deadline => self.record_limit(LimitKind::Deadline, prompt),
            Limit::Budget(kind) => self.record_limit(LimitKind::Budget(kind), prompt),
        }
        if asks {
            let tools = OfferedTools::not_to_be_called(self.spec);
            self.agent.last_answer_call(self.spec, tools)
        } else {
            Next::FinishWithoutAnswer
        }
    }

    /// Returns whether the agent has called no model yet and the agents above it do not even have enough left for its
    /// last answer: the call would exceed their budget, and the agent has nothing to report.
    fn began_without_budget(&self) -> bool {
        self.state.loop_version >= 2
            && self.agent.model_calls == 0
            && self.budgets().parents_exhausted()
    }

    pub(super) fn record_limit(&mut self, limit: LimitKind, prompt: Option<String>) {
        let content = self.agent.text();
        let reached = LimitReachedRecord {
            limit,
            content,
            prompt,
        };
        self.record(RecordBody::LimitReached(Box::new(reached)));
    }
}

impl Agent {
    fn last_answer_call(&self, spec: &AgentSpec, tools: OfferedTools) -> Next {
        let role = self.own_role(spec).clone();
        Next::CallModel(PlannedCall::new(Purpose::LastAnswer, role, tools))
    }

    /// Handles the last answer: accepts it, asks once more without tools, or falls back on the text so far.
    pub(super) fn last_answer_replied(
        &mut self,
        spec: &AgentSpec,
        call: &ModelCall,
        reply: &Reply,
    ) -> Result<Next, InputError> {
        if reply.turned_down().is_some() {
            // There is no time for another.
            return Ok(Next::FinishWithoutAnswer);
        }
        // A model that delivers although it may not call tools has still answered.
        let delivered = reply.calls().find(|call| spec.is_delivered_by(&call.name));
        if let Some(call) = delivered {
            return self.finish_last_answer(call.arguments.as_str().to_owned());
        }
        let text = reply.text();
        let is_markup = is_tool_call_markup(&text);
        if !is_markup && !text.trim().is_empty() {
            return self.finish_last_answer(text);
        }
        let nothing_but_calls = is_markup || reply.calls().next().is_some();
        Ok(
            if nothing_but_calls && call.planned.tools == OfferedTools::Shown {
                self.last_answer_call(spec, OfferedTools::None)
            } else {
                Next::FinishWithoutAnswer
            },
        )
    }

    /// Ends an agent without a usable last answer: with its text so far, or a sentence that names the limit.
    pub(super) fn finish_without_answer(&mut self, texts: &Texts) -> Result<Next, InputError> {
        let text = self.text();
        if !text.is_empty() {
            return self.finish_last_answer(text);
        }
        let limit = self.limit()?.name(&texts.limits);
        self.finish_last_answer((texts.limits.no_answer)(limit))
    }

    fn finish_last_answer(&mut self, content: String) -> Result<Next, InputError> {
        let limit = self.limit()?;
        // The history ends with what the user was told, whatever its source.
        self.conversation.add_answer(&content);
        Ok(Next::Finish(limit.reason(), content))
    }

    fn limit(&self) -> Result<Limit, InputError> {
        let missing = InputError::Inconsistent("a last answer, and no limit was reached");
        self.closing.ok_or(missing)
    }
}

/// Returns whether a reply is usable as a last answer: it has text, and no tool call written as text. If not, whatever
/// was already shown of it is void.
#[must_use]
pub fn is_last_answer(reply: &Reply) -> bool {
    let text = reply.text();
    !text.trim().is_empty() && !is_tool_call_markup(&text) && reply.turned_down().is_none()
}

/// Returns whether the answering agent said anything that remains as the answer of a run that ended at a limit. If it
/// did not, the [outcome](crate::RunOutcome::content) is a generated sentence that names the limit.
#[must_use]
pub fn has_answered(records: &[Arc<Record>]) -> bool {
    root_records(records).any(|record| match &record.body {
        RecordBody::LlmCall(call) if call.purpose == Purpose::Turn => {
            !call.reply.text().trim().is_empty()
        }
        RecordBody::LlmCall(call) if call.purpose == Purpose::LastAnswer => {
            is_last_answer(&call.reply)
        }
        _ => false,
    })
}

/// Returns the answering agent's last reply, in a turn or as its last answer.
#[must_use]
pub fn last_reply(records: &[Arc<Record>]) -> Option<&Reply> {
    let mut latest_first = root_records(records).rev();
    latest_first.find_map(|record| match &record.body {
        RecordBody::LlmCall(call)
            if matches!(call.purpose, Purpose::Turn | Purpose::LastAnswer) =>
        {
            Some(&*call.reply)
        }
        _ => None,
    })
}

/// Returns whether a text is a tool call written out, or has one at the start of a line.
pub(super) fn is_tool_call_markup(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let mut openings = TOOL_CALL_MARKUP.iter();
        openings.any(|opening| line.starts_with(opening))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_calls_written_as_text_are_recognized() {
        for text in [
            "<tool_call>\n{\"name\": \"x\"}\n</tool_call>",
            "Let me look.\n  <tool_call>",
            "[TOOL_CALLS][{}]",
        ] {
            assert!(is_tool_call_markup(text), "{text}");
        }
    }

    #[test]
    fn an_answer_that_only_mentions_tool_calls_is_an_answer() {
        for text in [
            "The model writes <tool_call> around it.",
            "A tool_call is JSON.",
            "",
        ] {
            assert!(!is_tool_call_markup(text), "{text}");
        }
    }
}
