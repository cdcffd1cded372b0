//! Live events: what is shown at once and never stored.
//!
//! A live event names the last committed record and the call it belongs to. When the call ends, its record holds the
//! whole text, so that a listener that missed events, or came later, ends with the same text as everybody else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, Attempt, BlockIndex, ContentIndex, EffectId, RunId, Seq, ToolCallId};
use crate::question::{OpenQuestion, QuestionId, QuestionOutcome};

/// Something to show at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveEvent {
    /// The last record that was committed before.
    pub after: Seq,
    /// The model call or tool batch it belongs to.
    pub content_index: ContentIndex,
    /// The run.
    pub run_id: RunId,
    /// The agent.
    pub agent: AgentId,
    /// The effect, a model call or tool call, it belongs to.
    pub call: EffectId,
    /// The attempt of that effect.
    pub attempt: Attempt,
    /// The part of the reply, or 0 for a tool.
    pub block: BlockIndex,
    /// Where the text begins: bytes of the same block and attempt that came before, those that are heard once more included.
    pub offset: u64,
    /// A piece of text or of reasoning, how far a tool has come, or what it asks.
    #[serde(flatten)]
    pub body: LiveBody,
}

/// A piece of text or of reasoning, how far a tool has come, or what it asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LiveBody {
    /// More of the model's thoughts.
    ReasoningDelta {
        /// What they go on with.
        text: String,
    },
    /// More of the model's answer.
    TextDelta {
        /// What it goes on with.
        text: String,
    },
    /// More of a tool call's arguments.
    ToolCallDelta {
        /// The tool's name, with the first piece.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Arc<str>>,
        /// What the arguments go on with.
        arguments: String,
    },
    /// All text shown of this call so far is void: the call failed, or starts anew.
    TextRetracted,
    /// A tool has begun to run and is not done at once.
    ToolStart {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        name: Arc<str>,
    },
    /// How far a tool is.
    ToolProgress {
        /// The call.
        tool_call_id: ToolCallId,
        /// What it is doing.
        name: String,
        /// A sign to show beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        icon: Option<String>,
        /// Steps done, and steps in all where known.
        steps: Option<ProgressSteps>,
    },
    /// Partial output of a tool.
    ToolOutput {
        /// The call.
        tool_call_id: ToolCallId,
        /// What the output goes on with.
        text: String,
    },
    /// A tool asks a person in the middle of its call, and waits. The question dies with the call: no record tells of it.
    Question(Arc<OpenQuestion>),
    /// Nobody has to answer a question any more. The result of its call says so, too.
    QuestionSettled {
        /// The question.
        question_id: QuestionId,
        /// The call that asked.
        tool_call_id: ToolCallId,
        /// What became of it.
        outcome: QuestionOutcome,
    },
}

impl LiveBody {
    /// Returns the name of the event's type.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ReasoningDelta { .. } => "reasoning_delta",
            Self::TextDelta { .. } => "text_delta",
            Self::ToolCallDelta { .. } => "tool_call_delta",
            Self::TextRetracted => "text_retracted",
            Self::ToolStart { .. } => "tool_start",
            Self::ToolProgress { .. } => "tool_progress",
            Self::ToolOutput { .. } => "tool_output",
            Self::Question(_) => "question",
            Self::QuestionSettled { .. } => "question_settled",
        }
    }
}

/// How far something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgressSteps {
    /// Steps done.
    pub done: u64,
    /// Steps in all, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::question::Question;

    #[test]
    fn an_events_kind_is_the_type_it_has_on_the_wire() {
        let (text, name) = (String::new, String::new);
        let tool_call_id = || ToolCallId::from_text("c");
        let bodies = [
            LiveBody::ReasoningDelta { text: text() },
            LiveBody::TextDelta { text: text() },
            LiveBody::ToolCallDelta {
                name: None,
                arguments: text(),
            },
            LiveBody::TextRetracted,
            LiveBody::ToolStart {
                tool_call_id: tool_call_id(),
                name: name().into(),
            },
            LiveBody::ToolProgress {
                tool_call_id: tool_call_id(),
                name: name(),
                icon: None,
                steps: None,
            },
            LiveBody::ToolOutput {
                tool_call_id: tool_call_id(),
                text: text(),
            },
            LiveBody::Question(Arc::new(OpenQuestion::new(
                QuestionId::from_text("q"),
                tool_call_id(),
                Timestamp::UNIX_EPOCH,
                Question::new("shop", "Really?"),
            ))),
            LiveBody::QuestionSettled {
                question_id: QuestionId::from_text("q"),
                tool_call_id: tool_call_id(),
                outcome: QuestionOutcome::Answered,
            },
        ];
        for body in bodies {
            let wire = serde_json::to_value(&body).unwrap();
            assert_eq!(wire["type"], body.kind());
        }
    }
}
