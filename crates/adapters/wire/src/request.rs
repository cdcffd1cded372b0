//! What every protocol needs to write requests: JSON without a tree, and what was encoded before.
//!
//! A request is written once, into one vector. What it shares with an earlier one, the messages and the tools, is taken over
//! as bytes ([`PrefixCache`], [`ToolsCache`]), so that a prompt's beginning stays the same byte for byte and the provider's
//! cache of prompts holds.

mod content;
mod json;
mod prefix;
mod refused;
mod strict;
mod tools;

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, ContentHash, LlmError, LlmErrorKind, Message, ModelRequest, Part,
    ReplyFormat, ToolCall, ToolChoice, ToolMessage, Transcript,
};

pub use self::content::{
    call_id, is_from, is_web_address, left_out, result_text, text_of, unsupported,
    write_result_media, write_user_content,
};
pub use self::json::JsonWriter;
pub use self::prefix::{MessageEncoder, Prefix, PrefixCache};
pub use self::refused::RefusedReasoning;
pub use self::strict::strict_schema;
pub use self::tools::{ToolDefinition, ToolsCache, WriteTool};

/// How a reply is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// In one document.
    Whole,
    /// Event by event.
    Streamed,
}

/// Returns the id by which the server knows the call that a result answers; `id` tells it of a call in a message.
pub fn id_of_call<'a, T>(
    result: &'a ToolMessage,
    before: &'a [Arc<Message>],
    id: impl Fn(&'a AssistantMessage, &'a ToolCall) -> T,
) -> Option<T> {
    let assistants = before.iter().rev().filter_map(|message| match &**message {
        Message::Assistant(message) => Some(message),
        _ => None,
    });
    assistants
        .filter_map(|message| {
            message.parts.iter().find_map(|part| match part {
                Part::ToolCall(call) if call.id == result.tool_call_id => Some(id(message, call)),
                _ => None,
            })
        })
        .next()
}

/// How many digits of a hash stand for an id that is too long: as many as a random one has.
const SHORT_ID_DIGITS: usize = 32;

/// Returns the id of a call, or a short one made from it if it has more bytes than the server takes.
#[must_use]
pub fn short_id(id: &str, longest: usize) -> Cow<'_, str> {
    if id.len() <= longest {
        return id.into();
    }
    let hash = ContentHash::of(id.as_bytes()).to_string();
    format!("call_{hash:.SHORT_ID_DIGITS$}").into()
}

/// How many letters and digits the id of a call has where a server takes no other ids.
const STRICT_ID_DIGITS: usize = 9;

/// Returns the id of a call, or one of nine digits made from it if it is not of nine letters and digits.
pub(crate) fn strict_id(id: Cow<'_, str>) -> Cow<'_, str> {
    if id.len() == STRICT_ID_DIGITS && id.bytes().all(|sign| sign.is_ascii_alphanumeric()) {
        return id;
    }
    let hash = ContentHash::of(id.as_bytes()).to_string();
    format!("{hash:.STRICT_ID_DIGITS$}").into()
}

/// Refuses a request that demands a call of a tool which it does not offer.
///
/// # Errors
///
/// [`LlmErrorKind::BadRequest`].
pub fn check_named_tool(request: &ModelRequest) -> Result<(), LlmError> {
    match &request.tool_choice {
        ToolChoice::Named(name) if !request.tools.iter().any(|tool| tool.name == *name) => {
            let said = format!("the tool {name} must be called but is not offered");
            Err(LlmError::new(LlmErrorKind::BadRequest, said))
        }
        _ => Ok(()),
    }
}

/// Writes name, schema and strictness of the form that a reply must have, as fields of an object begun before.
///
/// # Errors
///
/// [`LlmErrorKind::BadRequest`], when the schema is no JSON.
pub fn write_schema(json: &mut JsonWriter<'_>, name: &str, schema: &str) -> Result<(), LlmError> {
    let strict = strict_schema(schema);
    if strict.is_none() && serde_json::from_str::<serde::de::IgnoredAny>(schema).is_err() {
        let said = format!("the schema of the reply format {name} is not JSON");
        return Err(LlmError::new(LlmErrorKind::BadRequest, said));
    }
    json.raw(r#""name":"#);
    json.string(name);
    json.raw(r#","schema":"#);
    json.raw(strict.as_deref().unwrap_or(schema));
    json.raw(r#","strict":"#);
    json.raw(if strict.is_some() { "true" } else { "false" });
    Ok(())
}

/// Tells the model the form of its reply, for servers that know no schemas: in a message of its own, after all others, so that
/// what was sent before stays as it was.
pub fn tell_schema(messages: &mut Transcript, name: &str, schema: &str) {
    messages.push(Message::system(told_schema(name, schema)));
}

/// Returns what tells the model the form of its reply. Who is asked for JSON wants the word in the conversation.
#[must_use]
pub fn told_schema(name: &str, schema: &str) -> String {
    format!(
        "Reply with one json object, {name}, and nothing else. It must fit this JSON Schema: {schema}"
    )
}

/// Returns name and schema of the form that a reply must have, if it must have one.
#[must_use]
pub fn schema_of(format: &ReplyFormat) -> Option<(&str, &str)> {
    match format {
        ReplyFormat::Text => None,
        ReplyFormat::JsonSchema { name, schema } => Some((name, schema.as_str())),
    }
}
