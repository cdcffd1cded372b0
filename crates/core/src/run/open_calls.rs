//! The calls of a run that have no result yet, as they are shown to whoever is to let it go on.

use std::sync::Arc;

use crate::ids::{AgentId, ToolCallId};
use crate::json::JsonText;
use crate::run::RunTree;
use crate::run::batch::{Before, CallState};

/// A tool call that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenCall {
    /// The agent that calls.
    pub agent: AgentId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The final arguments, as far as it has come.
    pub arguments: JsonText,
    /// How far it has come.
    pub stage: CallStage,
}

/// How far a call has come that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStage {
    /// It is still to be checked.
    Unchecked,
    /// It waits for a person.
    Asking,
    /// It was found fit to run and waits for its turn.
    Ready,
    /// It has begun.
    Begun,
}

impl RunTree {
    /// Returns the calls of all agents that have no result yet.
    #[must_use]
    pub fn open_calls(&self) -> Vec<OpenCall> {
        let mut open = Vec::new();
        for agent in &self.agents {
            for call in agent.batch().into_iter().flat_map(|batch| &batch.calls) {
                let stage = match (&call.state, call.before) {
                    (CallState::Settled { .. } | CallState::HandedOver, _) => continue,
                    (_, Some(Before::Begun { .. }))
                    | (CallState::Running { .. } | CallState::Delegated { .. }, _) => {
                        CallStage::Begun
                    }
                    (CallState::New | CallState::Vetting { .. }, _) => CallStage::Unchecked,
                    (CallState::Asking { .. }, _) => CallStage::Asking,
                    (CallState::Ready { .. }, _) => CallStage::Ready,
                };
                open.push(OpenCall {
                    agent: agent.id,
                    tool_call_id: call.id.clone(),
                    name: Arc::clone(&call.name),
                    arguments: call.arguments.clone(),
                    stage,
                });
            }
        }
        open
    }
}
