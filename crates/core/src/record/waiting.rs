//! Records of what a run waits for: a user's decision, or the result of a tool that the caller runs.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::{AskCause, GrantScope, RuleRef};
use crate::effect::AskApproval;
use crate::ids::{AgentId, EffectId, RunId, ToolCallId};
use crate::json::{ContentHash, JsonText};

/// A user must decide about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalRequested {
    /// The effect that asks.
    pub effect_id: EffectId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// Exactly what would run.
    pub arguments: JsonText,
    /// The hash that the approval is bound to.
    pub arguments_hash: ContentHash,
    /// Why a user must decide, for users.
    pub reason: String,
    /// The reasons, for programs: what requires the approval, each kind once; empty if unknown, as in logs of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<AskCause>,
    /// The rule that requires it; `None` if a mode does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// What may be remembered of an approval for the session, narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<GrantScope>,
    /// When the question closes; `None` if it stays open indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl ApprovalRequested {
    /// Returns an id for the question in 16 hexadecimal digits, derived from the run, the call and the arguments that
    /// would run: an answer that uses it answers this question and no other.
    #[must_use]
    pub fn question(&self, run: RunId) -> String {
        let of_call = ContentHash::of(self.tool_call_id.as_str().as_bytes());
        let hash = ContentHash::of(run.0.as_bytes());
        let of_tool = ContentHash::of(self.name.as_bytes());
        let hash = hash.chain(of_call).chain(of_tool);
        let hash = hash.chain(self.arguments.hash());
        let mut name = hash.to_string();
        name.truncate(16);
        name
    }

    /// Returns the approval request on behalf of an agent.
    #[must_use]
    pub fn ask(&self, agent: AgentId) -> AskApproval {
        AskApproval {
            effect_id: self.effect_id,
            agent,
            tool_call_id: self.tool_call_id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            arguments_hash: self.arguments_hash,
            reason: self.reason.clone(),
            rule: self.rule.clone(),
            choices: self.choices.clone(),
            expires_at: self.expires_at,
        }
    }

    /// Returns whether the arguments match the recorded hash.
    #[must_use]
    pub fn fits_its_hash(&self) -> bool {
        self.arguments.hash() == self.arguments_hash
    }
}

/// The run cannot continue without input from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiting {
    /// What it waits for.
    pub pending: Vec<Pending>,
}

/// Something that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pending {
    /// The effect to answer.
    pub effect_id: EffectId,
    /// The call it is about.
    pub tool_call_id: ToolCallId,
    /// The kind of input that must arrive.
    pub kind: PendingKind,
    /// When the run stops waiting for it; `None` if it waits indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What a run is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// A user's decision.
    Approval,
    /// The result of a tool that the caller runs.
    ClientTool,
}
