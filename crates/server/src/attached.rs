//! The files that a client attaches to a message, each with its name and its content in base64.

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
use crate::request_body;

/// The maximum size of a body that may contain files, in bytes: enough for what the engine accepts in one message, in
/// base64.
pub(crate) const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// What to do about a data URL.
const NO_DATA_URL: &str =
    "data takes the base64 alone, not a data URL: send what follows the comma";

/// A file that goes with a message: an image, audio, a PDF, or UTF-8 text. Its content determines its type.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Attachment")]
#[serde(
    deny_unknown_fields,
    expecting = "an object with the fields name and data"
)]
pub(crate) struct Attached {
    /// The file's name. For a text file, the model is told the name.
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    name: String,
    /// Its content in base64, without `data:…;base64,` before it.
    #[schemars(extend("contentEncoding" = "base64"))]
    data: String,
}

/// Converts files to parts of a message.
pub(crate) fn parts(files: &[Attached]) -> Result<Vec<Part>, Problem> {
    let numbered = (1..).zip(files);
    let parts = numbered.map(|(number, file)| {
        request_body::check_no_nul("attachments", &file.name)?;
        file.part().map_err(|source| {
            let part = format!("attachment {number}");
            let problem = Problem::from(RequestError::Attachment { part, source });
            match file.is_data_url() {
                true => problem.advising(NO_DATA_URL),
                false => problem,
            }
        })
    });
    parts.collect()
}

/// Counts the files among the parts of a message, for protocols that mix them. Once converted, a text file is a text
/// part like any other, so the engine would not count it.
#[derive(Debug, Default)]
pub(crate) struct Files {
    count: usize,
    bytes: usize,
}

impl Files {
    /// Counts one more file.
    pub(crate) fn add(&mut self, file: &Part) -> Result<(), AttachmentError> {
        let bytes = match file {
            // The text that names a file around its content is not counted.
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

    /// Returns whether the content is a data URL, as `FileReader.readAsDataURL` of browsers returns it.
    fn is_data_url(&self) -> bool {
        let scheme = self.data.get(..5);
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
    }
}

/// Decodes base64, also with line breaks or without padding, because clients send both.
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
    fn base64_may_have_line_breaks_and_lack_padding() {
        for data in ["aGVsbG8h\r\naGk=", "aGVsbG8haGk", " aGVsbG8h aGk=\n"] {
            assert_eq!(decoded(data).unwrap(), b"hello!hi", "{data:?}");
        }
        for data in ["aGVsbG8h!", "a", "aGk==="] {
            assert_eq!(decoded(data), Err(AttachmentError::NotBase64), "{data:?}");
        }
    }
}
