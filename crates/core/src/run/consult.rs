//! Asks the embedder's hook, at the points of the loop that the profile names.

use serde::Serialize;

use crate::effect::{Consult, Effect};
use crate::ids::AgentId;
use crate::json::JsonText;
use crate::profile::Hook;
use crate::run::RunTree;
use crate::run::agent::{Agent, Consulting, Phase};
use crate::run::batch::Batch;
use crate::run::draft::Draft;

/// What a hook is told.
#[derive(Serialize)]
#[serde(untagged)]
enum Subject<'a> {
    ToolsSelected {
        tools: Vec<&'a str>,
    },
    Progress {
        turns_used: u32,
        tool_calls: u32,
        text: &'a str,
    },
    ProcessCalls {
        calls: Vec<CallSubject<'a>>,
    },
}

#[derive(Serialize)]
struct CallSubject<'a> {
    tool_call_id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl RunTree {
    /// Asks the hook, if the profile names it; true if it does, so that its advice decides how to go on.
    pub(super) fn consult(&mut self, draft: &mut Draft, id: AgentId, hook: Hook) -> bool {
        if !self.agent_spec(id).profile.hooks.contains(&hook) {
            return false;
        }
        let effect_id = self.new_effect();
        let Some(agent) = self.agent_mut(id) else {
            return false;
        };
        let batch = match std::mem::replace(&mut agent.phase, Phase::Ended) {
            Phase::Tools(batch) => Some(batch),
            _ => None,
        };
        let consulting = Consulting {
            effect_id,
            hook,
            batch,
        };
        agent.phase = Phase::Consulting(consulting.clone());
        draft.effects.extend(self.consult_effect(id, &consulting));
        true
    }

    /// Builds the question, for the first time or after a crash.
    pub(super) fn consult_effect(&self, id: AgentId, consulting: &Consulting) -> Option<Effect> {
        let agent = self.agent(id)?;
        let subject = match consulting.hook {
            Hook::ToolsSelected => Subject::ToolsSelected {
                tools: self
                    .agent_spec(id)
                    .tools
                    .iter()
                    .map(|tool| tool.name.as_str())
                    .collect(),
            },
            Hook::Progress => progress(agent),
            Hook::ProcessCalls => Subject::ProcessCalls {
                calls: calls(consulting.batch.as_ref()?),
            },
        };
        Some(Effect::Consult(Consult {
            effect_id: consulting.effect_id,
            agent: id,
            hook: consulting.hook,
            // Names, numbers and texts: encoding them cannot fail.
            subject: JsonText::encode(&subject).unwrap_or_else(|_| JsonText::from_text("{}")),
        }))
    }
}

fn progress(agent: &Agent) -> Subject<'_> {
    Subject::Progress {
        turns_used: agent.turns_used,
        tool_calls: agent.spent.tool_calls,
        text: &agent.text,
    }
}

fn calls(batch: &Batch) -> Vec<CallSubject<'_>> {
    let calls = batch.calls.iter().map(|call| CallSubject {
        tool_call_id: call.id.as_str(),
        name: &call.name,
        arguments: call.arguments.as_str(),
    });
    calls.collect()
}
