//! Tests of strict schemas.
#![expect(
    clippy::needless_pass_by_value,
    reason = "values are written where they are given"
)]

use proptest::prelude::*;

use super::*;

fn strict(schema: Value) -> Option<Value> {
    let text = strict_schema(&schema.to_string())?;
    Some(serde_json::from_str(&text).unwrap())
}

/// The strict form of an object with one required property of this schema.
fn strict_property(property: Value) -> Option<Value> {
    let schema = json!({"type": "object", "properties": {"x": property}, "required": ["x"]});
    Some(strict(schema)?["properties"]["x"].take())
}

#[test]
fn an_object_allows_no_other_properties_and_requires_all() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Args",
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "limit": {"type": ["integer", "null"], "format": "uint32", "minimum": 0, "default": null},
            "mode": {"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "null"}]},
        },
        "required": ["path"],
        "$defs": {"Mode": {"oneOf": [{"const": "a", "description": "A."}, {"const": "b"}]}},
    });
    let expected = json!({
        "title": "Args",
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "limit": {"type": ["integer", "null"], "minimum": 0},
            "mode": {"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "null"}]},
        },
        "$defs": {"Mode": {"anyOf": [{"enum": ["a"], "description": "A."}, {"enum": ["b"]}]}},
        "required": ["path", "limit", "mode"],
        "additionalProperties": false,
    });
    assert_eq!(strict(schema), Some(expected));
}

#[test]
fn an_optional_property_that_cannot_be_null_prevents_a_strict_schema() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    assert_eq!(strict(schema), None);
    let enumeration =
        json!({"type": "object", "properties": {"x": {"type": ["string", "null"], "enum": ["a"]}}});
    assert_eq!(strict(enumeration), None, "null is no value of it");
}

#[test]
fn a_tool_without_arguments_has_a_strict_schema() {
    let schema = json!({"type": "object", "properties": {}});
    let expected =
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    assert_eq!(strict(schema), Some(expected));
}

#[test]
fn unsupported_schema_keywords_prevent_a_strict_schema() {
    for property in [
        json!({"type": "string", "minLength": 1}),
        json!({"type": "string", "maxLength": 9}),
        json!({"type": "string", "format": "uri"}),
        json!({"type": "string", "pattern": "(?=x)"}),
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        json!({"type": "array"}),
        json!({"type": "array", "items": true}),
        json!({"type": "array", "prefixItems": [{"type": "string"}]}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {}, "additionalProperties": true}),
        json!({"type": "object", "properties": {}, "required": ["y"]}),
        json!({"allOf": [{"type": "string"}]}),
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"oneOf": [{"const": 1}, {"const": 1.0}]}),
        json!({"not": {"type": "string"}}),
        json!({"$ref": "#/$defs/X", "minimum": 1}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"type": "text"}),
        json!({"nullable": true, "type": "string"}),
        json!({"description": "anything"}),
        json!(true),
    ] {
        assert_eq!(strict_property(property.clone()), None, "{property}");
    }
}

#[test]
fn supported_schema_keywords_are_kept() {
    for property in [
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "pattern": "^[a-z]+$"}),
        json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1, "multipleOf": 0.1}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"enum": ["a", 1, null]}),
        json!({"$ref": "#"}),
    ] {
        assert_eq!(strict_property(property.clone()), Some(property));
    }
    let constant = strict_property(json!({"const": {"a": 1}}));
    assert_eq!(constant, Some(json!({"enum": [{"a": 1}]})));
    let referred = strict_property(json!({"$ref": "#/$defs/X", "description": "lost"}));
    assert_eq!(referred, Some(json!({"$ref": "#/$defs/X"})));
}

#[test]
fn the_root_of_a_strict_schema_must_be_a_plain_object() {
    for schema in [
        json!({"type": "string"}),
        json!({"type": ["object", "null"], "properties": {}}),
        json!({"anyOf": [{"type": "object", "properties": {}}], "type": "object", "properties": {}}),
        json!({"$ref": "#/$defs/X"}),
        json!([]),
        json!(true),
    ] {
        assert_eq!(strict(schema.clone()), None, "{schema}");
    }
    assert_eq!(strict_schema("{"), None);
}

#[test]
fn a_schema_beyond_the_provider_limits_is_not_strict() {
    let nested = |depth: usize| {
        let mut schema = json!({"type": "string"});
        for _ in 0..depth {
            schema = json!({"type": "object", "properties": {"x": schema}, "required": ["x"]});
        }
        schema
    };
    assert!(strict(nested(10)).is_some());
    assert!(strict(nested(11)).is_none());
    let deep = |depth: usize| {
        let opened = r#"{"type":"object","required":["x"],"properties":{"x":"#.repeat(depth);
        opened + r#"{"type":"string"}"# + &"}}".repeat(depth)
    };
    assert!(strict_schema(&deep(10)).is_some());
    assert!(
        strict_schema(&deep(1_000)).is_none(),
        "nor does it overflow the stack"
    );
    let values: Vec<usize> = (0..1_001).collect();
    assert!(strict_property(json!({"enum": &values[1..]})).is_some());
    assert!(strict_property(json!({"enum": values})).is_none());
    let wide = |count: usize| {
        let names = (0..count).map(|name| (format!("p{name}"), json!({"type": "null"})));
        json!({"type": "object", "properties": names.collect::<Map<_, _>>()})
    };
    assert!(strict(wide(5_000)).is_some());
    assert!(strict(wide(5_001)).is_none());
}

#[test]
fn a_strict_schema_is_unchanged() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"enum": [1]}}, "b": {"type": ["null", "string"]}},
        "required": ["a"],
    });
    let once = strict_schema(&schema.to_string()).unwrap();
    assert_eq!(strict_schema(&once).as_deref(), Some(&*once));
}

/// Schemas of properties, some of which cannot be strict.
fn properties() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!({"type": "string"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "integer", "minimum": 0}),
        json!({"enum": ["a", null]}),
        json!({"const": 1}),
        json!({"oneOf": [{"const": "a"}, {"const": "b"}]}),
        json!({"type": "string", "minLength": 2}),
        json!({"anyOf": [{"type": "null"}, {"type": "integer"}]}),
    ]);
    leaf.prop_recursive(3, 24, 3, |inner| {
        let object = prop::collection::vec((inner.clone(), any::<bool>()), 0..3);
        prop_oneof![
            inner
                .clone()
                .prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|one| json!({"anyOf": [one, {"type": "null"}]})),
            object.prop_map(object_of),
        ]
    })
}

fn object_of(properties: Vec<(Value, bool)>) -> Value {
    let name = |index: usize| format!("p{index}");
    let indexed = || properties.iter().enumerate();
    let required: Vec<String> = indexed()
        .filter(|(_, (_, required))| *required)
        .map(|(index, _)| name(index))
        .collect();
    let all: Map<_, _> = indexed()
        .map(|(index, (schema, _))| (name(index), schema.clone()))
        .collect();
    json!({"type": "object", "properties": all, "required": required})
}

/// Creates a value that fits a strict schema, following the choices; `None` if there is none.
fn fitting(schema: &Value, choices: &mut impl Iterator<Item = usize>) -> Option<Value> {
    let mut choose = |among: &[Value]| {
        let choice = choices.next().unwrap_or(0);
        among.get(choice % among.len().max(1)).cloned()
    };
    if let Some(branches) = schema["anyOf"].as_array() {
        let branch = choose(branches)?;
        return fitting(&branch, choices);
    }
    if let Some(values) = schema["enum"].as_array() {
        return choose(values);
    }
    let kind = match &schema["type"] {
        Value::Array(several) => choose(several)?,
        one => one.clone(),
    };
    match kind.as_str()? {
        "null" => Some(Value::Null),
        "string" => choose(&[json!(""), json!("a"), json!("bb")]),
        "integer" => choose(&[json!(0), json!(7)]),
        "array" => {
            let count = choices.next().unwrap_or(0) % 3;
            (0..count)
                .map(|_| fitting(&schema["items"], choices))
                .collect()
        }
        _ => {
            let properties = schema["properties"].as_object()?;
            let mut all = Map::new();
            for (name, schema) in properties {
                all.insert(name.clone(), fitting(schema, choices)?);
            }
            Some(Value::Object(all))
        }
    }
}

proptest! {
    #[test]
    fn a_value_valid_for_the_strict_schema_is_valid_for_the_original(
        root in prop::collection::vec((properties(), any::<bool>()), 0..3).prop_map(object_of),
        choices in prop::collection::vec(any::<usize>(), 0..30),
    ) {
        if let Some(strict) = strict(root.clone())
            && let Some(value) = fitting(&strict, &mut choices.into_iter())
        {
            prop_assert!(jsonschema::is_valid(&strict, &value), "{strict} / {value}");
            prop_assert!(jsonschema::is_valid(&root, &value), "{root} / {strict} / {value}");
        }
    }
}
