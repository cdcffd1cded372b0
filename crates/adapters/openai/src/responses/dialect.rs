//! The differences between servers that speak Responses.

use neuraxis_core::MediaTypes;
use neuraxis_wire::{
    ParallelCalls, ReasoningEffort, ServiceTier, StrictTools, SystemRole, Temperature,
};
use serde::{Deserialize, Serialize};

/// What is asked of a server that speaks Responses, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponsesDialect {
    /// The role of a system message that is not the first message. The first one becomes the instructions.
    pub(crate) late_system: SystemRole,
    /// Whether the server stores the replies.
    pub(crate) store: ReplyStorage,
    /// Whether reasoning is requested in a form that can be sent back.
    pub(crate) encrypted_reasoning: EncryptedReasoning,
    /// How much the model should think, if that is set.
    pub(crate) reasoning_effort: Option<ReasoningEffort>,
    /// How the model should summarize its reasoning, if that is set.
    pub(crate) reasoning_summary: Option<ReasoningSummary>,
    /// Whether tools are offered with strict schemas.
    pub(crate) strict_tools: StrictTools,
    /// Whether the request says that the model may make several calls in one reply.
    pub(crate) parallel_calls: ParallelCalls,
    /// Whether the temperature is sent.
    pub(crate) temperature: Temperature,
    /// The priority with which requests are processed, if that is set.
    pub(crate) service_tier: Option<ServiceTier>,
    /// The media types that the model accepts, as far as they are known.
    pub(crate) media: MediaTypes,
}

/// Whether the server stores the replies, which it does by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReplyStorage {
    /// The server stores them, and knows their items by their ids.
    Stored,
    /// The server does not store them: an item sent without its content is unknown to it.
    NotStored,
}

/// Whether reasoning is requested in a form that can be sent back to a server that stores nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EncryptedReasoning {
    /// The request includes `reasoning.encrypted_content`.
    Requested,
    /// Not requested: the model does not reason, or the server does not support the field.
    NotRequested,
}

/// How a model summarizes its reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningSummary {
    /// As well as the model can.
    Auto,
    /// In few words.
    Concise,
    /// In more words.
    Detailed,
}

impl ReasoningSummary {
    /// Returns the value that is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Concise => "concise",
            Self::Detailed => "detailed",
        }
    }
}
