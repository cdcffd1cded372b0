//! What a tool's JSON Schema says about its arguments, as far as the rules need it.

use neuraxis_core::{JsonText, ToolSpec};
use serde_json::{Map, Value};

/// Encodes arguments without those that the tool does not know.
pub(crate) fn fitting(mut arguments: Map<String, Value>, tool: &ToolSpec) -> JsonText {
    if let Some(Value::Object(known)) = parse(tool).get("properties") {
        arguments.retain(|name, _| known.contains_key(name));
    }
    JsonText::from_text(Value::Object(arguments).to_string())
}

/// Returns the arguments that the tool cannot do without.
pub(crate) fn required(tool: &ToolSpec) -> Vec<String> {
    let schema = parse(tool);
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the argument that the tool cannot do without, if there is exactly one and it is a text.
pub(crate) fn only_text(tool: &ToolSpec) -> Option<String> {
    let [name] = <[String; 1]>::try_from(required(tool)).ok()?;
    let is_text = parse(tool).get("properties")?.get(&name)?.get("type")? == "string";
    is_text.then_some(name)
}

fn parse(tool: &ToolSpec) -> Value {
    tool.parameters.decode().unwrap_or_default()
}
