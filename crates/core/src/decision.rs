//! What governance decides: a [`Decision`] for a request, a [`Verdict`] for a call.
//!
//! The types live here, because they are recorded; the rules that make them live in `neuraxis-brainstem`.

mod parts;
mod read;
mod remembered;
mod taint;
mod verdict;

use serde::{Deserialize, Serialize};

pub use parts::{
    ApprovalPolicy, BudgetMeasure, BudgetScope, Clarification, Complexity, ComplexityFeature,
    Escalation, Routing, SelfCheck, SpentBudget,
};
pub use read::{Checked, TakesOver};
pub use remembered::{Access, Grant, GrantScope, Remembered};
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
    /// The freedom it was asked with.
    pub mode: Mode,
    /// Where it came from.
    pub channel: Channel,
    /// The agent that the request asks for; `None` for that of its channel. In JSON its name differs, since `agent` is the
    /// one that a record is about.
    #[serde(
        default,
        rename = "requested_agent",
        skip_serializing_if = "Option::is_none"
    )]
    pub agent: Option<AgentName>,
    /// The name of the agent that answers, and of its profile.
    pub profile: String,
    /// The model that serves it.
    pub role: Role,
    /// The models that may serve it, should that one fail.
    pub allowed_roles: Vec<Role>,
    /// The tools it is offered.
    pub tools: Vec<ToolName>,
    /// The tools that its sub-agents may use, although the agent that answers is not offered them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_agent_tools: Vec<ToolName>,
    /// What it may use.
    pub limits: Limits,
    /// How many sub-agents it may have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent_limits: AgentLimits,
    /// The most tokens of one reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// How hard the request seems, where that chose the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<Complexity>,
    /// A model that is to be asked first which role serves; until it answers, `role` holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// The question that is the reply, because the request is too vague to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarify: Option<Clarification>,
    /// A check of the draft by a model, before it becomes the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheck>,
    /// Who takes over when it does not go well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// How people's approvals are asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approval: ApprovalPolicy,
    /// What of the content may be stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: DataPolicy,
    /// The untrusted content that the conversation already holds.
    #[serde(default, skip_serializing_if = "Taint::is_clean")]
    pub taint: Taint,
    /// The budget that is used up, so that its sentence is the reply and no model is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentBudget>,
    /// Why, a sentence each, for people.
    pub reasons: Vec<String>,
    /// The hash of the policy that decided, so that a changed policy shows.
    pub policy_hash: ContentHash,
}

impl Decision {
    /// Makes a decision that allows no tool and gives no reason yet.
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

    /// Tells whether some agent of the run may call a tool: the one that answers, or one that works for it.
    #[must_use]
    pub fn offers(&self, tool: &ToolName) -> bool {
        self.tools.contains(tool) || self.sub_agent_tools.contains(tool)
    }
}

#[cfg(test)]
mod tests;
