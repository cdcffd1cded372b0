//! Records of tool calls: their attempts, their results, and the plan that one of them changed.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::citations::Source;
use crate::duration;
use crate::finish::AgentAtLimit;
use crate::ids::{AgentId, Attempt, CallIndex, EffectId, ToolCallId};
use crate::json::{ContentHash, JsonText, embedded, is_default, optional_embedded};
use crate::message::MediaPart;
use crate::outcome::{Keep, ToolFailure, ToolSignal};
use crate::tool::{ToolClass, ToolKind};

/// A tool call is about to run: its entry in the effect journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallStarted {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// The call's position in its reply.
    pub index: CallIndex,
    /// The effect that runs it: its idempotency key.
    pub effect_id: EffectId,
    /// The number of this attempt, from 1.
    pub attempt: Attempt,
    /// The final arguments.
    pub arguments: JsonText,
    /// The hash of their exact bytes.
    pub arguments_hash: ContentHash,
    /// What it may change.
    pub class: ToolClass,
    /// Who runs it.
    #[serde(default)]
    pub kind: ToolKind,
    /// Who requested it.
    #[serde(default)]
    pub origin: Origin,
    /// The agents it starts, if it starts any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentId>,
}

/// Who requested a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The model.
    #[default]
    Model,
    /// The policy, because the model should have called the tool and did not.
    Policy,
}

/// An attempt of a tool call failed, and another follows: the call has no result yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallFailed {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// The call's position in its reply.
    pub index: CallIndex,
    /// The effect that runs it, in this attempt and the next.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// Whether the tool failed, took too long, panicked or was stopped.
    pub failure: ToolFailure,
    /// What the tool reported, in the form of a result.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub value: JsonText,
    /// How long it ran.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub duration: Duration,
}

/// A tool call has its result, whether it ran or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolResult {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The call's position in its reply.
    pub index: CallIndex,
    /// The effect that ran it; `None` for a call that did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<EffectId>,
    /// The attempt that ended, for a call that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// Whether it returned a value.
    pub status: ToolStatus,
    /// The value; `{"error": "…"}` if there is none.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub value: JsonText,
    /// Why it returned none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ToolFailure>,
    /// What later history keeps of it, if not the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Whether later history keeps the value.
    #[serde(default)]
    pub keep: Keep,
    /// Images and files that the tool returned beside the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaPart>,
    /// Additional information for users and programs.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "optional_embedded"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub metadata: Option<JsonText>,
    /// What the result means to the loop beyond its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<ToolSignal>,
    /// The pages that were read for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// It is untrusted content: from now on the conversation may contain third-party text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub untrusted: bool,
    /// One of the program's hooks replaced what the tool returned, which is not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rewritten: bool,
    /// The sub-agents of the call that a limit ended. Logs of loop versions before 4 do not say this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents_at_limit: Vec<AgentAtLimit>,
    /// How long it ran.
    #[serde(
        default,
        rename = "duration_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub duration: Option<Duration>,
    /// Who sent it, if a client ran the tool and that is known: a note, not proof of identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Whether a call returned a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The result is the tool's value.
    Done,
    /// The result describes what went wrong.
    Error,
}

/// The session's plan has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanChanged {
    /// The call that changed it.
    pub tool_call_id: ToolCallId,
    /// The plan: a `Plan`, unless another tool than `update_plan` left it or a data policy keeps it out of the log.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::log::RecordedPlan"))]
    pub plan: JsonText,
}
