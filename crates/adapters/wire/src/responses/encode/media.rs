//! Encodes images and files.

use neuraxis_core::{LlmError, MediaPart, MediaSource};

use crate::encode::{Json, is_web_address, unsupported};

/// Writes a media part, as far as this protocol has a form for it.
pub(super) fn write_media(part: &MediaPart, json: &mut Json<'_>) -> Result<(), LlmError> {
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
