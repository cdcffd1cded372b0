//! JSON texts in a line: in place where that keeps their exact bytes, else as a string.

use neuraxis_core::JsonText;
use serde_json::value::RawValue;

/// A JSON text as two fields of a line, of which one is set.
pub(super) type Fields = (Option<Box<RawValue>>, Option<String>);

/// Writes a JSON text.
pub(super) fn to_fields(json: &JsonText) -> Fields {
    let text = json.as_str();
    // A bare `null` would read as a field that is missing.
    let is_bare = text != "null" && !text.contains(['\n', '\r']) && text.trim().len() == text.len();
    let raw = is_bare.then(|| RawValue::from_string(text.to_owned()).ok());
    match raw.flatten() {
        Some(raw) => (Some(raw), None),
        None => (None, Some(text.to_owned())),
    }
}

/// Writes a JSON text that may be missing.
pub(super) fn optional_to_fields(json: Option<&JsonText>) -> Fields {
    json.map_or((None, None), to_fields)
}

/// Reads a JSON text that may be missing.
pub(super) fn from_fields(raw: Option<Box<RawValue>>, text: Option<String>) -> Option<JsonText> {
    raw.map(|raw| JsonText::from_text(Box::<str>::from(raw)))
        .or_else(|| text.map(JsonText::from_text))
}
