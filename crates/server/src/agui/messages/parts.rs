//! The content of a message: text, images and documents.

use neuraxis::core::{MediaPart, MediaSource, Part};
use neuraxis::engine::attachment;
use serde::Deserialize;
use serde_json::Value;

use crate::attached::{Files, decoded};
use crate::problem::Problem;
use crate::request_body::{invalid, typed};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    source: Option<WireSource>,
    /// For the form `binary`, which is deprecated.
    mime_type: Option<String>,
    data: Option<String>,
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSource {
    #[serde(rename = "type")]
    kind: String,
    value: String,
    mime_type: Option<String>,
}

/// Parses content: a string, or parts.
pub(super) fn parts(content: Option<Value>, at: usize) -> Result<Vec<Part>, Problem> {
    let within = format!("messages[{at}].content");
    match content {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::text(text)]),
        Some(Value::Array(parts)) => {
            let mut files = Files::default();
            let parts = parts.into_iter().enumerate();
            parts
                .map(|(number, part)| {
                    let field = format!("{within}[{number}]");
                    typed::<WirePart>(part, &field)?.into_part(&field, &mut files)
                })
                .collect()
        }
        Some(_) => Err(invalid(&within, "expected a string or a list of parts")),
    }
}

impl WirePart {
    fn into_part(self, field: &str, files: &mut Files) -> Result<Part, Problem> {
        if self.kind == "text" {
            return Ok(Part::text(self.text.unwrap_or_default()));
        }
        let source = match (self.source, self.data, self.url) {
            (Some(source), ..) => source,
            (None, Some(value), _) => WireSource {
                kind: "data".to_owned(),
                value,
                mime_type: self.mime_type,
            },
            (None, None, Some(value)) => WireSource {
                kind: "url".to_owned(),
                value,
                mime_type: self.mime_type,
            },
            _ => return Err(invalid(field, "missing text or source")),
        };
        let file = source.into_part(&self.kind, field)?;
        let counted = files.add(&file);
        counted.map_err(|error| invalid(field, &error.to_string()))?;
        Ok(file)
    }
}

impl WireSource {
    fn into_part(self, kind: &str, field: &str) -> Result<Part, Problem> {
        match self.kind.as_str() {
            "data" => {
                let content = decoded(&self.value)
                    .map_err(|_| invalid(&format!("{field}.source.value"), "invalid base64"))?;
                attachment(kind, &content).map_err(|error| invalid(field, &error.to_string()))
            }
            "url" => {
                let Some(media_type) = self.mime_type else {
                    let field = format!("{field}.source.mimeType");
                    return Err(invalid(&field, "content at a URL needs a media type"));
                };
                Ok(Part::Media(MediaPart {
                    media_type,
                    source: MediaSource::Url(self.value),
                }))
            }
            _ => {
                let why = "expected data or url; provider file ids are not supported";
                Err(invalid(&format!("{field}.source.type"), why))
            }
        }
    }
}

/// Returns the text parts, one per line.
pub(super) fn texts(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(part) => Some(part.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
