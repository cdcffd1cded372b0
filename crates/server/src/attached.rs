//! What a client attaches to a message: files, each with its name and its content in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT as BASE64;
use neuraxis::core::Part;
use neuraxis::engine::{
    AttachmentError, MAX_MEDIA_BYTES_IN_ALL, MAX_MEDIA_PARTS, MAX_TEXT_BYTES, RequestError,
    attachment,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::problem::Problem;
use crate::said;

/// The most bytes of a body with which files may come: what the engine takes of one message fits in, in base64.
pub(crate) const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// A file that goes with a message: an image, a sound, a PDF or a text in UTF-8. What it is, its content says.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Attachment")]
#[serde(
    deny_unknown_fields,
    expecting = "an object with the fields name and data"
)]
pub(crate) struct Attached {
    /// The file's name, which the model is told of a text.
    #[schemars(regex(pattern = said::WITHOUT_NUL))]
    name: String,
    /// Its content in base64.
    #[schemars(extend("contentEncoding" = "base64"))]
    data: String,
}

/// Makes parts of a message of files.
pub(crate) fn parts(files: &[Attached]) -> Result<Vec<Part>, Problem> {
    let numbered = (1..).zip(files);
    let parts = numbered.map(|(number, file)| {
        said::without_nul("attachments", &file.name)?;
        file.part().map_err(|source| {
            let part = format!("attachment {number}");
            Problem::from(RequestError::Attachment { part, source })
        })
    });
    parts.collect()
}

/// Counts the files of a message among whose parts they stand, as other protocols have it: behind that a text that was a file
/// is like any other, and the engine does not count it.
#[derive(Debug, Default)]
pub(crate) struct Files {
    count: usize,
    bytes: usize,
}

impl Files {
    /// Counts one more.
    pub(crate) fn add(&mut self, file: &Part) -> Result<(), AttachmentError> {
        let bytes = match file {
            // What stands around a file's text to name it is none of its bytes.
            Part::Text(text) => text.text.len().min(MAX_TEXT_BYTES),
            Part::Media(media) => media.bytes().unwrap_or(0),
            _ => 0,
        };
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        match self.count > MAX_MEDIA_PARTS || self.bytes > MAX_MEDIA_BYTES_IN_ALL {
            true => Err(AttachmentError::TooMuch),
            false => Ok(()),
        }
    }
}

impl Attached {
    fn part(&self) -> Result<Part, AttachmentError> {
        attachment(&self.name, &decoded(&self.data)?)
    }
}

/// Reads base64, also such as was broken into lines or is not filled up: clients write either.
pub(crate) fn decoded(data: &str) -> Result<Vec<u8>, AttachmentError> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let content = match data.as_bytes().iter().any(is_space) {
        true => {
            let dense: Vec<u8> = data.bytes().filter(|byte| !is_space(byte)).collect();
            BASE64.decode(dense)
        }
        false => BASE64.decode(data),
    };
    content.map_err(|_| AttachmentError::NotBase64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_in_lines_and_with_or_without_what_fills_it_up() {
        for data in ["aGVsbG8h\r\naGk=", "aGVsbG8haGk", " aGVsbG8h aGk=\n"] {
            assert_eq!(decoded(data).unwrap(), b"hello!hi", "{data:?}");
        }
        for data in ["aGVsbG8h!", "a", "aGk==="] {
            assert_eq!(decoded(data), Err(AttachmentError::NotBase64), "{data:?}");
        }
    }
}
