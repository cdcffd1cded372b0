//! Encodes images and sounds.

use neuraxis_core::{LlmError, LlmErrorKind, MediaPart, MediaSource};

use crate::encode::Json;

/// Writes a media part, as far as this protocol has a form for it.
pub(super) fn encode_media(part: &MediaPart, json: &mut Json<'_>) -> Result<(), LlmError> {
    let sound = match part.media_type.as_str() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    };
    match (&part.source, sound) {
        (MediaSource::Base64(data), Some(format)) => {
            json.raw(r#"{"type":"input_audio","input_audio":{"data":"#);
            json.string(data);
            json.raw(r#","format":"#);
            json.string(format);
        }
        (source, None) if part.media_type.starts_with("image/") => {
            json.raw(r#"{"type":"image_url","image_url":{"url":"#);
            match source {
                MediaSource::Base64(data) => {
                    json.joined(["data:", &part.media_type, ";base64,", data]);
                }
                MediaSource::Url(url) if is_web_address(url) => json.string(url),
                // A server may read its own files for whoever names them.
                MediaSource::Url(_) => {
                    return Err(unsupported("an image at an address that is not http(s)"));
                }
            }
        }
        _ => return Err(unsupported(&format!("media of type {}", part.media_type))),
    }
    json.raw("}}");
    Ok(())
}

/// The error of content that the protocol has no form for.
pub(crate) fn unsupported(what: &str) -> LlmError {
    let said = format!("{what} cannot be sent to this model");
    LlmError::new(LlmErrorKind::BadRequest, said)
}

pub(crate) fn is_web_address(url: &str) -> bool {
    let lower = url.trim_start().to_ascii_lowercase();
    lower.starts_with("https://") || lower.starts_with("http://")
}
