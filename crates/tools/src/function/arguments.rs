//! From the JSON that a model wrote to the arguments of a function.

use neuraxis_core::JsonText;
use neuraxis_ports::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The arguments of a tool that takes none: the empty object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// Decodes arguments. The error names the argument that is wrong.
pub(super) fn decode<Arguments: DeserializeOwned>(text: &JsonText) -> Result<Arguments, ToolError> {
    // Keeping track of the place costs more than decoding does, and is of use only where something is wrong.
    text.decode().or_else(|_| decode_telling_where(text))
}

fn decode_telling_where<Arguments: DeserializeOwned>(
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
