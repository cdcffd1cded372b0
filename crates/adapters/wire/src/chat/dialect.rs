//! The differences between dialects of Chat Completions.

use neuraxis_core::MediaTypes;
use serde::{Deserialize, Serialize};

use crate::settings::{
    ParallelCalls, ReasoningEffort, ServiceTier, StrictTools, SystemRole, Temperature,
};

/// A dialect of Chat Completions, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// The provider's name, which shows whether this provider wrote a message.
    pub provider: &'static str,
    /// The field that limits the tokens of a reply.
    pub max_tokens_field: &'static str,
    /// The field in which the reasoning of earlier replies is sent back.
    pub reasoning_field: &'static str,
    /// Which reasoning is sent back.
    pub reasoning_echo: ReasoningEcho,
    /// What is sent for an earlier reply without reasoning from this provider, where reasoning would be sent back.
    pub missing_reasoning: MissingReasoning,
    /// Which tool choices the server understands.
    pub tool_choices: ToolChoices,
    /// Whether a request allows several calls in one reply.
    pub parallel_calls: ParallelCalls,
    /// What is sent for a system message that is not the first message.
    pub late_system: LateSystem,
    /// What is sent after a final assistant message.
    pub trailing_assistant: TrailingAssistant,
    /// What is sent for arguments of earlier calls that are not a JSON object.
    pub arguments: Arguments,
    /// The role of instructions.
    pub system_role: SystemRole,
    /// Whether tools are offered with strict schemas.
    pub strict_tools: StrictTools,
    /// How the required form of a reply is requested.
    pub reply_form: ReplyForm,
    /// Whether the temperature is sent.
    pub temperature: Temperature,
    /// Whether usage is requested for a stream.
    pub stream_usage: StreamUsage,
    /// The model's reasoning effort, if it is sent.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Whether the model accepts tools while it reasons.
    pub tools_and_reasoning: ToolsAndReasoning,
    /// The service tier of a request, if it is sent.
    pub service_tier: Option<ServiceTier>,
    /// The maximum length of a call's id in bytes. A longer one is replaced by a short one derived from it.
    pub longest_call_id: usize,
    /// Which media the model accepts, as far as that is known before the server is asked. Files are sent only to a
    /// model that is known to accept them.
    pub media: MediaTypes,
}

impl Dialect {
    /// Returns the protocol as OpenAI documents it.
    #[must_use]
    pub const fn standard(provider: &'static str) -> Self {
        Self {
            provider,
            max_tokens_field: "max_completion_tokens",
            reasoning_field: "reasoning_content",
            reasoning_echo: ReasoningEcho::Never,
            missing_reasoning: MissingReasoning::Omitted,
            tool_choices: ToolChoices::All,
            parallel_calls: ParallelCalls::Unspecified,
            late_system: LateSystem::System,
            trailing_assistant: TrailingAssistant::Alone,
            arguments: Arguments::AsWritten,
            system_role: SystemRole::System,
            strict_tools: StrictTools::Unspecified,
            reply_form: ReplyForm::JsonSchema,
            temperature: Temperature::Sent,
            stream_usage: StreamUsage::Requested,
            reasoning_effort: None,
            tools_and_reasoning: ToolsAndReasoning::Together,
            service_tier: None,
            longest_call_id: usize::MAX,
            media: MediaTypes::Unknown,
        }
    }
}

/// How the required form of a reply is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyForm {
    /// By its schema.
    JsonSchema,
    /// As any JSON object: the server does not support schemas. A message after all others describes the object.
    JsonObject,
    /// Only by such a message.
    Ignored,
}

/// Whether usage is requested for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamUsage {
    /// By `stream_options.include_usage`: the last chunk has the token counts.
    Requested,
    /// No: the server does not know the option.
    NotRequested,
}

/// Whether a model accepts tools while it reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolsAndReasoning {
    /// A request may have tools and ask for reasoning.
    Together,
    /// The model refuses the combination on this protocol, so a request with tools asks it not to reason. A request for
    /// both fails before it is sent.
    OneOrTheOther,
}

/// Which reasoning of earlier replies is sent back. Reasoning from other providers never is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEcho {
    /// All: a prompt is never changed afterward, and the server's template decides what the model sees.
    Always,
    /// That of the current turn, since the last user message.
    SameTurn,
    /// None.
    Never,
}

/// What is sent for an earlier reply without reasoning from this provider, where reasoning would be sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissingReasoning {
    /// Nothing.
    Omitted,
    /// An empty string: the server refuses a reply without the field.
    Empty,
}

/// Which tool choices a server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolChoices {
    /// `auto`, `none`, `required`, and a tool by its name.
    All,
    /// `auto`, `none` and `required`. To name a tool, the request offers only that tool and requires a call.
    Keywords,
    /// None: if no call is wanted, no tool is offered.
    Ignored,
}

/// What is sent for a system message that is not the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateSystem {
    /// A system message.
    System,
    /// A user message that states that it comes from the system.
    User,
    /// A system message, until the server refuses one; from then on, and in the refused call itself, a user message.
    Auto,
}

/// What is sent after a final assistant message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrailingAssistant {
    /// Nothing: the server answers it.
    Alone,
    /// A short user message, since the server would continue the assistant message as its own.
    Prompted,
}

/// What is sent for arguments of earlier calls that are not a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arguments {
    /// What the model wrote.
    AsWritten,
    /// An object that contains what the model wrote: the server refuses anything else.
    Wrapped,
}
