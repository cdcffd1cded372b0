//! Checks answers against their schema: the arguments of the tool that delivers an answer, and the text of a reply that
//! should be one.

use neuraxis_core::{
    Advice, AgentId, CallToVet, Consult, FINAL_ANSWER, FinishReason, Hook, ToolClass, Vetting,
};
use serde::Deserialize;

use crate::answer;
use crate::driver::Driver;

/// The subject of a question about an answer.
#[derive(Deserialize)]
struct CheckedAnswer {
    text: String,
    finish_reason: FinishReason,
}

impl Driver {
    /// Returns whether a call delivers the answer of its agent. Such a call does nothing else, so it needs no
    /// permission: the policy would not know it, and no user is asked.
    pub(super) fn is_delivery(&self, agent: AgentId, tool: &str) -> bool {
        tool == FINAL_ANSWER && self.tree.agent_spec(agent).is_delivered_by(tool)
    }

    /// Checks a call that delivers the answer; `None` if it is another call.
    pub(super) fn vet_delivery(&self, call: &CallToVet, agent: AgentId) -> Option<Vetting> {
        if !self.is_delivery(agent, &call.name) {
            return None;
        }
        let schema = self.tree.agent_spec(agent).answer_schema()?;
        Some(match answer::read(schema, call.arguments.as_str()) {
            Ok(_) => Vetting::run(ToolClass::ReadOnly),
            Err(fault) => Vetting::Invalid {
                message: fault.to_string(),
            },
        })
    }

    /// Checks the text with which an agent would end; `None` if it fits, or no schema was requested.
    pub(super) fn check_answer(&self, question: &Consult) -> Option<Advice> {
        if question.hook != Hook::Answer {
            return None;
        }
        let spec = self.tree.agent_spec(question.agent);
        let schema = spec.answer_schema()?;
        let checked: CheckedAnswer = question.subject.decode().ok()?;
        let fault = answer::read(schema, &checked.text).err()?;
        let shorter = match checked.finish_reason {
            FinishReason::Length => " It was cut off at the limit on its length: be shorter.",
            _ => "",
        };
        let how = match spec.delivering_tool() {
            Some(tool) => format!("Give your answer by calling {}.", tool.name),
            None => "Answer again, with nothing but one JSON object that fits the schema you were given."
                .to_owned(),
        };
        let message = format!("This is no answer yet: {fault}.{shorter} {how}");
        Some(Advice::TurnDown { message })
    }
}
