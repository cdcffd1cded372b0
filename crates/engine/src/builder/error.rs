//! What can be wrong with an orchestrator or an agent that is put together.

use std::sync::Arc;

use neuraxis_brainstem::PolicyError;
use neuraxis_core::{AgentName, InvalidId, PlanName};

use crate::answer::AnswerSchemaError;
use crate::catalog::CatalogError;

/// What is missing from, or wrong with, an orchestrator.
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
    /// An agent's setting cannot stand.
    #[error(transparent)]
    Agent(#[from] PolicyError),
    /// A rule names a function that the program did not give.
    #[error("{0}: give it with `rule_function`")]
    Rule(PolicyError),
    /// The form of an agent's answer is none.
    #[error("answers of the form that agent {agent} is to give cannot be asked for")]
    Answer {
        /// The agent.
        agent: AgentName,
        /// What is wrong with its schema.
        source: AnswerSchemaError,
    },
    /// Two agents have the same name.
    #[error("there are two agents named {0}")]
    DuplicateAgent(AgentName),
    /// An agent has a model of its own and names a role besides.
    #[error(
        "agent {0} has both a model and a role: a model of its own serves it, or the orchestrator's of that role"
    )]
    ModelAndRole(AgentName),
    /// A name in an agent's settings is none.
    #[error("{given:?} is {rule}")]
    Name {
        /// The name, cut.
        given: String,
        /// What it should have been.
        rule: InvalidId,
    },
    /// A tool cannot be offered.
    #[error(transparent)]
    Tool(#[from] CatalogError),
    /// A condition is about a tool that there is not.
    #[error("a person is to be asked about the unknown tool {tool}; the tools are: {known}")]
    AskedAbout {
        /// The name that was given.
        tool: Arc<str>,
        /// The names there are.
        known: String,
    },
    /// The plan of requests that name none is none of the policy.
    #[error(
        "`default_plan` names plan {plan}, which the policy does not have; its plans are: {known}"
    )]
    DefaultPlan {
        /// The name that was given.
        plan: PlanName,
        /// The names there are.
        known: String,
    },
    /// No key for approvals could be made.
    #[error("the system gives no randomness for the key of approvals")]
    NoRandomness(#[source] std::io::Error),
}
