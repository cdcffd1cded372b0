//! What the machine asks the outside to do.

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
    /// Stop a model call; its answer, if one still comes, is ignored.
    CancelModel(CancelModel),
    /// Stop a tool call; its answer, if one still comes, is ignored.
    CancelTool(CancelTool),
    /// Ask a person; answered by `ApprovalDecided`.
    AskApproval(Box<AskApproval>),
    /// Ask the embedder's hook; answered by `Advised`.
    Consult(Consult),
    /// The run is over.
    Finish(Box<RunOutcome>),
}

impl Effect {
    /// Returns the id under which the outside answers, if it answers.
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
    /// The first attempt to be made; the driver counts on from there.
    pub attempt: Attempt,
    /// The agent that calls.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// The call's place among the content of the run.
    pub content_index: ContentIndex,
    /// What the call is for.
    pub purpose: Purpose,
    /// The model to serve it.
    pub role: Role,
    /// Who reads the reply.
    pub audience: Audience,
    /// Whether nothing was asked of a model for this agent before, but this.
    pub is_first: bool,
    /// The messages, the tools on offer, and how to reply.
    pub request: ModelRequest,
}

/// What a model call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A turn of the loop.
    Turn,
    /// The answer after a limit was reached; may not use tools and is no turn.
    LastAnswer,
    /// A summary of older messages.
    Compaction,
    /// A second look at a draft.
    SelfCheck,
    /// The choice of what an opening gathers; its text is dropped.
    Gather,
    /// The choice of the role that serves; its text is dropped.
    Routing,
}

/// Who reads a reply, and so whether it is worth streaming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Audience {
    /// A person, as it comes: what an agent or a sub-agent answers.
    Person,
    /// Another part of the system, once it is whole.
    Component,
}

/// What is sent to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The conversation, system message first. Shared with the run, not copied.
    pub messages: Transcript,
    /// The tools it is offered; with none, the wire leaves the field out.
    pub tools: Arc<[ToolSpec]>,
    /// Whether it may or must call one.
    pub tool_choice: ToolChoice,
    /// The most tokens of the reply.
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The form its text must have.
    pub reply_format: ReplyFormat,
}

/// The form that the text of a reply must have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyFormat {
    /// Any.
    #[default]
    Text,
    /// JSON that fits a schema.
    JsonSchema {
        /// What the form is called; letters, digits, `_` and `-`, at most 64.
        name: Arc<str>,
        /// The JSON Schema (2020-12).
        schema: JsonText,
    },
}

impl ReplyFormat {
    /// Tells whether any text will do.
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
    /// As it sees fit.
    Auto,
    /// It must not. The definitions stay in the request, so that the cached prompt prefix survives.
    None,
    /// It must call some tool.
    Required,
    /// It must call this tool.
    Named(ToolName),
}

/// A batch of calls to be checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Vet {
    /// The effect.
    pub effect_id: EffectId,
    /// The agent whose calls they are.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// The calls, in call order; answered in the same order.
    pub calls: Vec<CallToVet>,
}

/// One call to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallToVet {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The final arguments.
    pub arguments: JsonText,
    /// A person already approved exactly these arguments: an ask is answered, a deny is not.
    pub approved: Option<Box<Approved>>,
    /// It was admitted before the run was taken up, and is checked anew: what its approval let be remembered is on record
    /// already, and may have been taken back since.
    pub is_rechecked: bool,
    /// What the program's hooks said of exactly these arguments, where that is on record: they are not asked again.
    pub advised: Option<Box<AdvisedCall>>,
}

/// A person's approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Approved {
    /// What is to be remembered of it for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<GrantScope>,
    /// Who gave it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The code it was given with: see [`ApprovalDecided::code`](crate::ApprovalDecided::code).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
    /// When its question expires, where it was taken before: see
    /// [`ApprovalDecided::given_before`](crate::ApprovalDecided::given_before).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_before: Option<Timestamp>,
}

/// One tool call to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTool {
    /// The effect; its text is the idempotency key.
    pub effect_id: EffectId,
    /// How often it was tried, this time included.
    pub attempt: Attempt,
    /// The agent that calls.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// The batch's place among the content of the run.
    pub content_index: ContentIndex,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: ToolName,
    /// The call's place in its reply.
    pub index: CallIndex,
    /// The final arguments.
    pub arguments: JsonText,
    /// What the call may change.
    pub class: ToolClass,
    /// How long it may take.
    pub timeout: Duration,
}

/// A model call to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelModel {
    /// The effect that makes it.
    pub effect_id: EffectId,
}

/// A tool call to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelTool {
    /// The effect that runs it.
    pub effect_id: EffectId,
}

/// A call that a person has to approve.
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
    /// The hash the approval is bound to.
    pub arguments_hash: ContentHash,
    /// Why a person has to decide.
    pub reason: String,
    /// The rule that says so; none where a mode does.
    pub rule: Option<RuleRef>,
    /// What may be remembered of an approval for the session, the narrowest first; nothing where nothing may be.
    pub choices: Vec<GrantScope>,
    /// When the question is no longer open, whatever the answer; none if it stays open for good.
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
    /// What it is about, as JSON.
    pub subject: JsonText,
}
