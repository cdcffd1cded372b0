//! Encodes requests. No message is encoded twice: what a request shares with an earlier one is taken over as bytes, which
//! also makes sure that a prompt's beginning stays the same byte for byte.

mod json;
mod media;
mod message;
mod prefix;
mod tools;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, Message, ModelRequest, ToolChoice, ToolSpec};

use self::json::Json;
use self::message::Rules;
use self::prefix::PrefixCache;
use self::tools::{ToolsCache, encode_tools};
use crate::chat::dialect::{Dialect, LateSystem, ParallelCalls, ToolChoices, TrailingAssistant};

/// What a server that would go on with a trailing assistant message is told instead.
const GO_ON: &str = "Please go on.";

/// How a reply is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    Streamed,
}

/// Encodes the requests to one model.
#[derive(Debug)]
pub(super) struct Encoder {
    dialect: Dialect,
    /// The body up to the first message.
    head: String,
    prefixes: PrefixCache,
    tools: ToolsCache,
    refuses_late_system: AtomicBool,
}

/// The tools that are sent, and what is said about calling them.
enum Offer<'a> {
    Nothing,
    All(&'a Arc<[ToolSpec]>, Choice<'a>),
    Only(&'a ToolSpec),
}

enum Choice<'a> {
    Auto,
    None,
    Required,
    Named(&'a str),
}

impl Encoder {
    pub(super) fn new(model: &str, dialect: Dialect) -> Self {
        let mut head = Vec::new();
        let mut json = Json(&mut head);
        json.raw(r#"{"model":"#);
        json.string(model);
        json.raw(r#","messages":["#);
        Self {
            dialect,
            head: String::from_utf8(head).unwrap_or_default(),
            prefixes: PrefixCache::default(),
            tools: ToolsCache::default(),
            refuses_late_system: AtomicBool::new(false),
        }
    }

    /// Encodes a request.
    ///
    /// # Errors
    ///
    /// [`LlmErrorKind::BadRequest`] for what this protocol cannot express.
    pub(super) fn body(
        &self,
        request: &ModelRequest,
        delivery: Delivery,
    ) -> Result<Bytes, LlmError> {
        let offer = self.offer(request)?;
        let tools = match &offer {
            Offer::Nothing => Bytes::new(),
            Offer::All(tools, _) => self.tools.encoded(tools)?,
            Offer::Only(tool) => encode_tools(std::slice::from_ref(*tool))?,
        };
        let messages = request.messages.messages();
        let prefix = self.prefixes.encoded(messages, &self.rules(messages))?;
        let encoded = prefix.bytes();
        let room = self.head.len() + encoded.len() + tools.len() + 512;
        let mut body = Vec::with_capacity(room);
        let mut json = Json(&mut body);
        json.raw(&self.head);
        json.bytes(encoded);
        if self.dialect.trailing_assistant == TrailingAssistant::Prompted
            && matches!(
                messages.last().map(Arc::as_ref),
                Some(Message::Assistant(_))
            )
        {
            json.raw(",");
            json.role_and_text("user", GO_ON);
            json.raw("}");
        }
        json.raw("]");
        self.prefixes.keep(prefix);
        self.write_tools(&mut json, &offer, &tools);
        self.write_settings(&mut json, request, delivery);
        json.raw("}");
        Ok(body.into())
    }

    /// Sends late system messages as user messages from now on; false if that changes nothing for this request.
    pub(super) fn avoid_late_system(&self, request: &ModelRequest) -> bool {
        let is_late = |message: &Arc<Message>| matches!(**message, Message::System { .. });
        let has_late = request.messages.messages().iter().skip(1).any(is_late);
        has_late
            && self.dialect.late_system == LateSystem::Auto
            && !self.refuses_late_system.swap(true, Ordering::Relaxed)
    }

    fn rules(&self, messages: &[Arc<Message>]) -> Rules {
        let late_as_user = match self.dialect.late_system {
            LateSystem::System => false,
            LateSystem::User => true,
            LateSystem::Auto => self.refuses_late_system.load(Ordering::Relaxed),
        };
        Rules::new(self.dialect, late_as_user, messages)
    }

    fn offer<'a>(&self, request: &'a ModelRequest) -> Result<Offer<'a>, LlmError> {
        let tools = &request.tools;
        if tools.is_empty() {
            return Ok(Offer::Nothing);
        }
        Ok(match (&request.tool_choice, self.dialect.tool_choices) {
            (ToolChoice::Auto, _) => Offer::All(tools, Choice::Auto),
            (ToolChoice::None, ToolChoices::Ignored) => Offer::Nothing,
            (ToolChoice::None, _) => Offer::All(tools, Choice::None),
            (ToolChoice::Required, _) => Offer::All(tools, Choice::Required),
            (ToolChoice::Named(name), support) => {
                let Some(tool) = tools.iter().find(|tool| tool.name == *name) else {
                    let said = format!("the tool {name} must be called but is not offered");
                    return Err(LlmError::new(LlmErrorKind::BadRequest, said));
                };
                if support == ToolChoices::All {
                    Offer::All(tools, Choice::Named(tool.name.as_str()))
                } else {
                    Offer::Only(tool)
                }
            }
        })
    }

    fn write_tools(&self, json: &mut Json<'_>, offer: &Offer<'_>, tools: &Bytes) {
        let choice = match offer {
            Offer::Nothing => return,
            Offer::All(_, choice) => choice,
            Offer::Only(_) => &Choice::Required,
        };
        json.raw(r#","tools":"#);
        json.bytes(tools);
        match choice {
            Choice::Auto => {}
            Choice::None => json.raw(r#","tool_choice":"none""#),
            Choice::Required => json.raw(r#","tool_choice":"required""#),
            Choice::Named(name) => {
                json.raw(r#","tool_choice":{"type":"function","function":{"name":"#);
                json.string(name);
                json.raw("}}");
            }
        }
        if self.dialect.parallel_calls == ParallelCalls::Asked {
            json.raw(r#","parallel_tool_calls":true"#);
        }
    }

    fn write_settings(&self, json: &mut Json<'_>, request: &ModelRequest, delivery: Delivery) {
        if let Some(most) = request.max_output_tokens {
            json.raw(",");
            json.string(self.dialect.max_tokens_field);
            json.raw(":");
            json.raw(&most.to_string());
        }
        if let Some(temperature) = request.temperature.filter(|number| number.is_finite()) {
            json.raw(r#","temperature":"#);
            json.raw(&temperature.to_string());
        }
        if delivery == Delivery::Streamed {
            json.raw(r#","stream":true,"stream_options":{"include_usage":true}"#);
        }
    }
}

#[cfg(test)]
mod tests;
