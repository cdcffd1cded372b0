//! Settings of requests that several adapters share.

use serde::{Deserialize, Serialize};

/// The reasoning effort of a model. Which of these a model accepts varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// As little as possible.
    Minimal,
    /// A little reasoning.
    Low,
    /// The default of most models.
    Medium,
    /// A lot of reasoning.
    High,
    /// More than high.
    Xhigh,
    /// As much as possible.
    Max,
}

impl ReasoningEffort {
    /// Returns the value that is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// The speed and price of a request's processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServiceTier {
    /// As configured for the project.
    Auto,
    /// The standard tier.
    Default,
    /// Slower and cheaper.
    Flex,
    /// From purchased capacity.
    Scale,
    /// Faster and more expensive.
    Priority,
}

impl ServiceTier {
    /// Returns the value that is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Default => "default",
            Self::Flex => "flex",
            Self::Scale => "scale",
            Self::Priority => "priority",
        }
    }
}

/// The role of instructions. OpenAI's reasoning models use `developer`, everything else `system`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`.
    System,
    /// `developer`.
    Developer,
}

impl SystemRole {
    /// Returns the value that is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
        }
    }
}

/// Whether a request's temperature is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Temperature {
    /// The request has the temperature of the profile.
    Sent,
    /// No: the model refuses it.
    LeftOut,
}

/// Whether tools are offered with schemas that the model is forced to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StrictTools {
    /// The request does not say.
    #[default]
    Unspecified,
    /// Each tool whose schema allows it is strict; the others are declared not to be.
    WherePossible,
}

/// The allowed names of a tool's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PropertyNames {
    /// Any.
    Any,
    /// At most 64 letters, digits, `_`, `.` and `-`.
    Plain,
}

/// Whether a request allows several calls in one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParallelCalls {
    /// `parallel_tool_calls` is true.
    Allowed,
    /// The request asks for one call at a time.
    Disallowed,
    /// The request leaves it to the server's default.
    Unspecified,
}
