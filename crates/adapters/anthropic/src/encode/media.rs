//! Encodes images and documents.

use neuraxis_core::{LlmError, MediaPart, MediaSource};
use neuraxis_wire::request::{JsonWriter, is_web_address, unsupported};

/// Writes a media part as a block, as far as the protocol has a form for it.
pub(super) fn write_media(part: &MediaPart, json: &mut JsonWriter<'_>) -> Result<(), LlmError> {
    let (block, kind) = match part.media_type.as_str() {
        "image/jpg" => ("image", "image/jpeg"),
        kind @ ("image/jpeg" | "image/png" | "image/gif" | "image/webp") => ("image", kind),
        kind @ "application/pdf" => ("document", kind),
        other => return Err(unsupported(&format!("media of type {other}"))),
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
        // A server may read its own files for whoever names them.
        MediaSource::Url(_) => {
            return Err(unsupported("media at an address that is not http(s)"));
        }
    }
    json.raw("}}");
    Ok(())
}
