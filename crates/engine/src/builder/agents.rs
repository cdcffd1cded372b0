//! Adds the agents of a program to an engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_brainstem::Policy;
use neuraxis_core::AgentName;

use super::build::Keeping;
use super::{BuildError, OrchestratorBuilder};
use crate::agent::{AgentSet, Definition};
use crate::answer::AnswerSchema;
use crate::engine::Engine;

/// How an orchestrator uses an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Requests may ask for it, and agents that name it call it.
    ByName,
    /// Same as `ByName`, and every agent may also be offered its tool.
    AsTool,
    /// The engine exists only to run this agent.
    Alone,
}

/// Collects agents together with the agents that they call.
pub(super) fn agent_set(agents: &[(Arc<Definition>, Use)]) -> Result<AgentSet, BuildError> {
    let mut set = AgentSet::default();
    for (agent, by) in agents {
        set.add(agent)?;
        let name = agent.name.clone();
        match by {
            Use::ByName => {}
            Use::AsTool => set.share(name),
            Use::Alone => set.lead(name),
        }
    }
    Ok(set)
}

/// Reads the answer schemas of all agents of a policy that have one.
pub(super) fn answers(policy: &Policy) -> Result<BTreeMap<AgentName, AnswerSchema>, BuildError> {
    let mut answers = BTreeMap::new();
    for name in policy.agents() {
        let Some(config) = policy.agent(name).map(|agent| &agent.answer) else {
            continue;
        };
        if let Some(schema) = AnswerSchema::of_config(config) {
            let agent = name.clone();
            let schema = schema.map_err(|source| BuildError::Answer { agent, source })?;
            answers.insert(name.clone(), schema);
        }
    }
    Ok(answers)
}

/// Builds the engine for an agent that runs alone; `None` if the agent has no model of its own.
pub(crate) fn alone(definition: &Arc<Definition>) -> Result<Option<Engine>, BuildError> {
    let agents = vec![(Arc::clone(definition), Use::Alone)];
    if definition.model.is_none() {
        let set = agent_set(&agents)?;
        // Only the orchestrator that adds the agent knows which other roles exist.
        let policy = Policy::built_in().with_agents(set.definitions(), set.roles())?;
        answers(&policy)?;
        return Ok(None);
    }
    let builder = OrchestratorBuilder {
        agents,
        ..OrchestratorBuilder::default()
    };
    builder.engine(Keeping::Nothing).map(Some)
}
