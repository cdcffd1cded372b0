//! From the type of a function's arguments to the JSON Schema that a model reads.
//!
//! Every byte of a schema is part of every prompt, so what tells the model nothing is left out.

use neuraxis_core::JsonText;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};

/// Returns the schema of the arguments, or nothing if they are not an object.
pub(super) fn of<Arguments: JsonSchema>() -> Option<JsonText> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings
        .with_transform(RemoveNoise)
        .into_generator()
        .into_root_schema_for::<Arguments>();
    // The comment on the type is for readers of the code; the tool has a description of its own.
    schema.remove("description");
    let is_object = schema.get("type").and_then(|kind| kind.as_str()) == Some("object");
    is_object.then(|| JsonText::from_text(schema.as_value().to_string()))
}

/// Takes out titles, and number formats that are Rust's and not JSON Schema's, which strict providers refuse.
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
