//! Encodes images and sounds.

use neuraxis_core::{LlmError, MediaPart, MediaSource};

use crate::encode::{Json, is_web_address, unsupported};

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
