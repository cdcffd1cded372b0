//! What a model answers: the whole reply, and the deltas it is assembled from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::BlockIndex;
use crate::json::JsonText;
use crate::message::{ModelRef, ProviderState, ReasoningPart, TextPart};
use crate::usage::Usage;

/// A complete reply of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reply {
    /// Text, reasoning and requested calls, in the order in which the model produced them.
    pub parts: Vec<ReplyPart>,
    /// Why the model stopped.
    pub finish: ReplyFinish,
    /// The tokens it used.
    pub usage: Usage,
    /// The model that answered.
    pub model: ModelRef,
    /// How the program's code changed the reply before it took effect, if it did. What the model wrote is then recorded
    /// only with [`ReplyAdvice::AskAgain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Box<ReplyAdvice>>,
}

/// How a program's code changed a reply before it took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "advice", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyAdvice {
    /// Its text comes from the program.
    Rewritten,
    /// It is not the answer: none of its calls runs, and the model is told why and asked again, up to the number of
    /// times that [`AnswerRule`](crate::AnswerRule) allows.
    AskAgain {
        /// What is wrong with it and what to do, for the model.
        reason: String,
    },
    /// Its text comes from the program, and the agent ends with it and
    /// [`FinishReason::Refused`](crate::FinishReason::Refused).
    Refused {
        /// The reason, for the log.
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
    /// The model's reasoning.
    Reasoning(ReasoningPart),
    /// A tool call that the model requests.
    ToolCall(RequestedCall),
}

/// A tool call as the model requested it, before the loop assigned an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestedCall {
    /// The provider's id, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Arc<str>>,
    /// The tool's name; the tool may not exist.
    pub name: Arc<str>,
    /// The arguments; may not be JSON.
    pub arguments: JsonText,
    /// State that the provider wants back with this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProviderState>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplyFinish {
    /// The reply is complete and makes no calls.
    Stop,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It reached the output limit or the end of its context.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// The model refused; its text says so.
    Refused,
}

impl Reply {
    /// Creates a complete reply with one text part and unknown usage.
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

    /// Returns why the model should give another reply instead, if it should.
    #[must_use]
    pub fn turned_down(&self) -> Option<&str> {
        match self.advice.as_deref()? {
            ReplyAdvice::AskAgain { reason } => Some(reason),
            ReplyAdvice::Rewritten | ReplyAdvice::Refused { .. } => None,
        }
    }

    /// Returns whether the agent ends with its text because the program's code refused the request or the reply.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self.advice.as_deref(), Some(ReplyAdvice::Refused { .. }))
    }

    /// Returns whether it was cut off at its limit while making calls: such calls do not run.
    #[must_use]
    pub fn has_cut_calls(&self) -> bool {
        self.finish == ReplyFinish::Length && self.calls().next().is_some()
    }

    /// Returns whether it only says that no model was available to answer, and how to get one: its [`model`](Self::model)
    /// is [`ModelRef::no_model`]. Programs do not treat it as an answer.
    #[must_use]
    pub fn is_no_answer(&self) -> bool {
        self.model == ModelRef::no_model()
    }

    /// Returns the calls that the model requests.
    pub fn calls(&self) -> impl Iterator<Item = &RequestedCall> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Splits the reply into the deltas of a stream that delivers each part whole. Reassembled, they give the same
    /// reply, if its reasoning parts name the blocks they are in.
    #[must_use]
    pub fn into_deltas(self) -> Vec<ReplyDelta> {
        let mut next = BlockIndex::default();
        let mut deltas = Vec::new();
        for part in self.parts {
            // A reasoning part knows its block; the others use the next one.
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
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Text(TextPart { text, state: None })
    }

    /// Returns its content, and the state that the provider wants back with it.
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
        /// The next piece of the text.
        text: String,
    },
    /// More text of a reasoning part.
    Reasoning {
        /// The part.
        block: BlockIndex,
        /// The next piece of the reasoning.
        text: String,
    },
    /// More of a tool call. Name and id are sent once and complete; arguments in fragments.
    ToolCall {
        /// The part.
        block: BlockIndex,
        /// The provider's id, if this piece contains it.
        provider_id: Option<Arc<str>>,
        /// The tool's name, if this piece contains it.
        name: Option<Arc<str>>,
        /// The next piece of the arguments; may be empty.
        arguments: String,
    },
    /// State that the provider wants back with a part.
    State {
        /// The part.
        block: BlockIndex,
        /// The provider's id of a reasoning part.
        id: Option<String>,
        /// The provider's signature over a reasoning part.
        signature: Option<String>,
        /// Any other state.
        state: Option<ProviderState>,
    },
    /// The reply is complete. A stream that ends without this was cut off.
    End(Box<ReplyEnd>),
}

/// What is known about a reply once it is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyEnd {
    /// Why the model stopped.
    pub finish: ReplyFinish,
    /// The tokens it used.
    pub usage: Usage,
    /// The model that answered.
    pub model: ModelRef,
}
