//! Settings that both protocols of OpenAI have.

use serde::{Deserialize, Serialize};

/// How hard a reasoning model thinks. Which of these a model accepts differs from model to model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// As most models do by themselves.
    Medium,
    /// A lot.
    High,
    /// More than that.
    Xhigh,
    /// As much as it can.
    Max,
}

impl ReasoningEffort {
    /// Returns the word that is sent.
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

/// How fast and at which price a request is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServiceTier {
    /// As the project is set up.
    Auto,
    /// As usual.
    Default,
    /// Slower and cheaper.
    Flex,
    /// From capacity that was bought.
    Scale,
    /// Faster and dearer.
    Priority,
}

impl ServiceTier {
    /// Returns the word that is sent.
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

/// What instructions are called. OpenAI's reasoning models take `developer`, everything else `system`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`.
    System,
    /// `developer`.
    Developer,
}

impl SystemRole {
    /// Returns the word that is sent.
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
    /// It is not: the model refuses it.
    LeftOut,
}

/// Whether tools are offered with schemas that the model cannot but keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StrictTools {
    /// Nothing is said of it.
    #[default]
    Unsaid,
    /// Each tool whose schema allows it is; the others say that they are not.
    WherePossible,
}

/// Which names the properties of a tool's arguments may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PropertyNames {
    /// Any.
    Any,
    /// Of 64 letters, digits, `_`, `.` and `-` at most.
    Plain,
}

/// Whether a request says that several calls in one reply are welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParallelCalls {
    /// `parallel_tool_calls` is true.
    Asked,
    /// It says that one call at a time is wanted.
    Declined,
    /// It leaves the server to its default.
    Unsaid,
}
