//! What dialects of Chat Completions differ in.

use neuraxis_core::MediaTypes;
use serde::{Deserialize, Serialize};

use crate::settings::{
    ParallelCalls, ReasoningEffort, ServiceTier, StrictTools, SystemRole, Temperature,
};

/// A dialect of Chat Completions, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// The provider's name, by which a message tells whether this provider wrote it.
    pub provider: &'static str,
    /// The field that limits the tokens of a reply.
    pub max_tokens_field: &'static str,
    /// The field in which the reasoning of earlier replies is sent back.
    pub reasoning_field: &'static str,
    /// Which reasoning is sent back.
    pub reasoning_echo: ReasoningEcho,
    /// What is sent for an earlier reply without reasoning of this provider, where reasoning would be sent back.
    pub missing_reasoning: MissingReasoning,
    /// Which tool choices the server understands.
    pub tool_choices: ToolChoices,
    /// Whether a request says that several calls in one reply are welcome.
    pub parallel_calls: ParallelCalls,
    /// What is sent for a system message that is not the first message.
    pub late_system: LateSystem,
    /// What is sent after an assistant message that stands last.
    pub trailing_assistant: TrailingAssistant,
    /// What is sent for arguments of earlier calls that are no JSON object.
    pub arguments: Arguments,
    /// What instructions are called.
    pub system_role: SystemRole,
    /// Whether tools are offered with strict schemas.
    pub strict_tools: StrictTools,
    /// How the form of a reply is asked for.
    pub reply_form: ReplyForm,
    /// Whether the temperature is sent.
    pub temperature: Temperature,
    /// Whether a stream is asked for its usage.
    pub stream_usage: StreamUsage,
    /// How hard the model is to think, where that is said.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// What the model does with tools on offer while it reasons.
    pub tools_and_reasoning: ToolsAndReasoning,
    /// How fast a request is worked on, where that is said.
    pub service_tier: Option<ServiceTier>,
    /// The most bytes of the id of a call. A longer one is replaced by a short one made from it.
    pub longest_call_id: usize,
    /// Which media the model takes, where that is known before a server was asked. Files are sent only to a model that is
    /// known to take them.
    pub media: MediaTypes,
}

impl Dialect {
    /// The protocol as OpenAI documents it.
    #[must_use]
    pub const fn standard(provider: &'static str) -> Self {
        Self {
            provider,
            max_tokens_field: "max_completion_tokens",
            reasoning_field: "reasoning_content",
            reasoning_echo: ReasoningEcho::Never,
            missing_reasoning: MissingReasoning::LeftOut,
            tool_choices: ToolChoices::All,
            parallel_calls: ParallelCalls::Unsaid,
            late_system: LateSystem::System,
            trailing_assistant: TrailingAssistant::Alone,
            arguments: Arguments::AsWritten,
            system_role: SystemRole::System,
            strict_tools: StrictTools::Unsaid,
            reply_form: ReplyForm::JsonSchema,
            temperature: Temperature::Sent,
            stream_usage: StreamUsage::Asked,
            reasoning_effort: None,
            tools_and_reasoning: ToolsAndReasoning::Together,
            service_tier: None,
            longest_call_id: usize::MAX,
            media: MediaTypes::Unknown,
        }
    }
}

/// How the form of a reply is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyForm {
    /// By its schema.
    JsonSchema,
    /// As some JSON object: the server knows no schemas. What the object has to be is told in a message after all others.
    JsonObject,
    /// In such a message alone.
    Ignored,
}

/// Whether a stream is asked for its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamUsage {
    /// By `stream_options.include_usage`: the last chunk brings the token counts.
    Asked,
    /// It is not: the server does not know the question.
    Unsaid,
}

/// What a model does with tools on offer while it reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolsAndReasoning {
    /// A request may have tools and ask for reasoning.
    Together,
    /// It refuses them on this protocol, so that it is asked not to reason where tools are on offer. A request for both
    /// fails before it is sent.
    OneOrTheOther,
}

/// Which reasoning of earlier replies is sent back. Only this provider's own ever is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEcho {
    /// All: a prompt is never changed afterwards, and the server's template decides what the model sees.
    Always,
    /// That of the turn under way, so since the last user message.
    SameTurn,
    /// None.
    Never,
}

/// What is sent for an earlier reply without reasoning of this provider, where reasoning would be sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissingReasoning {
    /// Nothing.
    LeftOut,
    /// An empty text: the server refuses a reply without the field.
    Empty,
}

/// Which tool choices a server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolChoices {
    /// `auto`, `none`, `required`, and a tool by its name.
    All,
    /// `auto`, `none` and `required`: to name a tool, it alone is offered and some call required.
    Words,
    /// None of them: where no call is wanted, no tool is offered.
    Ignored,
}

/// What is sent for a system message that is not the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateSystem {
    /// A system message.
    System,
    /// A user message that says that it comes from the system.
    User,
    /// A system message, until the server refuses one; from then on a user message, in the refused call as well.
    Auto,
}

/// What is sent after an assistant message that stands last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrailingAssistant {
    /// Nothing: the server answers it.
    Alone,
    /// A short user message, since the server would take the assistant message for the beginning of its own.
    Prompted,
}

/// What is sent for arguments of earlier calls that are no JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arguments {
    /// What the model wrote.
    AsWritten,
    /// An object that holds what the model wrote: the server refuses everything else.
    MadeWhole,
}
