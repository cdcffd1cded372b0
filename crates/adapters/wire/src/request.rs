//! What every protocol needs to write requests: JSON without a tree, and a cache of encoded content.
//!
//! A request is written once, into one vector. What it shares with an earlier one, messages and tools, is copied as
//! bytes ([`PrefixCache`], [`ToolsCache`]). The beginning of a prompt therefore stays the same, byte for byte, and the
//! provider's prompt cache can be used.

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
    check_media, is_from, is_web_address, omission_note, result_text, text_of, unsupported,
    write_result_media, write_user_content,
};
pub(crate) use self::ids::strict_id;
pub use self::ids::{answered_id, call_id, hashed_id, is_plain_name, plain_name, short_id};
pub use self::json::JsonWriter;
pub use self::prefix::{MessageEncoder, Prefix, PrefixCache};
pub use self::refused::RefusedReasoning;
pub use self::strict::strict_schema;
pub use self::tools::{ToolDefinition, ToolsCache, WriteTool};

/// How a reply is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// In one document.
    Whole,
    /// As a stream of events.
    Streamed,
}

/// Refuses a request that requires a call of a tool that it does not offer.
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

/// Writes the name, schema and strictness of a required reply form, as fields of an object that has been started.
///
/// # Errors
///
/// [`LlmErrorKind::BadRequest`] if the schema is not JSON.
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

/// Describes the required form of the reply to the model, for servers that do not support schemas: in a separate
/// message after all others, so earlier content stays unchanged.
pub fn push_schema_message(messages: &mut Transcript, name: &str, schema: &str) {
    messages.push(Message::system(schema_instruction(name, schema)));
}

/// Returns the description of the required reply form. Servers asked for JSON want the word in the conversation.
#[must_use]
pub fn schema_instruction(name: &str, schema: &str) -> String {
    format!(
        "Reply with one json object, {name}, and nothing else. It must fit this JSON Schema: {schema}"
    )
}

/// Returns the name and schema of the required reply form, if there is one.
#[must_use]
pub fn schema_of(format: &ReplyFormat) -> Option<(&str, &str)> {
    match format {
        ReplyFormat::Text => None,
        ReplyFormat::JsonSchema { name, schema } => Some((name, schema.as_str())),
    }
}
