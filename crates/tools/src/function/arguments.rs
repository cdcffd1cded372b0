//! The arguments of a function: the JSON Schema of their type, which the model reads, and the decoding of what the
//! model wrote.
//!
//! Every byte of a schema is part of every prompt, so whatever tells the model nothing is left out.

use neuraxis_core::JsonText;
use neuraxis_ports::ToolError;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The arguments of a tool that takes none: the empty object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// Decodes arguments. The error names the argument that is wrong.
pub(super) fn decode<Arguments: DeserializeOwned>(text: &JsonText) -> Result<Arguments, ToolError> {
    // Tracking the position costs more than decoding, and is only useful if something is wrong.
    text.decode().or_else(|_| decode_with_position(text))
}

fn decode_with_position<Arguments: DeserializeOwned>(
    text: &JsonText,
) -> Result<Arguments, ToolError> {
    let mut json = serde_json::Deserializer::from_str(text.as_str());
    let arguments = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = error.path().to_string();
        let reason = error.into_inner();
        if !reason.is_data() {
            not_json(&reason)
        } else if place == "." {
            ToolError::permanent(format!("invalid arguments: {reason}"))
        } else {
            ToolError::permanent(format!("invalid arguments: at `{place}`: {reason}"))
        }
    })?;
    json.end().map_err(|reason| not_json(&reason))?;
    Ok(arguments)
}

fn not_json(reason: &serde_json::Error) -> ToolError {
    ToolError::permanent(format!("the arguments are not one JSON object: {reason}"))
}

/// Returns the schema of the arguments; `None` if they are not an object.
pub(super) fn schema<Arguments: JsonSchema>() -> Option<JsonText> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings
        .with_transform(RemoveNoise)
        .into_generator()
        .into_root_schema_for::<Arguments>();
    // The type's doc comment is for readers of the code; the tool has its own description.
    schema.remove("description");
    let is_object = schema.get("type").and_then(|kind| kind.as_str()) == Some("object");
    is_object.then(|| JsonText::from_text(schema.as_value().to_string()))
}

/// Removes titles, and number formats that are Rust's and not JSON Schema's, which strict providers refuse.
#[derive(Debug, Clone)]
struct RemoveNoise;

impl Transform for RemoveNoise {
    fn transform(&mut self, schema: &mut Schema) {
        schema.remove("title");
        let format = schema.get("format").and_then(|format| format.as_str());
        if format.is_some_and(|format| {
            format.starts_with("int") || format.starts_with("uint") || is_float(format)
        }) {
            schema.remove("format");
        }
        transform_subschemas(self, schema);
    }
}

fn is_float(format: &str) -> bool {
    matches!(format, "float" | "double")
}
