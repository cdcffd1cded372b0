//! Messages: the entries of a conversation, with content as ordered parts.
//!
//! State that a provider wants back (reasoning signatures, encrypted items, its own call ids) is stored beside the part
//! it belongs to. It is opaque to this crate and only ever sent to the provider and model that produced it.

mod digest;
mod media;

pub use media::MediaTypes;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{BlockIndex, ToolCallId};
use crate::json::JsonText;

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions from the deployment, or a note from the loop to the model.
    System {
        /// The instructions.
        text: String,
    },
    /// What a user or a parent agent said.
    User {
        /// Text and media, in order.
        parts: Vec<Part>,
    },
    /// What a model answered.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    Tool(ToolMessage),
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssistantMessage {
    /// Text, reasoning and tool calls, in the order in which the model produced them.
    pub parts: Vec<Part>,
    /// The model that answered: the parts' provider state is sent to no other. `None` for a history from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
}

/// The result of one tool call, as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolMessage {
    /// The call that this answers.
    pub tool_call_id: ToolCallId,
    /// The tool's name, as the model wrote it.
    pub name: Arc<str>,
    /// The value, as JSON text.
    pub content: JsonText,
    /// Images and files that the tool returned beside its value. Usually empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaPart>,
}

/// A provider and one of its models.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelRef {
    /// The provider, such as `openai`; the name of an adapter.
    pub provider: Arc<str>,
    /// The model's name at that provider.
    pub model: Arc<str>,
}

impl ModelRef {
    /// Names a provider's model.
    pub fn new(provider: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
        }
    }

    /// Marks a [reply that is no answer](crate::Reply::is_no_answer).
    #[must_use]
    pub fn no_model() -> Self {
        Self::new("offline", "no-rule")
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// One part of a message's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Text for the reader.
    Text(TextPart),
    /// The model's reasoning.
    Reasoning(ReasoningPart),
    /// A tool call that the model requests. Only in assistant messages.
    ToolCall(ToolCall),
    /// An image, a sound or a file.
    Media(MediaPart),
}

/// Text for the reader.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// State that the provider wants back with this part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProviderState>,
}

/// The model's reasoning before its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReasoningPart {
    /// The part's position among the blocks of its reply.
    pub index: BlockIndex,
    /// The reasoning, or its summary; may be empty if the provider reveals none.
    pub text: String,
    /// The provider's id of this reasoning item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The provider's signature over the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Other state that the provider wants back, such as encrypted content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProviderState>,
}

/// A tool call in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// The loop's id.
    pub id: ToolCallId,
    /// The tool's name as the model wrote it; the tool may not exist.
    pub name: Arc<str>,
    /// The arguments as the model wrote them; may not be JSON.
    pub arguments: JsonText,
    /// The provider's id, to be sent back to that provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Arc<str>>,
    /// Other state that the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProviderState>,
}

/// An image, a sound or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MediaPart {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// Where the content is.
    pub source: MediaSource,
}

/// Where the content of a media part is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MediaSource {
    /// Inline, in base64.
    Base64(Arc<str>),
    /// At a URL that the provider fetches.
    Url(String),
}

/// Opaque data of a provider, stored as its original JSON text.
pub type ProviderState = JsonText;

impl Message {
    /// Creates a system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { text: text.into() }
    }

    /// Creates a user message with one text part.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            parts: vec![Part::text(text)],
        }
    }

    /// Creates an assistant message with one text part.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage {
            parts: vec![Part::text(text)],
            model: None,
        })
    }

    /// Creates the message with the result of a tool call, given as JSON: for a caller that runs its own tools.
    ///
    /// ```
    /// use neuraxis_core::{JsonText, Message, ToolCallId};
    ///
    /// let call = ToolCallId::from_text("call_1");
    /// let message = Message::tool_result(call, "weather", JsonText::from_text(r#"{"celsius":11.5}"#));
    /// assert_eq!(message.text(), r#"{"celsius":11.5}"#);
    /// ```
    pub fn tool_result(call: ToolCallId, tool: impl Into<Arc<str>>, value: JsonText) -> Self {
        Self::Tool(ToolMessage {
            tool_call_id: call,
            name: tool.into(),
            content: value,
            media: Vec::new(),
        })
    }

    /// Returns all text for the reader, without reasoning.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::System { text } => text.clone(),
            Self::User { parts } | Self::Assistant(AssistantMessage { parts, .. }) => {
                parts.iter().filter_map(Part::as_text).collect()
            }
            Self::Tool(tool) => tool.content.as_str().to_owned(),
        }
    }

    /// Returns the tool calls that an assistant message makes.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let parts: &[Part] = match self {
            Self::Assistant(message) => &message.parts,
            _ => &[],
        };
        parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

impl Part {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart {
            text: text.into(),
            state: None,
        })
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(part) => Some(&part.text),
            _ => None,
        }
    }
}
