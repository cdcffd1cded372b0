//! The content of messages in a form that the service accepts: texts, images and documents, and the ids of calls.

use std::borrow::Cow;

use neuraxis_core::{LlmError, MediaPart, MediaSource, MediaTypes, Part};
use neuraxis_wire::request::{
    JsonWriter, hashed_id, is_plain_name, is_web_address, omission_note, unsupported,
};

/// Sent for a user message without any content that could be sent: an empty one is refused.
const EMPTY_CONTENT: &str = "(nothing)";

/// The maximum length of a call's id in bytes.
const LONGEST_CALL_ID: usize = 64;

/// Writes the content of a user message. There is always some, since a message without content is refused.
pub(super) fn write_user(parts: &[Part], json: &mut JsonWriter<'_>) -> Result<(), LlmError> {
    let mut is_empty = true;
    for part in parts {
        let is_written = match part {
            Part::Text(part) => write_text_unless_blank(&part.text, json),
            Part::Media(part) if !has_form(part) => {
                write_text([&*omission_note(part)], json);
                true
            }
            Part::Media(part) => {
                json.begin_item();
                write_media(part, json)?;
                true
            }
            _ => {
                return Err(unsupported(
                    "a user message with anything but text and media",
                ));
            }
        };
        is_empty &= !is_written;
    }
    if is_empty {
        write_text([EMPTY_CONTENT], json);
    }
    Ok(())
}

/// Writes a block of text. A blank text would be refused: it is omitted, and the result is `false`.
pub(super) fn write_text_unless_blank(text: &str, json: &mut JsonWriter<'_>) -> bool {
    let is_blank = text.trim().is_empty();
    if !is_blank {
        write_text([text], json);
    }
    !is_blank
}

/// Writes several texts as one block.
pub(super) fn write_text<'a>(texts: impl IntoIterator<Item = &'a str>, json: &mut JsonWriter<'_>) {
    json.begin_item();
    json.raw(r#"{"type":"text","text":"#);
    json.joined(texts);
    json.raw("}");
}

/// The media that the service accepts in addition to text, with all of its models
/// (docs.claude.com/en/docs/build-with-claude/vision and /pdf-support).
pub(crate) const MEDIA: MediaTypes = MediaTypes::Only(&[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
    "application/pdf",
]);

/// Returns whether the protocol has a form for a media part.
pub(super) fn has_form(part: &MediaPart) -> bool {
    block_of(&part.media_type).is_some()
}

/// Returns the kind of block for a media type, and the service's name for the type.
fn block_of(media_type: &str) -> Option<(&'static str, &str)> {
    match media_type {
        "image/jpg" => Some(("image", "image/jpeg")),
        "image/jpeg" | "image/png" | "image/gif" | "image/webp" => Some(("image", media_type)),
        "application/pdf" => Some(("document", media_type)),
        _ => None,
    }
}

/// Writes a media part as a block. Fails if the protocol has no form for it.
pub(super) fn write_media(part: &MediaPart, json: &mut JsonWriter<'_>) -> Result<(), LlmError> {
    let Some((block, kind)) = block_of(&part.media_type) else {
        return Err(unsupported(&format!("media of type {}", part.media_type)));
    };
    json.raw(r#"{"type":"#);
    json.string(block);
    match &part.source {
        MediaSource::Base64(data) => {
            json.raw(r#","source":{"type":"base64","media_type":"#);
            json.string(kind);
            json.raw(r#","data":"#);
            json.string(data);
        }
        MediaSource::Url(url) if is_web_address(url) => {
            json.raw(r#","source":{"type":"url","url":"#);
            json.string(url);
        }
        // A server may read its own files for a client that names them.
        MediaSource::Url(_) => {
            return Err(unsupported("media at a URL that is not http(s)"));
        }
    }
    json.raw("}}");
    Ok(())
}

/// Returns an id that the service accepts: letters, digits, `_` and `-`.
pub(super) fn accepted_id(id: &str) -> Cow<'_, str> {
    if is_plain_name(id, LONGEST_CALL_ID) {
        return id.into();
    }
    hashed_id(id).into()
}
