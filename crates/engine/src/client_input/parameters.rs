//! Checks that the parameters of a client's tools are a schema. No call is checked against them here: the client that
//! runs the tool does that.

use std::mem;

use neuraxis_core::{ToolSpec, bounded_schema};
use serde_json::{Map, Value};

use super::ClientInputError;
use crate::catalog::placed;

/// Checks that the parameters of a tool are a JSON Schema of an object.
pub(super) fn check(tool: &ToolSpec) -> Result<(), ClientInputError> {
    let name = || tool.name.clone();
    let wrong = |why: String| ClientInputError::Parameters { name: name(), why };
    let schema: Result<Map<String, Value>, _> = tool.parameters.decode();
    let schema = schema.map_err(|_| wrong("expected an object".to_owned()))?;
    bounded_schema(&tool.parameters, 0).map_err(|why| {
        let name = name();
        ClientInputError::UnboundedParameters { name, why }
    })?;
    let mut schema = Value::Object(schema);
    if jsonschema::validator_for(&schema).is_ok() {
        return Ok(());
    }
    drop_patterns(&mut schema);
    match jsonschema::validator_for(&schema) {
        Ok(_) => Ok(()),
        Err(error) => Err(wrong(placed(&error, error.masked_with("it").to_string()))),
    }
}

/// Removes the patterns of a schema: a pattern of the client's regex language is not necessarily valid here.
fn drop_patterns(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(drop_patterns),
        Value::Object(members) => {
            members.retain(|name, value| name != "pattern" || !value.is_string());
            if let Some(Value::Object(by_pattern)) = members.get_mut("patternProperties") {
                let schemas = mem::take(by_pattern).into_iter().enumerate();
                let numbered = schemas.map(|(at, (_, schema))| (at.to_string(), schema));
                *by_pattern = numbered.collect();
            }
            members.values_mut().for_each(drop_patterns);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::JsonText;
    use serde_json::json;

    use super::*;

    fn checked(parameters: &Value) -> Result<(), ClientInputError> {
        let tool = ToolSpec::new("find".parse().unwrap(), "Finds.");
        check(&tool.parameters(JsonText::from_text(parameters.to_string())))
    }

    #[test]
    fn a_tool_with_a_regex_of_another_dialect_is_accepted() {
        for pattern in [r"[\w-.]+", r"(?<n>x)\k<n>", "^a+$"] {
            let by_value = json!({"type": "object", "properties": {"pattern": {"type": "string", "pattern": pattern}}});
            let by_name =
                json!({"type": "object", "patternProperties": {pattern: {"type": "string"}}});
            for schema in [by_value, by_name] {
                assert_eq!(checked(&schema), Ok(()), "{schema}");
            }
        }
    }

    #[test]
    fn an_invalid_schema_is_refused_with_its_location() {
        let wrong = json!({"type": "strng", "pattern": r"[\w-.]+"});
        for (schema, place) in [
            (json!({"properties": {"n": wrong}}), "at /properties/n/type"),
            (
                json!({"patternProperties": {r"[\w-.]+": {"type": 5}}}),
                "at /patternProperties",
            ),
            (json!([]), "expected an object"),
        ] {
            let refused = checked(&schema).unwrap_err().to_string();
            let told =
                format!("the parameters of tool find are not a JSON Schema of an object: {place}");
            assert!(refused.starts_with(&told), "{refused}");
        }
    }
}
