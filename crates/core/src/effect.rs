//! What the machine asks the driver to do.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advised_call::AdvisedCall;
use crate::decision::{GrantScope, RuleRef};
use crate::finish::RunOutcome;
use crate::ids::{
    AgentId, Attempt, CallIndex, ContentIndex, EffectId, Role, ToolCallId, ToolName, Turn,
};
use crate::json::{ContentHash, JsonText};
use crate::profile::Hook;
use crate::tool::{ToolClass, ToolSpec};
use crate::transcript::Transcript;

/// Something for the driver to do. Not `#[non_exhaustive]`: a new effect must break every driver at compile time.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call a model; answered by `ModelReplied` or `ModelFailed`.
    CallModel(Box<CallModel>),
    /// Check a batch of calls against schemas and policy; answered by `Vetted`.
    Vet(Vet),
    /// Run one tool call; answered by `ToolFinished`.
    RunTool(RunTool),
    /// Stop a model call; an answer that still arrives is ignored.
    CancelModel(CancelModel),
    /// Stop a tool call; an answer that still arrives is ignored.
    CancelTool(CancelTool),
    /// Ask a user for approval; answered by `ApprovalDecided`.
    AskApproval(Box<AskApproval>),
    /// Ask the embedder's hook; answered by `Advised`.
    Consult(Consult),
    /// The run has ended.
    Finish(Box<RunOutcome>),
}

impl Effect {
    /// Returns the id that an answer to this effect carries; `None` if the effect has no answer.
    #[must_use]
    pub const fn id(&self) -> Option<EffectId> {
        match self {
            Self::CallModel(call) => Some(call.effect_id),
            Self::Vet(vet) => Some(vet.effect_id),
            Self::RunTool(run) => Some(run.effect_id),
            Self::AskApproval(ask) => Some(ask.effect_id),
            Self::Consult(consult) => Some(consult.effect_id),
            Self::CancelModel(_) | Self::CancelTool(_) | Self::Finish(_) => None,
        }
    }
}

/// One model call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallModel {
    /// The effect.
    pub effect_id: EffectId,
    /// The number of the first attempt; the driver counts from there.
    pub attempt: Attempt,
    /// The agent that calls.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// The call's position among the model calls and tool batches of the run.
    pub content_index: ContentIndex,
    /// The purpose of the call.
    pub purpose: Purpose,
    /// The role that serves it.
    pub role: Role,
    /// Who reads the reply.
    pub audience: Audience,
    /// Whether this is the first model call for this agent.
    pub is_first: bool,
    /// The messages, the offered tools, and how to reply.
    pub request: ModelRequest,
}

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A turn of the loop.
    Turn,
    /// The answer after a limit was reached; it may not use tools and does not count as a turn.
    LastAnswer,
    /// A summary of older messages.
    Compaction,
    /// A check of a draft.
    SelfCheck,
    /// The choice of what an opening gathers; its text is discarded.
    Gather,
    /// The choice of the role that serves; its text is discarded.
    Routing,
}

/// Who reads a reply, which determines whether streaming is worthwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Audience {
    /// A user, as it streams: the answer of an agent or a sub-agent.
    Person,
    /// Another part of the system, once it is complete.
    Component,
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The conversation, with the system message first. Shared with the run, not copied.
    pub messages: Transcript,
    /// The offered tools; if there are none, the wire format omits the field.
    pub tools: Arc<[ToolSpec]>,
    /// Whether the model may or must call one of them.
    pub tool_choice: ToolChoice,
    /// Maximum number of tokens in the reply.
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The required form of the reply's text.
    pub reply_format: ReplyFormat,
}

/// The required form of a reply's text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyFormat {
    /// Any text.
    #[default]
    Text,
    /// JSON that conforms to a schema.
    JsonSchema {
        /// The name of the schema: letters, digits, `_` and `-`, at most 64.
        name: Arc<str>,
        /// The JSON Schema (2020-12).
        schema: JsonText,
    },
}

impl ReplyFormat {
    /// Returns whether any text is accepted.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        matches!(self, Self::Text)
    }
}

/// Whether a model may or must call a tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// It must not. The tool definitions stay in the request to preserve the cached prompt prefix.
    None,
    /// It must call some tool.
    Required,
    /// It must call this tool.
    Named(ToolName),
}

/// A batch of calls to check.
#[derive(Debug, Clone, PartialEq)]
pub struct Vet {
    /// The effect.
    pub effect_id: EffectId,
    /// The agent that made the calls.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// The calls, in call order; the answer has the same order.
    pub calls: Vec<CallToVet>,
}

/// One call to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallToVet {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The final arguments.
    pub arguments: JsonText,
    /// A user already approved exactly these arguments. This answers an ask, but does not override a deny.
    pub approved: Option<Box<Approved>>,
    /// The call was admitted before the run was resumed and is now checked again. Anything its approval allowed to be
    /// remembered is already on record, and may have been revoked since.
    pub is_rechecked: bool,
    /// What the program's hooks said about exactly these arguments, if that is on record; they are not asked again.
    pub advised: Option<Box<AdvisedCall>>,
}

/// A user's approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Approved {
    /// What the session should remember of it.
    pub remember: Option<GrantScope>,
    /// Who gave it, if known.
    pub by: Option<String>,
    /// The code it was given with: see [`ApprovalDecided::code`](crate::ApprovalDecided::code).
    pub code: Option<ContentHash>,
    /// When its question expires, if the approval was accepted before that: see
    /// [`ApprovalDecided::given_before`](crate::ApprovalDecided::given_before).
    pub given_before: Option<Timestamp>,
}

/// One tool call to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTool {
    /// The effect; its text form is the idempotency key.
    pub effect_id: EffectId,
    /// The number of this attempt, from 1.
    pub attempt: Attempt,
    /// The agent that calls.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// The batch's position among the model calls and tool batches of the run.
    pub content_index: ContentIndex,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: ToolName,
    /// The call's position in its reply.
    pub index: CallIndex,
    /// The final arguments.
    pub arguments: JsonText,
    /// What the call may change.
    pub class: ToolClass,
    /// How long it may take.
    pub timeout: Duration,
}

/// A model call to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelModel {
    /// The effect that made the call.
    pub effect_id: EffectId,
}

/// A tool call to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelTool {
    /// The effect that ran the call.
    pub effect_id: EffectId,
}

/// A call that a user must approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskApproval {
    /// The effect.
    pub effect_id: EffectId,
    /// The agent that calls.
    pub agent: AgentId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// Exactly what would run.
    pub arguments: JsonText,
    /// The hash that the approval is bound to.
    pub arguments_hash: ContentHash,
    /// Why a user must decide.
    pub reason: String,
    /// The rule that requires it; `None` if a mode does.
    pub rule: Option<RuleRef>,
    /// What may be remembered of an approval for the session, narrowest first; empty if nothing may be.
    pub choices: Vec<GrantScope>,
    /// When the question closes, answered or not; `None` if it stays open indefinitely.
    pub expires_at: Option<Timestamp>,
}

/// A question to the embedder's hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consult {
    /// The effect.
    pub effect_id: EffectId,
    /// The agent it is about.
    pub agent: AgentId,
    /// The point in the loop.
    pub hook: Hook,
    /// The subject of the question, as JSON.
    pub subject: JsonText,
}
