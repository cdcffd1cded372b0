//! Properties of single JSON Schema keywords.

use serde_json::{Map, Value};

/// Returns whether a schema may describe values of a type.
pub(super) fn is_of_type(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Returns whether a keyword does not restrict which values fit.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "title"
            | "description"
            | "default"
            | "examples"
            | "example"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$schema"
            | "$comment"
            // For anything but strings, it states which number type a program uses.
            | "format"
    )
}

/// Returns whether an annotation is one that the model reads.
pub(super) fn is_shown(keyword: &str) -> bool {
    matches!(keyword, "title" | "description")
}

/// Returns whether strict schemas support a keyword with this value that takes no schema.
pub(super) fn is_supported(keyword: &str, value: &Value) -> bool {
    match keyword {
        "title" | "description" => value.is_string(),
        "type" => is_known_type(value),
        // Lookaround is more than a grammar can do.
        "pattern" => value
            .as_str()
            .is_some_and(|pattern| !pattern.contains("(?")),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
        | "minItems" | "maxItems" => value.is_number(),
        _ => false,
    }
}

fn is_known_type(value: &Value) -> bool {
    let is_name = |value: &Value| {
        matches!(
            value.as_str(),
            Some("string" | "number" | "integer" | "boolean" | "object" | "array" | "null")
        )
    };
    match value {
        Value::Array(several) => !several.is_empty() && several.iter().all(is_name),
        one => is_name(one),
    }
}

/// Returns whether strict schemas support a string format.
pub(super) fn is_known_format(value: &Value) -> bool {
    matches!(
        value.as_str(),
        Some(
            "date-time"
                | "time"
                | "date"
                | "duration"
                | "email"
                | "hostname"
                | "ipv4"
                | "ipv6"
                | "uuid"
        )
    )
}

/// Returns whether a schema accepts null. Returns `false` if answering would require following references.
pub(super) fn accepts_null(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    let by_type = !schema.contains_key("type") || is_of_type(schema, "null");
    let by_value = schema.get("const").is_none_or(Value::is_null)
        && schema.get("enum").is_none_or(|values| {
            values
                .as_array()
                .is_some_and(|all| all.contains(&Value::Null))
        });
    let by_branch = schema.get("anyOf").is_none_or(|branches| {
        branches
            .as_array()
            .is_some_and(|all| all.iter().any(accepts_null))
    });
    let is_open = !schema.contains_key("$ref") && !schema.contains_key("oneOf");
    by_type && by_value && by_branch && is_open
}

/// Returns whether the branches of a choice are distinct constants, so that no value fits two of them.
pub(super) fn are_distinct_constants(branches: &Value) -> bool {
    let Some(branches) = branches.as_array() else {
        return false;
    };
    let constants: Option<Vec<&Value>> =
        branches.iter().map(|branch| branch.get("const")).collect();
    constants.is_some_and(|all| {
        let mut rest = all.as_slice();
        while let Some((first, others)) = rest.split_first() {
            // 1 and 1.0 are equal to a schema.
            let is_number = first.is_number() && others.iter().any(|other| other.is_number());
            if others.contains(first) || is_number {
                return false;
            }
            rest = others;
        }
        true
    })
}
