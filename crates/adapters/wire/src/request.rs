//! What every protocol needs to write requests: JSON without a tree, and what was encoded before.
//!
//! A request is written once, into one vector. What it shares with an earlier one, the messages and the tools, is taken over
//! as bytes ([`PrefixCache`], [`ToolsCache`]), so that a prompt's beginning stays the same byte for byte and the provider's
//! cache of prompts holds.

mod content;
mod ids;
mod json;
mod prefix;
mod refused;
mod strict;
mod tool_schema;
mod tools;

use neuraxis_core::{
    LlmError, LlmErrorKind, Message, ModelRequest, ReplyFormat, ToolChoice, Transcript,
};

pub use self::content::{
    check_media, is_from, is_web_address, left_out, result_text, text_of, unsupported,
    write_result_media, write_user_content,
};
pub(crate) use self::ids::strict_id;
pub use self::ids::{answered_id, call_id, hashed_id, is_plain_name, plain_name, short_id};
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
pub fn push_schema_message(messages: &mut Transcript, name: &str, schema: &str) {
    messages.push(Message::system(schema_instruction(name, schema)));
}

/// Returns what tells the model the form of its reply. Who is asked for JSON wants the word in the conversation.
#[must_use]
pub fn schema_instruction(name: &str, schema: &str) -> String {
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
