//! Records of limits that were reached, and the last answer that the model is asked for then.

use serde::{Deserialize, Serialize};

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

/// A limit other than the turn limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// The time is up, except for the reserve for one last answer.
    DeadlineReserve,
    /// The time is up.
    Deadline,
    /// Tool calls.
    ToolCalls,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// The time limit of a session or a day.
    Time,
    /// Model calls.
    ModelCalls,
    /// Repeated calls of unknown tools.
    UnknownTools,
    /// Repeating the same call.
    RepeatedCalls,
    /// The maximum size of a run's log.
    Log,
}
