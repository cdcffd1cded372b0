//! What governance decides: a [`Decision`] for a request, a [`Verdict`] for a call.
//!
//! The types live here, because they are recorded; the rules that make them live in `neuraxis-brainstem`.

use serde::{Deserialize, Serialize};

use crate::ids::{Channel, Mode, Role, ToolName};
use crate::json::ContentHash;
use crate::limits::Limits;

/// What a request may do, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decision {
    /// The freedom it was asked with.
    pub mode: Mode,
    /// Where it came from.
    pub channel: Channel,
    /// The profile of its main agent.
    pub profile: String,
    /// The model that serves it.
    pub role: Role,
    /// The models that may serve it, should that one fail.
    pub allowed_roles: Vec<Role>,
    /// The tools it is offered.
    pub tools: Vec<ToolName>,
    /// What it may use.
    pub limits: Limits,
    /// The most tokens of one reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
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
            profile: "main_thread".to_owned(),
            allowed_roles: vec![role.clone()],
            role,
            tools: Vec::new(),
            limits: Limits::default(),
            max_output_tokens: None,
            temperature: None,
            reasons: Vec::new(),
            policy_hash,
        }
    }
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It may.
    Allow,
    /// A person has to say so first.
    Ask {
        /// Why.
        reason: String,
    },
    /// It may not, whatever a person says.
    Deny {
        /// Why.
        reason: String,
    },
}
