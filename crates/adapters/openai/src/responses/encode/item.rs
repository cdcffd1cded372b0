//! Encodes one message as items.

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, LlmError, MediaPart, MediaSource, Message, Part, ReasoningPart, TextPart,
    ToolCall, ToolMessage,
};
use neuraxis_wire::request::{
    JsonWriter, MessageEncoder, answered_id, call_id, is_from, is_web_address, omission_note,
    plain_name, result_text, short_id, unsupported, write_result_media, write_user_content,
};

use crate::dialect::PROVIDER;
use crate::responses::dialect::{ReplyStorage, ResponsesDialect};
use crate::responses::state::{ItemState, StateOrigin};

/// The maximum length of a call id and of a function name, in bytes.
const LONGEST_CALL_ID: usize = 64;
const LONGEST_NAME: usize = 64;

/// What decides how a message is written, other than the message itself and those before it.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    model: Arc<str>,
    server: Arc<str>,
    dialect: ResponsesDialect,
    /// The number of leading messages whose reasoning is not sent.
    no_reasoning_until: usize,
}

impl Rules {
    pub(super) const fn new(model: Arc<str>, server: Arc<str>, dialect: ResponsesDialect) -> Self {
        Self {
            model,
            server,
            dialect,
            no_reasoning_until: 0,
        }
    }

    /// Returns rules under which the reasoning of that many leading messages is not sent.
    pub(super) fn without_reasoning_until(&self, messages: usize) -> Self {
        Self {
            no_reasoning_until: messages,
            ..self.clone()
        }
    }

    /// Returns the stored state of a part, if this model on this server produced it.
    fn state_of<'a>(&self, message: &AssistantMessage, part: &'a Part) -> Option<ItemState<'a>> {
        let state = match part {
            Part::Text(part) => &part.state,
            Part::Reasoning(part) => &part.state,
            Part::ToolCall(call) => &call.state,
            _ => &None,
        };
        if !is_from(PROVIDER, message) {
            return None;
        }
        let origin = StateOrigin {
            server: &self.server,
            model: &self.model,
        };
        ItemState::read(state.as_ref()?.as_str(), origin)
    }
}

impl MessageEncoder for Rules {
    fn same_until(&self, old: &Self) -> usize {
        if self.no_reasoning_until == old.no_reasoning_until {
            usize::MAX
        } else {
            self.no_reasoning_until.min(old.no_reasoning_until)
        }
    }

    fn write(
        &self,
        message: &Message,
        before: &[Arc<Message>],
        json: &mut JsonWriter<'_>,
    ) -> Result<(), LlmError> {
        if before.is_empty() {
            if let Message::System { text } = message {
                json.raw(r#""instructions":"#);
                json.string(text);
                json.raw(r#","input":["#);
                return Ok(());
            }
            json.raw(r#""input":["#);
        }
        match message {
            Message::System { text } => {
                json.begin_item();
                json.role_and_text(self.dialect.late_system.as_str(), text);
                json.raw("}");
            }
            Message::User { parts } => {
                json.begin_item();
                json.role("user");
                let accepted = self.dialect.media;
                let media = |part: &MediaPart, json: &mut JsonWriter<'_>| {
                    if accepted.refuses(&part.media_type) || !has_form(part) {
                        write_input_text(&omission_note(part), json);
                        return Ok(());
                    }
                    write_media(part, json)
                };
                write_user_content(parts, "input_text", media, json)?;
                json.raw("}");
            }
            Message::Assistant(message) => self.write_assistant(message, before.len(), json)?,
            Message::Tool(result) => self.write_result(result, before, json),
        }
        Ok(())
    }
}

impl Rules {
    fn write_result(
        &self,
        result: &ToolMessage,
        before: &[Arc<Message>],
        json: &mut JsonWriter<'_>,
    ) {
        let id = answered_id(PROVIDER, result, before);
        json.begin_item();
        json.raw(r#"{"type":"function_call_output","call_id":"#);
        json.string(&short_id(id, LONGEST_CALL_ID));
        json.raw(r#","output":"#);
        if result.media.is_empty() {
            json.string(&result_text(result));
        } else {
            json.raw("[");
            write_input_text(&result_text(result), json);
            let accepted = self.dialect.media;
            write_result_media(&result.media, accepted, write_media, write_input_text, json);
            json.raw("]");
        }
        json.raw("}");
    }

    /// Writes an assistant message, with its parts in order.
    ///
    /// A reasoning item and the item after it need each other: a server that finds one without the other refuses the
    /// request. So reasoning is sent only if a part of its reply follows, and an id is sent only after the reasoning
    /// that it followed.
    fn write_assistant(
        &self,
        message: &AssistantMessage,
        message_index: usize,
        json: &mut JsonWriter<'_>,
    ) -> Result<(), LlmError> {
        let last = message.parts.iter().rposition(is_written_anyway);
        let mut sent_reasoning: Option<Cow<'_, str>> = None;
        for (index, part) in message.parts.iter().enumerate() {
            let state = self.state_of(message, part);
            match part {
                Part::Reasoning(part) => {
                    let follows = last.is_some_and(|last| index < last);
                    let is_taken = message_index >= self.no_reasoning_until;
                    let sent = state.filter(|_| follows && is_taken);
                    if let Some(id) = sent.and_then(|state| self.write_reasoning(part, state, json))
                    {
                        sent_reasoning = Some(id);
                    }
                }
                Part::Text(part) if part.text.is_empty() => {}
                Part::Text(part) => {
                    write_text(part, with_known_id(state, sent_reasoning.as_deref()), json);
                }
                Part::ToolCall(call) => {
                    let state = with_known_id(state, sent_reasoning.as_deref());
                    self.write_call(message, call, state, json);
                }
                _ => return Err(unsupported("an assistant message with media")),
            }
        }
        Ok(())
    }

    /// Writes a reasoning item if the server can read it, and returns its id.
    fn write_reasoning<'a>(
        &self,
        part: &'a ReasoningPart,
        state: ItemState<'a>,
        json: &mut JsonWriter<'_>,
    ) -> Option<Cow<'a, str>> {
        let item = state.item?;
        let is_known = state.is_sealed || self.dialect.store == ReplyStorage::Stored;
        if !is_known {
            return None;
        }
        json.begin_item();
        json.raw(item.get());
        state.id.or(part.id.as_deref().map(Cow::Borrowed))
    }

    fn write_call(
        &self,
        message: &AssistantMessage,
        call: &ToolCall,
        state: Option<ItemState<'_>>,
        json: &mut JsonWriter<'_>,
    ) {
        json.begin_item();
        json.raw(r#"{"type":"function_call""#);
        if let Some(id) = state.and_then(|state| state.id) {
            json.raw(r#","id":"#);
            json.string(&id);
        }
        json.raw(r#","call_id":"#);
        let id = call_id(PROVIDER, message, call);
        json.string(&short_id(id, LONGEST_CALL_ID));
        json.raw(r#","name":"#);
        json.string(&plain_name(&call.name, LONGEST_NAME));
        json.raw(r#","arguments":"#);
        let arguments = call.arguments.as_str();
        json.string(if arguments.trim().is_empty() {
            "{}"
        } else {
            arguments
        });
        json.raw("}");
    }
}

/// Returns whether a part is always written, no matter which model produced it.
fn is_written_anyway(part: &Part) -> bool {
    match part {
        Part::Text(part) => !part.text.is_empty(),
        Part::ToolCall(_) => true,
        _ => false,
    }
}

/// Returns the stored state of an item, without its id if the reasoning before it is not sent.
fn with_known_id<'a>(
    state: Option<ItemState<'a>>,
    sent_reasoning: Option<&str>,
) -> Option<ItemState<'a>> {
    let mut state = state?;
    if state.after.is_some() && state.after.as_deref() != sent_reasoning {
        state.id = None;
    }
    Some(state)
}

fn write_text(part: &TextPart, state: Option<ItemState<'_>>, json: &mut JsonWriter<'_>) {
    let state = state.unwrap_or_default();
    json.begin_item();
    if let Some(id) = &state.id {
        json.raw(r#"{"type":"message","id":"#);
        json.string(id);
        json.raw(r#","status":"completed","role":"assistant","content":[{"#);
        if state.refusal {
            json.raw(r#""type":"refusal","refusal":"#);
            json.string(&part.text);
        } else {
            json.raw(r#""type":"output_text","text":"#);
            json.string(&part.text);
            json.raw(r#","annotations":[]"#);
        }
        json.raw("}]");
    } else {
        json.role_and_text("assistant", &part.text);
    }
    if let Some(phase) = &state.phase {
        json.raw(r#","phase":"#);
        json.string(phase);
    }
    json.raw("}");
}

fn write_input_text(text: &str, json: &mut JsonWriter<'_>) {
    json.raw(r#"{"type":"input_text","text":"#);
    json.string(text);
    json.raw("}");
}

/// Returns whether this protocol has a format for a media part.
pub(super) fn has_form(part: &MediaPart) -> bool {
    part.media_type.starts_with("image/") || part.media_type == "application/pdf"
}

/// Writes a media part, if this protocol has a format for it.
fn write_media(part: &MediaPart, json: &mut JsonWriter<'_>) -> Result<(), LlmError> {
    let kind = part.media_type.as_str();
    let is_image = kind.starts_with("image/");
    if !has_form(part) {
        return Err(unsupported(&format!("media of type {kind}")));
    }
    match &part.source {
        MediaSource::Base64(data) => {
            json.raw(if is_image {
                r#"{"type":"input_image","image_url":"#
            } else {
                r#"{"type":"input_file","filename":"file.pdf","file_data":"#
            });
            json.joined(["data:", kind, ";base64,", data]);
        }
        MediaSource::Url(url) if is_web_address(url) => {
            json.raw(if is_image {
                r#"{"type":"input_image","image_url":"#
            } else {
                r#"{"type":"input_file","file_url":"#
            });
            json.string(url);
        }
        // Some servers read their own local files if a client names them.
        MediaSource::Url(_) => {
            return Err(unsupported("media at a URL that is not http(s)"));
        }
    }
    json.raw("}");
    Ok(())
}
