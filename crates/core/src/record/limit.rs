//! Records of limits that were reached, and the last answer that the model is asked for then.

use serde::{Deserialize, Serialize};

use crate::finish::BudgetKind;

/// The turn limit was reached while the loop would have continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaxTurnsReached {
    /// The number of turns that counted.
    pub turns: u32,
    /// The text so far.
    pub content: String,
}

/// The model was asked for its last answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaxTurnsPromptInjected {
    /// The system message that asks for it.
    pub message: String,
}

/// A limit other than the turn limit was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitReachedRecord {
    /// The resource that was used up, such as time, tool calls or tokens.
    pub limit: LimitKind,
    /// The text so far.
    pub content: String,
    /// The system message that asks for a last answer, if this record's step asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

// Not `#[non_exhaustive]`, for the same reason as `BudgetKind`.
/// A limit other than the turn limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The time is up, except for the reserve for one last answer.
    DeadlineReserve,
    /// The time is up.
    Deadline,
    /// A limit other than turns and time.
    #[serde(untagged)]
    Budget(BudgetKind),
}
