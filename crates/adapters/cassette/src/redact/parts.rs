//! Removes secrets from requests and from what came back.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, BlockIndex, JsonText, LlmError, MediaPart, MediaSource, Message,
    ModelRequest, Part, ProviderState, ReasoningPart, Reply, ReplyDelta, ReplyFormat, ReplyPart,
    RequestedCall, TextPart, ToolCall, ToolMessage, ToolSpec,
};

use super::Redactor;
use crate::exchange::Event;
use crate::recording::StatePolicy;

/// The text that a piece belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    Text(BlockIndex),
    Reasoning(BlockIndex),
    Arguments(BlockIndex),
}

impl Redactor {
    /// Returns a request without its secrets and, depending on `state`, without provider state.
    pub(crate) fn request(&self, request: &ModelRequest, state: StatePolicy) -> ModelRequest {
        let messages = request.messages.messages().iter();
        let reply_format = match &request.reply_format {
            ReplyFormat::JsonSchema { name, schema } => ReplyFormat::JsonSchema {
                name: Arc::clone(name),
                schema: self.json(schema),
            },
            ReplyFormat::Text => ReplyFormat::Text,
        };
        ModelRequest {
            messages: messages
                .map(|message| self.message(message, state))
                .collect(),
            tools: request.tools.iter().map(|tool| self.tool(tool)).collect(),
            reply_format,
            ..request.clone()
        }
    }

    /// Returns a message without its secrets.
    pub(crate) fn message(&self, message: &Message, state: StatePolicy) -> Message {
        let parts = |parts: &[Part]| parts.iter().map(|part| self.part(part, state)).collect();
        match message {
            Message::System { text } => Message::System {
                text: self.owned(text),
            },
            Message::User { parts: all } => Message::User { parts: parts(all) },
            Message::Assistant(message) => Message::Assistant(AssistantMessage {
                parts: parts(&message.parts),
                model: message.model.clone(),
            }),
            Message::Tool(message) => Message::Tool(ToolMessage {
                tool_call_id: message.tool_call_id.clone(),
                name: self.owned(&message.name).into(),
                content: self.json(&message.content),
                media: message.media.iter().map(|part| self.media(part)).collect(),
            }),
        }
    }

    /// Returns a tool without its secrets.
    pub(crate) fn tool(&self, tool: &ToolSpec) -> ToolSpec {
        ToolSpec {
            description: self.text(&tool.description).into(),
            parameters: self.json(&tool.parameters),
            ..tool.clone()
        }
    }

    /// Removes secrets from what came back, including texts that came in pieces.
    pub(crate) fn events(&self, events: &mut [(u64, Event)], state: StatePolicy) {
        let mut pieces: BTreeMap<Channel, Vec<&mut String>> = BTreeMap::new();
        for (_, event) in events {
            match event {
                Event::Open => {}
                Event::Reply(reply) => self.reply(reply, state),
                Event::Error(error) => self.error(error),
                Event::Delta(delta) => {
                    if let Some((channel, piece)) = self.delta(delta, state) {
                        pieces.entry(channel).or_default().push(piece);
                    }
                }
            }
        }
        for pieces in pieces.values_mut() {
            self.pieces(pieces);
        }
    }

    /// Removes secrets from the complete fields of a piece, and returns the text that comes in pieces.
    fn delta<'a>(
        &self,
        delta: &'a mut ReplyDelta,
        policy: StatePolicy,
    ) -> Option<(Channel, &'a mut String)> {
        match delta {
            ReplyDelta::Text { block, text } => Some((Channel::Text(*block), text)),
            ReplyDelta::Reasoning { block, text } => Some((Channel::Reasoning(*block), text)),
            ReplyDelta::ToolCall {
                block,
                provider_id,
                name,
                arguments,
            } => {
                self.replace(provider_id);
                self.replace(name);
                Some((Channel::Arguments(*block), arguments))
            }
            ReplyDelta::State {
                id,
                signature,
                state,
                ..
            } => {
                self.replace(id);
                *signature = policy.filter(signature.take());
                self.replace(signature);
                *state = self.state(state.as_ref(), policy);
                None
            }
            ReplyDelta::End(_) => None,
        }
    }

    fn reply(&self, reply: &mut Reply, state: StatePolicy) {
        for part in &mut reply.parts {
            *part = match part {
                ReplyPart::Text(part) => ReplyPart::Text(self.text_part(part, state)),
                ReplyPart::Reasoning(part) => ReplyPart::Reasoning(self.reasoning(part, state)),
                ReplyPart::ToolCall(call) => ReplyPart::ToolCall(RequestedCall {
                    provider_id: call.provider_id.as_deref().map(|id| self.owned(id).into()),
                    name: self.owned(&call.name).into(),
                    arguments: self.json(&call.arguments),
                    state: self.state(call.state.as_ref(), state),
                }),
            };
        }
    }

    fn error(&self, error: &mut LlmError) {
        error.message = self.owned(&error.message);
    }

    fn part(&self, part: &Part, state: StatePolicy) -> Part {
        match part {
            Part::Text(part) => Part::Text(self.text_part(part, state)),
            Part::Reasoning(part) => Part::Reasoning(self.reasoning(part, state)),
            Part::ToolCall(call) => Part::ToolCall(ToolCall {
                id: call.id.clone(),
                name: self.owned(&call.name).into(),
                arguments: self.json(&call.arguments),
                provider_id: call.provider_id.as_deref().map(|id| self.owned(id).into()),
                state: self.state(call.state.as_ref(), state),
            }),
            Part::Media(part) => Part::Media(self.media(part)),
            other => other.clone(),
        }
    }

    fn media(&self, part: &MediaPart) -> MediaPart {
        MediaPart {
            media_type: part.media_type.clone(),
            source: match &part.source {
                MediaSource::Url(url) => MediaSource::Url(self.owned(url)),
                content @ MediaSource::Base64(_) => content.clone(),
            },
        }
    }

    fn text_part(&self, part: &TextPart, state: StatePolicy) -> TextPart {
        TextPart {
            text: self.owned(&part.text),
            state: self.state(part.state.as_ref(), state),
        }
    }

    fn reasoning(&self, part: &ReasoningPart, state: StatePolicy) -> ReasoningPart {
        let signature = state.filter(part.signature.as_deref());
        ReasoningPart {
            index: part.index,
            text: self.owned(&part.text),
            id: part.id.as_deref().map(|id| self.owned(id)),
            signature: signature.map(|signature| self.owned(signature)),
            state: self.state(part.state.as_ref(), state),
        }
    }

    fn state(&self, state: Option<&ProviderState>, policy: StatePolicy) -> Option<ProviderState> {
        policy.filter(state).map(|state| self.json(state))
    }

    fn json(&self, json: &JsonText) -> JsonText {
        match self.text(json.as_str()) {
            std::borrow::Cow::Borrowed(_) => json.clone(),
            std::borrow::Cow::Owned(clean) => JsonText::from_text(clean),
        }
    }

    fn replace<Shown: AsRef<str> + From<String>>(&self, text: &mut Option<Shown>) {
        if let Some(text) = text {
            *text = self.owned(text.as_ref()).into();
        }
    }

    fn owned(&self, text: &str) -> String {
        self.text(text).into_owned()
    }
}
