//! Records of model calls: replies, failed attempts, and which role serves instead.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::effect::Purpose;
use crate::error::LlmError;
use crate::ids::{Attempt, EffectId, Role, ToolCallId};
use crate::input::NextAttempt;
use crate::json::is_default;
use crate::limits::MicroUsd;
use crate::message::{Message, ModelRef};
use crate::reply::Reply;
use crate::transcript::PrefixDigest;
use crate::usage::CountLabel;

/// A model call returned a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LlmCall {
    /// The effect that requested it.
    pub effect_id: EffectId,
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// Its purpose.
    pub purpose: Purpose,
    /// The requested role.
    pub role: Role,
    /// The role that served it.
    pub served_by: Role,
    /// Why a role other than the requested one served it, unless this follows from configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// What was sent before the new messages: the number of messages and their chained hash.
    pub prefix: PrefixDigest,
    /// The results among the new messages, in order; their own records contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ToolCallId>,
    /// The other new messages, which follow the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Arc<Message>>,
    /// The reply.
    pub reply: Arc<Reply>,
    /// Its cost, if prices are known.
    #[serde(
        default,
        rename = "cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<MicroUsd>,
    /// How the cost was determined; measured if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_label: CountLabel,
    /// How long it took.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub duration: Duration,
    /// How long its first delta took, if it was streamed.
    #[serde(
        default,
        rename = "first_delta_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub first_delta: Option<Duration>,
}

/// An attempt of a model call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LlmFailed {
    /// The effect that requested it.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// Its purpose.
    pub purpose: Purpose,
    /// The requested role.
    pub role: Role,
    /// The role that failed.
    pub served_by: Role,
    /// Why a role other than the requested one was called, unless this follows from configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// Set if the role is degraded from now on: the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// The provider's or the connection's error.
    pub error: LlmError,
    /// Whether another attempt follows.
    pub next: NextAttempt,
    /// Its cost, if prices are known and the provider reported the usage.
    #[serde(
        default,
        rename = "cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<MicroUsd>,
    /// How the cost was determined; measured if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_label: CountLabel,
    /// The model that was called, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelRef>>,
    /// How long it took.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub duration: Duration,
}

/// A role other than the requested one serves a call, because the requested one is degraded or just failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleDowngraded {
    /// The requested role.
    pub from: Role,
    /// The role that serves.
    pub to: Role,
    /// The error of the requested role, or since when it is degraded.
    pub reason: String,
    /// How many messages of the conversation are not sent to it in this call, because its context is smaller. They are
    /// left out of this call only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub left_out: u64,
}

/// A larger role or a user takes over after consecutive failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Escalated {
    /// The number of consecutive failures.
    pub failures: u32,
    /// The larger role; `None` for a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The question to the user: it ends the answer, and is a separate message in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}
