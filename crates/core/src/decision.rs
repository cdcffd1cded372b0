//! What governance decides: a [`Decision`] for a request, a [`Verdict`] for a call.
//!
//! The types are in this crate because they are recorded; the rules that produce them are in `neuraxis-brainstem`.

mod parts;
mod read;
mod remembered;
mod taint;
mod verdict;

use serde::{Deserialize, Serialize};

pub use parts::{
    ApprovalPolicy, BudgetScope, Clarification, Complexity, ComplexityFeature, Escalation, Routing,
    SelfCheck, SpentBudget,
};
pub use read::{Checked, TakesOver};
pub use remembered::{Access, Grant, GrantScope, Grants};
pub use taint::{Taint, TaintSource};
pub use verdict::{AskCause, Remember, RuleRef, Verdict};

use crate::ids::{AgentName, Channel, Mode, Role, ToolName};
use crate::json::{ContentHash, is_default};
use crate::limits::{AgentLimits, Limits};
use crate::profile::DataPolicy;

/// What a request may do, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Decision {
    /// The mode of the request.
    pub mode: Mode,
    /// The channel the request came from.
    pub channel: Channel,
    /// The agent that the request asks for; `None` for the default agent of its channel. The name differs in JSON
    /// because `agent` there names the agent that a record is about.
    #[serde(
        default,
        rename = "requested_agent",
        skip_serializing_if = "Option::is_none"
    )]
    pub agent: Option<AgentName>,
    /// The name of the answering agent and of its profile.
    pub profile: String,
    /// The role that serves it.
    pub role: Role,
    /// The roles that may serve it if that one fails.
    pub allowed_roles: Vec<Role>,
    /// The tools it is offered.
    pub tools: Vec<ToolName>,
    /// The tools that its sub-agents may use even though the answering agent is not offered them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_agent_tools: Vec<ToolName>,
    /// What it may use.
    pub limits: Limits,
    /// How many sub-agents it may have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent_limits: AgentLimits,
    /// Maximum number of tokens in one reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// How hard the request seems, if that determined the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<Complexity>,
    /// A model to ask first which role serves the request; until it answers, `role` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// The question to reply with, because the request is too vague to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarify: Option<Clarification>,
    /// A check of the draft by a model before the draft becomes the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheck>,
    /// Who takes over when the run does not go well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// How user approvals are requested.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approval: ApprovalPolicy,
    /// Which parts of the content may be stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: DataPolicy,
    /// The untrusted content that the conversation already contains.
    #[serde(default, skip_serializing_if = "Taint::is_clean")]
    pub taint: Taint,
    /// The budget that is used up. Its text is then the reply, and no model is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentBudget>,
    /// The reasons, one sentence each, for users.
    pub reasons: Vec<String>,
    /// The hash of the policy that decided, so that a policy change is visible.
    pub policy_hash: ContentHash,
}

impl Decision {
    /// Creates a decision that allows no tool and gives no reason yet.
    #[must_use]
    pub fn new(mode: Mode, channel: Channel, role: Role, policy_hash: ContentHash) -> Self {
        Self {
            mode,
            channel,
            agent: None,
            profile: "main_thread".to_owned(),
            allowed_roles: vec![role.clone()],
            role,
            tools: Vec::new(),
            sub_agent_tools: Vec::new(),
            limits: Limits::default(),
            agent_limits: AgentLimits::default(),
            max_output_tokens: None,
            temperature: None,
            complexity: None,
            routing: None,
            clarify: None,
            self_check: None,
            escalation: None,
            approval: ApprovalPolicy::default(),
            data: DataPolicy::default(),
            taint: Taint::default(),
            spent: None,
            reasons: Vec::new(),
            policy_hash,
        }
    }

    /// Returns whether any agent of the run may call a tool: the answering agent or a sub-agent.
    #[must_use]
    pub fn offers(&self, tool: &ToolName) -> bool {
        self.tools.contains(tool) || self.sub_agent_tools.contains(tool)
    }
}

#[cfg(test)]
mod tests;
