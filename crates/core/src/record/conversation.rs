//! Records of what the loop itself changes in a conversation: messages of its own, and what it left out or repaired.

use serde::{Deserialize, Serialize};

use crate::ids::ToolCallId;

/// The loop itself sent the model a message: a system message after the results of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptInjected {
    /// Why the loop sent it.
    pub reason: PromptReason,
    /// The system message.
    pub message: String,
}

/// Why the loop sent the model a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptReason {
    /// Many results arrived together (loop rule 13).
    DigestResults,
    /// The same call is repeated (loop rule 14).
    RepeatedCalls,
    /// The profile has a note on a tool's result.
    ResultRule,
    /// The reply made no call, and the profile requires one.
    NoCalls,
    /// A check rejected a draft, and a larger role should answer.
    DraftCorrected,
    /// The answer was rejected, or a message arrived before it was given: the model should answer again.
    AnswerAgain,
}

/// Messages were left out to make the conversation fit (loop rule 13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextTrimmed {
    /// The number of messages that were removed.
    pub messages: u64,
    /// The estimated number of tokens by which the conversation shrank.
    pub tokens: u64,
    /// The positions they had in the conversation, not counting the system prompt, oldest first.
    pub removed: Vec<Span>,
    /// Results that were replaced by their summaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<ToolCallId>,
    /// The positions of the model's messages that stay but lost their reasoning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_reasoning: Vec<Span>,
    /// A user message that replaces the first of the removed messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A range of positions in a list, excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// The first position.
    pub start: u64,
    /// The position after the last.
    pub end: u64,
}

impl Span {
    pub(crate) fn contains(&self, place: usize) -> bool {
        u64::try_from(place).is_ok_and(|place| (self.start..self.end).contains(&place))
    }
}

/// The history was invalid on arrival and was repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryRepaired {
    /// The repairs, one sentence each.
    pub repairs: Vec<String>,
}

/// Part of the work was summarized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summarized {
    /// The summary.
    pub text: String,
}
