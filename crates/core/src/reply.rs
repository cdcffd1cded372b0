//! What a model answers: the whole reply, and the deltas that it is assembled from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::BlockIndex;
use crate::json::JsonText;
use crate::message::{ModelRef, ProviderState, ReasoningPart, TextPart};
use crate::usage::Usage;

/// A finished reply of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reply {
    /// Text, reasoning and requested calls, in the order the model gave them.
    pub parts: Vec<ReplyPart>,
    /// Why the model stopped.
    pub finish: ReplyFinish,
    /// The tokens it used.
    pub usage: Usage,
    /// The model that answered.
    pub model: ModelRef,
    /// What the program's code made of it before it counted, where that is not nothing. What the model wrote is then nowhere
    /// but in [`ReplyAdvice::AskAgain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Box<ReplyAdvice>>,
}

/// What a program's code made of a reply before it counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "advice", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyAdvice {
    /// Its text is the program's.
    Rewritten,
    /// It is not the answer: none of its calls runs, and the model is told why and asked again, as often as
    /// [`AnswerRule`](crate::AnswerRule) says.
    AskAgain {
        /// What is wrong with it and what to do, for the model.
        reason: String,
    },
    /// Its text is the program's, and the agent ends with it and
    /// [`FinishReason::Refused`](crate::FinishReason::Refused).
    Refused {
        /// Why, for the log.
        reason: String,
    },
}

/// One part of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyPart {
    /// Text for the reader.
    Text(TextPart),
    /// What the model thought on the way.
    Reasoning(ReasoningPart),
    /// A tool that the model wants to be called.
    ToolCall(RequestedCall),
}

/// A tool call as a model asked for it, before the loop gave it an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestedCall {
    /// The provider's id, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Arc<str>>,
    /// The tool's name; may name no tool.
    pub name: Arc<str>,
    /// The arguments; may not be JSON.
    pub arguments: JsonText,
    /// What the provider wants to see again with this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProviderState>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplyFinish {
    /// The reply is complete, and calls nothing.
    Stop,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It reached the output limit or the end of its context.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// The model refused, and its text says so.
    Refused,
}

impl Reply {
    /// Makes a complete reply of one text, of which nobody says how many tokens it took.
    pub fn from_text(text: impl Into<String>, model: ModelRef) -> Self {
        Self {
            parts: vec![ReplyPart::text(text)],
            finish: ReplyFinish::Stop,
            usage: Usage::UNKNOWN,
            model,
            advice: None,
        }
    }

    /// Returns all text for the reader, without reasoning.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            ReplyPart::Text(part) => Some(part.text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Returns all reasoning text.
    #[must_use]
    pub fn reasoning(&self) -> String {
        let thoughts = self.parts.iter().filter_map(|part| match part {
            ReplyPart::Reasoning(part) => Some(part.text.as_str()),
            _ => None,
        });
        thoughts.collect()
    }

    /// Returns why the model is to give another in its place, if it is.
    #[must_use]
    pub fn turned_down(&self) -> Option<&str> {
        match self.advice.as_deref()? {
            ReplyAdvice::AskAgain { reason } => Some(reason),
            ReplyAdvice::Rewritten | ReplyAdvice::Refused { .. } => None,
        }
    }

    /// Tells whether the agent ends with its text, because the program's code refused the request or what the model said.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self.advice.as_deref(), Some(ReplyAdvice::Refused { .. }))
    }

    /// Tells whether it was cut at its limit while it called tools: such calls are not run.
    #[must_use]
    pub fn has_cut_calls(&self) -> bool {
        self.finish == ReplyFinish::Length && self.calls().next().is_some()
    }

    /// Returns the calls the model asks for.
    pub fn calls(&self) -> impl Iterator<Item = &RequestedCall> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Takes the reply apart into the deltas of a stream that gives each part whole. Assembled again, they are the same
    /// reply, if its reasoning parts name the blocks they stand in.
    #[must_use]
    pub fn into_deltas(self) -> Vec<ReplyDelta> {
        let mut next = BlockIndex::default();
        let mut deltas = Vec::new();
        for part in self.parts {
            // A reasoning part knows its block; the others take the next one.
            let block = match &part {
                ReplyPart::Reasoning(reasoning) => reasoning.index.max(next),
                ReplyPart::Text(_) | ReplyPart::ToolCall(_) => next,
            };
            next = block.next();
            deltas.extend(part.into_deltas(block));
        }
        deltas.push(ReplyDelta::End(Box::new(ReplyEnd {
            finish: self.finish,
            usage: self.usage,
            model: self.model,
        })));
        deltas
    }
}

impl ReplyPart {
    /// Makes a text part.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Text(TextPart { text, state: None })
    }

    /// Returns its content, and what the provider wants to see again with it.
    fn into_deltas(self, block: BlockIndex) -> impl Iterator<Item = ReplyDelta> {
        let (content, id, signature, state) = match self {
            Self::Text(part) => {
                let text = part.text;
                (ReplyDelta::Text { block, text }, None, None, part.state)
            }
            Self::Reasoning(part) => {
                let text = part.text;
                let content = ReplyDelta::Reasoning { block, text };
                (content, part.id, part.signature, part.state)
            }
            Self::ToolCall(call) => {
                let content = ReplyDelta::ToolCall {
                    block,
                    provider_id: call.provider_id,
                    name: Some(call.name),
                    arguments: call.arguments.as_str().to_owned(),
                };
                (content, None, None, call.state)
            }
        };
        let has_state = id.is_some() || signature.is_some() || state.is_some();
        let state = has_state.then_some(ReplyDelta::State {
            block,
            id,
            signature,
            state,
        });
        std::iter::once(content).chain(state)
    }
}

/// A piece of a reply as it streams in. Every piece names the block, the part of the reply, that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyDelta {
    /// More text of a text part.
    Text {
        /// The part.
        block: BlockIndex,
        /// What it goes on with.
        text: String,
    },
    /// More text of a reasoning part.
    Reasoning {
        /// The part.
        block: BlockIndex,
        /// What it goes on with.
        text: String,
    },
    /// More of a tool call. Name and id come whole, once; arguments in fragments.
    ToolCall {
        /// The part.
        block: BlockIndex,
        /// The provider's id, when this piece brings it.
        provider_id: Option<Arc<str>>,
        /// The tool's name, when this piece brings it.
        name: Option<Arc<str>>,
        /// What the arguments go on with; may be empty.
        arguments: String,
    },
    /// What the provider wants to see again with a part.
    State {
        /// The part.
        block: BlockIndex,
        /// The provider's id of a reasoning part.
        id: Option<String>,
        /// The provider's signature over a reasoning part.
        signature: Option<String>,
        /// Anything else.
        state: Option<ProviderState>,
    },
    /// The reply is whole. A stream that ends without this was cut.
    End(Box<ReplyEnd>),
}

/// What is known of a reply once it is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyEnd {
    /// Why the model stopped.
    pub finish: ReplyFinish,
    /// The tokens it used.
    pub usage: Usage,
    /// The model that answered.
    pub model: ModelRef,
}
