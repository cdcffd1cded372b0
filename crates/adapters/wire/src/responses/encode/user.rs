//! Encodes what a person said.

use neuraxis_core::{LlmError, MediaPart, MediaSource, Part};

use crate::chat::{is_web_address, unsupported};
use crate::encode::Json;

/// Writes the parts of a user message as one item.
pub(super) fn write_user(parts: &[Part], json: &mut Json<'_>) -> Result<(), LlmError> {
    let texts = || {
        parts.iter().filter_map(|part| match part {
            Part::Text(part) => Some(part.text.as_str()),
            _ => None,
        })
    };
    json.begin_item();
    json.role("user");
    if texts().count() == parts.len() {
        json.joined(texts());
        json.raw("}");
        return Ok(());
    }
    json.raw("[");
    for part in parts {
        json.begin_item();
        match part {
            Part::Text(part) => {
                json.raw(r#"{"type":"input_text","text":"#);
                json.string(&part.text);
                json.raw("}");
            }
            Part::Media(part) => write_media(part, json)?,
            _ => return Err(unsupported("a user message of anything but text and media")),
        }
    }
    json.raw("]}");
    Ok(())
}

/// Writes a media part, as far as this protocol has a form for it.
fn write_media(part: &MediaPart, json: &mut Json<'_>) -> Result<(), LlmError> {
    let kind = part.media_type.as_str();
    let is_image = kind.starts_with("image/");
    if !is_image && kind != "application/pdf" {
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
        // A server may read its own files for whoever names them.
        MediaSource::Url(_) => {
            return Err(unsupported("media at an address that is not http(s)"));
        }
    }
    json.raw("}");
    Ok(())
}
