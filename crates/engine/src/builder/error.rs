//! Errors of building an orchestrator or an agent.

use std::sync::Arc;

use neuraxis_brainstem::PolicyError;
use neuraxis_core::{AgentName, InvalidId, PlanName};

use crate::answer::AnswerSchemaError;
use crate::catalog::CatalogError;

/// What is missing from, or wrong with, an orchestrator or an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No model was given.
    #[error("no model was given: add one with `model`")]
    NoModel,
    /// No store was given.
    #[error(
        "no session store was given: add one with `store`, or build an agent with `build_agent`"
    )]
    NoStore,
    /// A setting of an agent is invalid.
    #[error(transparent)]
    Agent(#[from] PolicyError),
    /// A rule names a function that the program did not supply.
    #[error("{0}: supply it with `rule_function`")]
    Rule(PolicyError),
    /// The schema of an agent's answer is invalid.
    #[error("the answer schema of agent {agent} cannot be used")]
    Answer {
        /// The agent.
        agent: AgentName,
        /// What is wrong with its schema.
        source: AnswerSchemaError,
    },
    /// Two agents have the same name.
    #[error("two agents are named {0}")]
    DuplicateAgent(AgentName),
    /// An agent has a model of its own and also names a role.
    #[error(
        "agent {0} has both a model and a role: set its own model, or a role whose model the orchestrator supplies, not both"
    )]
    ModelAndRole(AgentName),
    /// A name in an agent's settings is invalid.
    #[error("{given:?} is {rule}")]
    Name {
        /// The name, shortened.
        given: String,
        /// The rule that it breaks.
        rule: InvalidId,
    },
    /// A tool cannot be offered.
    #[error(transparent)]
    Tool(#[from] CatalogError),
    /// A condition is about a tool that does not exist.
    #[error("`ask_when` names the unknown tool {tool}; the tools are: {known}")]
    AskedAbout {
        /// The name that was given.
        tool: Arc<str>,
        /// The names that exist.
        known: String,
    },
    /// The policy does not have the default plan.
    #[error(
        "`default_plan` names plan {plan}, which the policy does not have; its plans are: {known}"
    )]
    DefaultPlan {
        /// The name that was given.
        plan: PlanName,
        /// The names that exist.
        known: String,
    },
    /// The system supplied no randomness for an approval key.
    #[error("the system supplied no randomness for the approval key")]
    NoRandomness(#[source] std::io::Error),
}
