//! What a client attaches to a message: files, each with its name and its content in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use neuraxis::core::Part;
use neuraxis::engine::{AttachmentError, RequestError, attachment};
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

impl Attached {
    fn part(&self) -> Result<Part, AttachmentError> {
        let content = STANDARD.decode(&self.data);
        attachment(
            &self.name,
            &content.map_err(|_| AttachmentError::NotBase64)?,
        )
    }
}
