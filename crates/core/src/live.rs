//! Live events: shown immediately and never stored.
//!
//! A live event names the last committed record and the call it belongs to. When the call ends, its record contains the
//! whole text, so a listener that missed events or joined late ends up with the same text as the others.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, Attempt, BlockIndex, ContentIndex, EffectId, RunId, Seq, ToolCallId};
use crate::question::{OpenQuestion, QuestionId, QuestionOutcome};

/// Something to show immediately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveEvent {
    /// The last record that was committed before this event.
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
    /// The part of the reply; 0 for a tool.
    pub block: BlockIndex,
    /// Where the text begins: the number of earlier bytes of UTF-8 in the same block and attempt, including bytes that
    /// are replayed.
    pub offset: u64,
    /// A piece of text or reasoning, the progress of a tool, or a question it asks.
    #[serde(flatten)]
    pub body: LiveBody,
}

/// A piece of text or reasoning, the progress of a tool, or a question it asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LiveBody {
    /// More of the model's reasoning.
    ReasoningDelta {
        /// The next piece of the reasoning.
        text: String,
    },
    /// More of the model's answer.
    TextDelta {
        /// The next piece of the answer.
        text: String,
    },
    /// More of a tool call's arguments. In the order of their blocks, the calls of a reply are those with the indexes 0,
    /// 1 and so on, from which their ids derive.
    ToolCallDelta {
        /// The tool's name; only in the first piece.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Arc<str>>,
        /// The next piece of the arguments.
        arguments: String,
    },
    /// All text shown of this call so far is void: the call failed, or starts over.
    TextRetracted,
    /// A tool has started and did not finish immediately.
    ToolStart {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        name: Arc<str>,
    },
    /// The progress of a tool.
    ToolProgress {
        /// The call.
        tool_call_id: ToolCallId,
        /// What it is doing.
        name: String,
        /// An icon to show beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        icon: Option<String>,
        /// Steps done, and total steps if known.
        steps: Option<ProgressSteps>,
    },
    /// Partial output of a tool.
    ToolOutput {
        /// The call.
        tool_call_id: ToolCallId,
        /// The next piece of the output.
        text: String,
    },
    /// A tool asks the user during its call, and waits. The question ends with the call, and no record contains it.
    Question(Arc<OpenQuestion>),
    /// A question no longer needs an answer. The result of its call shows this too.
    QuestionSettled {
        /// The question.
        question_id: QuestionId,
        /// The call that asked.
        tool_call_id: ToolCallId,
        /// How the question ended.
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

/// The progress of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgressSteps {
    /// Steps done.
    pub done: u64,
    /// Total steps, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::question::Question;

    #[test]
    fn the_kind_of_an_event_is_its_type_on_the_wire() {
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
