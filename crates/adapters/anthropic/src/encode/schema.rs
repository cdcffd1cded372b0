//! Decides which reply schemas the service can enforce.

use std::sync::{Mutex, MutexGuard, PoisonError};

use neuraxis_core::{ContentHash, LlmError, LlmErrorKind, ModelRequest};
use neuraxis_wire::request::schema_of;
use neuraxis_wire::strict_schema;
use serde_json::{Map, Value};

/// Keywords that other providers' strict schemas support and this service refuses.
const REFUSED: [&str; 8] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "pattern",
];

/// Phrases, in lower case, with which the service refuses a schema only for its size. The limit shows only in such a
/// refusal.
const TOO_MUCH: [&str; 3] = [
    "schema is too complex",
    "compiled grammar is too large",
    "too many parameters with union types",
];

/// The maximum number of refused schemas that are remembered.
const MOST_REFUSED: usize = 64;

/// The reply schemas that the service refused as too complex, which are described to the model in words.
#[derive(Debug, Default)]
pub(super) struct RefusedSchemas(Mutex<Vec<ContentHash>>);

impl RefusedSchemas {
    /// Returns whether the schema of a request is one of them.
    pub(super) fn has(&self, request: &ModelRequest) -> bool {
        let schema = schema_of(&request.reply_format);
        schema.is_some_and(|(_, schema)| {
            let refused = self.lock();
            !refused.is_empty() && refused.contains(&ContentHash::of(schema.as_bytes()))
        })
    }

    /// Records an error that refuses the schema of a request; returns `false` for any other error.
    pub(super) fn record(&self, error: &LlmError, request: &ModelRequest) -> bool {
        let said = error.message.to_ascii_lowercase();
        let is_refusal = error.kind == LlmErrorKind::BadRequest
            && TOO_MUCH.iter().any(|words| said.contains(words));
        let (true, Some((name, schema))) = (is_refusal, schema_of(&request.reply_format)) else {
            return false;
        };
        // Without the service's message, which may quote the conversation: it is unknown here whether that may be
        // logged.
        tracing::warn!(error = %error.kind, name, "the service refuses the schema of a reply: it is described to the model in words instead");
        let mut refused = self.lock();
        if refused.len() >= MOST_REFUSED {
            refused.remove(0);
        }
        refused.push(ContentHash::of(schema.as_bytes()));
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ContentHash>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the form of a schema that the service can enforce, or `None` if it has none
/// (docs.claude.com/en/docs/build-with-claude/structured-outputs, "JSON Schema limitations").
pub(super) fn native_schema(schema: &str) -> Option<String> {
    let strict = strict_schema(schema)?;
    let Ok(Value::Object(root)) = serde_json::from_str(&strict) else {
        return None;
    };
    is_accepted(&root, false).then_some(strict)
}

/// Returns whether the service accepts a schema. A definition that refers to another one may be recursive.
fn is_accepted(schema: &Map<String, Value>, is_definition: bool) -> bool {
    let one = |value: &Value, is_definition| {
        value
            .as_object()
            .is_none_or(|schema| is_accepted(schema, is_definition))
    };
    schema
        .iter()
        .all(|(keyword, value)| match (&**keyword, value) {
            ("properties", Value::Object(all)) => {
                all.values().all(|value| one(value, is_definition))
            }
            ("$defs" | "definitions", Value::Object(all)) => {
                all.values().all(|value| one(value, true))
            }
            ("anyOf", Value::Array(all)) => all.iter().all(|value| one(value, is_definition)),
            ("items", value) => one(value, is_definition),
            ("$ref", value) => !is_definition && value != "#",
            (keyword, _) => !REFUSED.contains(&keyword),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(property: &str) -> String {
        format!(
            r#"{{"type":"object","properties":{{"minimum":{property}}},"required":["minimum"],
                "$defs":{{"a":{{"type":"string"}}}}}}"#
        )
    }

    #[test]
    fn supported_schemas_are_made_strict_and_unsupported_ones_are_not_native() {
        for property in [
            r#"{"type":"string"}"#,
            r##"{"$ref":"#/$defs/a"}"##,
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
        ] {
            let native = native_schema(&object(property));
            assert!(
                native.is_some_and(|native| native.contains(r#""additionalProperties":false"#)),
                "{property}"
            );
        }
        for property in [
            r#"{"type":"integer","minimum":1}"#,
            r#"{"type":"array","items":{"type":"string","pattern":"a"}}"#,
            r#"{"anyOf":[{"type":"array","items":{"type":"string"},"maxItems":2}]}"#,
            r##"{"$ref":"#"}"##,
            "{}",
        ] {
            assert_eq!(native_schema(&object(property)), None, "{property}");
        }
        let recursive = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],
            "$defs":{"b":{"type":"array","items":{"$ref":"#/$defs/b"}}}}"##;
        assert_eq!(native_schema(recursive), None);
    }
}
