//! The parts of messages that all protocols write alike.

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, LlmError, LlmErrorKind, MediaPart, MediaSource, MediaTypes, Message, Part,
    ToolMessage,
};

use super::JsonWriter;

/// Sent for a call without output.
const NO_OUTPUT: &str = "(no output)";

/// Returns a call's result as text. A string is sent unchanged: quotes and escapes would cost tokens and make code and
/// tables hard to read. Any other value is sent as JSON. Some servers refuse an empty result.
#[must_use]
pub fn result_text(result: &ToolMessage) -> Cow<'_, str> {
    let text = result.content.as_text();
    match text.trim().is_empty() {
        true => Cow::Borrowed(NO_OUTPUT),
        false => text,
    }
}

/// Writes the content of a user message: a string if it has only text, otherwise the list of its parts. `text_type` is
/// the protocol's name for a part with text; `media` writes a part with media.
///
/// # Errors
///
/// [`LlmErrorKind::BadRequest`] for a part that is neither, and the errors of `media`.
pub fn write_user_content(
    parts: &[Part],
    text_type: &str,
    media: impl Fn(&MediaPart, &mut JsonWriter<'_>) -> Result<(), LlmError>,
    json: &mut JsonWriter<'_>,
) -> Result<(), LlmError> {
    let texts = || parts.iter().filter_map(text_of);
    if texts().count() == parts.len() {
        json.joined(texts());
        return Ok(());
    }
    json.raw("[");
    for part in parts {
        json.begin_item();
        match part {
            Part::Text(part) => {
                json.raw(r#"{"type":"#);
                json.string(text_type);
                json.raw(r#","text":"#);
                json.string(&part.text);
                json.raw("}");
            }
            Part::Media(part) => media(part, json)?,
            _ => {
                return Err(unsupported(
                    "a user message with anything but text and media",
                ));
            }
        }
    }
    json.raw("]");
    Ok(())
}

/// Returns the text of a text part.
#[must_use]
pub fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(part) => Some(&part.text),
        _ => None,
    }
}

/// Returns whether a provider wrote a message. State that it wants back is sent to no other.
#[must_use]
pub fn is_from(provider: &str, message: &AssistantMessage) -> bool {
    let model = message.model.as_ref();
    model.is_some_and(|model| *model.provider == *provider)
}

/// Refuses a request whose last user message holds media that its protocol has no form for, unless the model has
/// answered since. In earlier messages such media are omitted: otherwise each later request of the conversation would
/// fail.
///
/// # Errors
///
/// [`LlmErrorKind::BadRequest`].
pub fn check_media(
    messages: &[Arc<Message>],
    has_form: impl Fn(&MediaPart) -> bool,
) -> Result<(), LlmError> {
    let unanswered = messages.iter().rev();
    let mut unanswered =
        unanswered.take_while(|message| !matches!(***message, Message::Assistant(_)));
    let last = unanswered.find(|message| matches!(***message, Message::User { .. }));
    let mut media = last.into_iter().flat_map(|message| message.media());
    match media.find(|part| !has_form(part)) {
        Some(part) => Err(unsupported(&format!("media of type {}", part.media_type))),
        None => Ok(()),
    }
}

/// Returns the note for a part that is omitted from a message.
#[must_use]
pub fn omission_note(part: &MediaPart) -> String {
    format!("[{part}: left out, since this model does not take it]")
}

/// Writes the media of a tool's result with `media`, which writes one part as JSON. A part that has no form there, or
/// that the model does not accept, is written as a note with `text`. No request fails because of what a tool returned.
pub fn write_result_media(
    parts: &[MediaPart],
    taken: MediaTypes,
    media: impl Fn(&MediaPart, &mut JsonWriter<'_>) -> Result<(), LlmError>,
    text: impl Fn(&str, &mut JsonWriter<'_>),
    json: &mut JsonWriter<'_>,
) {
    for part in parts {
        let mut written = Vec::new();
        json.begin_item();
        if is_sent(part, taken) && media(part, &mut JsonWriter::new(&mut written)).is_ok() {
            json.bytes(&written);
        } else {
            text(&omission_note(part), json);
        }
    }
}

/// Returns whether a part may be sent to a model that accepts these types. A part given by its address may not: a tool
/// would decide what a server fetches.
fn is_sent(part: &MediaPart, taken: MediaTypes) -> bool {
    matches!(part.source, MediaSource::Base64(_)) && !taken.refuses(&part.media_type)
}

/// Returns the error of content that the protocol has no form for.
#[must_use]
pub fn unsupported(what: &str) -> LlmError {
    let said = format!("{what} cannot be sent to this model");
    LlmError::new(LlmErrorKind::BadRequest, said)
}

/// Returns whether an address is on the web, rather than a file that a server would read for a client that names it.
#[must_use]
pub fn is_web_address(url: &str) -> bool {
    let lower = url.trim_start().to_ascii_lowercase();
    lower.starts_with("https://") || lower.starts_with("http://")
}
