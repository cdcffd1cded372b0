//! What servers that speak Responses differ in.

use neuraxis_core::MediaTypes;
use neuraxis_wire::{
    ParallelCalls, ReasoningEffort, ServiceTier, StrictTools, SystemRole, Temperature,
};
use serde::{Deserialize, Serialize};

/// What is asked of a server that speaks Responses, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponsesDialect {
    /// What a system message that is not the first message is called. The first one is the instructions.
    pub(crate) late_system: SystemRole,
    /// Whether the server keeps the replies.
    pub(crate) store: Store,
    /// Whether reasoning is asked for in a form that can be sent back.
    pub(crate) encrypted_reasoning: EncryptedReasoning,
    /// How hard the model is to think, where that is said.
    pub(crate) reasoning_effort: Option<ReasoningEffort>,
    /// How the model is to sum its reasoning up, where that is said.
    pub(crate) reasoning_summary: Option<ReasoningSummary>,
    /// Whether tools are offered with strict schemas.
    pub(crate) strict_tools: StrictTools,
    /// Whether a request says that several calls in one reply are welcome.
    pub(crate) parallel_calls: ParallelCalls,
    /// Whether the temperature is sent.
    pub(crate) temperature: Temperature,
    /// How fast a request is worked on, where that is said.
    pub(crate) service_tier: Option<ServiceTier>,
    /// Which media the model takes, as far as that is known.
    pub(crate) media: MediaTypes,
}

/// Whether the server keeps the replies. It does unless it is told not to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Store {
    /// It does, and knows their items by their ids.
    Kept,
    /// It does not: an item without content of its own is unknown to it.
    NotKept,
}

/// Whether reasoning is asked for in a form that can be sent back to a server that keeps nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EncryptedReasoning {
    /// The request includes `reasoning.encrypted_content`.
    Asked,
    /// It is not: the model does not reason, or the server does not know the question.
    Unsaid,
}

/// How a model is to sum its reasoning up.
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
    /// Returns the word that is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Concise => "concise",
            Self::Detailed => "detailed",
        }
    }
}
