//! Makes the schema of an untrusted tool safe: usable for checking calls, and bounded in size and in the cost of
//! checking.
//!
//! A recursive reference is expanded once and accepts anything below that: the server checks its input anyway.

use jsonschema::ValidationError;
use neuraxis_core::{JsonText, bounded_schema};
use serde_json::{Map, Value};

use crate::error::MAX_MESSAGE_CHARS;
use crate::text::one_line;

/// The maximum size of a schema of a tool or a question, in bytes.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// Returns a schema that can be used for the model and for checking.
///
/// # Errors
///
/// Why the schema cannot be used.
pub(crate) fn bounded(schema: &Map<String, Value>) -> Result<Value, String> {
    let said = |error: &dyn std::fmt::Display| format!("its schema {error}");
    let text = JsonText::encode(schema).map_err(|error| said(&error))?;
    let size = text.as_str().len();
    if size > MAX_BYTES {
        return Err(format!(
            "its schema has {size} bytes, more than {MAX_BYTES}"
        ));
    }
    let bounded = bounded_schema(&text, 0).map_err(|error| said(&error))?;
    let mut schema: Value = bounded.decode().map_err(|error| said(&error))?;
    if let Value::Object(root) = &mut schema {
        root.entry("type").or_insert_with(|| "object".into());
    }
    // An invalid schema cannot check anything, and no tool catalog accepts it.
    match jsonschema::validator_for(&schema) {
        Ok(_) => Ok(schema),
        Err(error) => Err(said(&format!("is invalid: {}", described(&error)))),
    }
}

fn described(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let what = error.masked_with("it").to_string();
    let description = match place.is_empty() {
        true => what,
        false => format!("at {place}: {what}"),
    };
    one_line(&description, MAX_MESSAGE_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bound(schema: &Value) -> Result<Value, String> {
        bounded(schema.as_object().unwrap())
    }

    #[test]
    fn an_ordinary_schema_is_unchanged() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/word"}, "b": {"$ref": "#/$defs/word"}},
            "$defs": {"word": {"type": "string"}},
        });
        assert_eq!(bound(&schema), Ok(schema));
        assert_eq!(bound(&json!({})), Ok(json!({"type": "object"})));
    }

    #[test]
    fn a_recursive_reference_becomes_an_open_schema() {
        let list = json!({
            "type": "object",
            "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}},
        });
        let bounded = bound(&list).unwrap();
        assert_eq!(bounded["properties"]["next"], json!({}));
        assert_eq!(bounded["properties"]["name"], json!({"type": "string"}));
        for cyclic in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"allOf": [{"$ref": "#/allOf/1"}, {"$ref": "#/allOf/0"}]}),
            json!({"properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"anyOf": [{"$ref": "#/$defs/a"}]}}}}),
        ] {
            let bounded = bound(&cyclic).unwrap();
            let again = super::bounded(bounded.as_object().unwrap()).unwrap();
            assert_eq!(again, bounded, "nothing leads back any more");
        }
    }

    #[test]
    fn an_exponentially_growing_schema_is_refused() {
        for defs in ["$defs", "%24defs"] {
            let mut definitions = Map::new();
            for level in 0..40 {
                let below = format!("#/{defs}/l{}", level + 1);
                let twice = json!({"allOf": [{"$ref": below}, {"$ref": below}]});
                definitions.insert(format!("l{level}"), twice);
            }
            definitions.insert("l40".to_owned(), json!({"type": "object"}));
            let schema = json!({"$ref": format!("#/{defs}/l0"), "$defs": definitions});
            assert!(bound(&schema).unwrap_err().contains("too costly"), "{defs}");
        }
    }

    #[test]
    fn an_invalid_schema_is_refused_and_the_location_named() {
        for (schema, place) in [
            (json!({"required": "a"}), "/required"),
            (
                json!({"properties": {"a": {"type": "strnig"}}}),
                "/properties/a/type",
            ),
            (
                json!({"properties": {"a": {"type": "string", "required": true}}}),
                "/properties/a/required",
            ),
            (
                json!({"properties": {"a": {"maxLength": "5"}}}),
                "/properties/a/maxLength",
            ),
            (json!({"properties": {"a": {"pattern": "("}}}), ""),
        ] {
            let why = bound(&schema).unwrap_err();
            assert!(why.starts_with("its schema is invalid: "), "{why}");
            assert!(why.contains(place), "{place} in {why}");
        }
    }

    #[test]
    fn external_references_and_oversized_schemas_are_refused() {
        for target in [
            "http://127.0.0.1:1/x",
            "file:///etc/passwd",
            "other.json",
            "#anchor",
        ] {
            let schema = json!({"properties": {"a": {"$ref": target}}});
            assert!(bound(&schema).unwrap_err().contains("outside"), "{target}");
        }
        let dynamic = json!({"properties": {"a": {"$dynamicRef": "#"}}});
        assert!(bound(&dynamic).is_err());
        let own = json!({"properties": {"a": {"$id": "http://x/", "type": "string"}}});
        assert!(bound(&own).is_err());
        let large = json!({"description": "x".repeat(MAX_BYTES)});
        assert!(bound(&large).unwrap_err().contains("bytes"));
        let mut deep = json!({});
        for _ in 0..64 {
            deep = json!({"items": deep});
        }
        assert!(bound(&deep).unwrap_err().contains("levels"));
    }
}
