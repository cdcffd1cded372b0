//! Tests of schemas that can be requested, and of reading answers.

use super::*;

const PLACE: &str = r#"{"title":"A place!","type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}"#;

fn place() -> AnswerSchema {
    AnswerSchema::from_json(PLACE).unwrap()
}

#[test]
fn a_schema_name_is_derived_from_its_title_within_provider_limits() {
    assert_eq!(place().name(), "A_place_");
    let untitled = AnswerSchema::from_json(r#"{"type":"object"}"#).unwrap();
    assert_eq!(untitled.name(), "answer");
    assert_eq!(place().named("place-2").unwrap().name(), "place-2");
    for name in ["", "a b", "ä", &"x".repeat(65)] {
        assert!(
            matches!(place().named(name), Err(AnswerSchemaError::Name(_))),
            "{name}"
        );
    }
}

#[test]
fn an_unusable_schema_is_refused_with_the_reason() {
    let wrong = |schema: &str| AnswerSchema::from_json(schema).unwrap_err();
    assert!(matches!(wrong("{"), AnswerSchemaError::NotJson(_)));
    let message = wrong(r#"{"type":"objekt"}"#).to_string();
    assert!(message.contains("objekt"), "{message}");
    for other in [r#"{"type":"array"}"#, "true", "{}", r#"{"oneOf":[]}"#] {
        let found = wrong(other);
        let is_refused = matches!(
            found,
            AnswerSchemaError::NotObject | AnswerSchemaError::NotSchema(_)
        );
        assert!(is_refused, "{other}: {found}");
    }
    let elsewhere = r#"{"type":"object","properties":{"x":{"$ref":"https://example.org/x.json"}}}"#;
    assert!(matches!(wrong(elsewhere), AnswerSchemaError::Unbounded(_)));
    let large = format!(r#"{{"type":"object","title":"{}"}}"#, "x".repeat(70_000));
    let message = wrong(&large).to_string();
    assert!(message.contains("65536"), "{message}");
}

#[test]
fn an_answer_is_the_whole_text_or_the_contents_of_its_code_fence() {
    for text in [
        r#"{"city":"Delft"}"#,
        " \n{\"city\":\"Delft\"}\n",
        "```json\n{\"city\":\"Delft\"}\n```",
    ] {
        assert_eq!(place().read(text).unwrap().as_str(), r#"{"city":"Delft"}"#);
    }
    for text in [
        "",
        "Delft",
        r#"Here: {"city":"Delft"}"#,
        r#"{"city":"Delft""#,
    ] {
        let fault = place().read(text).unwrap_err();
        assert!(matches!(fault, AnswerFault::NotJson(_)), "{text}: {fault}");
    }
}

#[test]
fn a_mismatch_is_reported_by_location_without_quoting_the_value() {
    let fault = place().read(r#"{"city":4711}"#).unwrap_err().to_string();
    assert!(fault.contains("/city"), "{fault}");
    assert!(fault.contains("string"), "{fault}");
    assert!(!fault.contains("4711"), "{fault}");
    let fault = place().read("{}").unwrap_err().to_string();
    assert!(fault.contains("city"), "{fault}");
}

#[test]
fn an_exponentially_expanding_schema_is_refused() {
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        let below = serde_json::json!({"$ref": format!("#/$defs/l{}", level + 1)});
        let twice = serde_json::json!({"allOf": [below, below]});
        definitions.insert(format!("l{level}"), twice);
    }
    definitions.insert("l40".to_owned(), serde_json::json!({"type": "string"}));
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/l0"}},
        "$defs": definitions,
    });
    let refused = AnswerSchema::from_json(schema.to_string()).unwrap_err();
    assert!(matches!(refused, AnswerSchemaError::Unbounded(_)));
    let said = refused.to_string();
    assert!(said.starts_with("the schema is too costly"), "{said}");
}

#[test]
fn an_answer_is_checked_against_a_recursive_schema() {
    let tree = r##"{"type":"object","properties":{"name":{"type":"string"},"parts":{"items":{"$ref":"#"}}},"required":["name"]}"##;
    let tree = AnswerSchema::from_json(tree).unwrap();
    let nested = |innermost: &str, levels: usize| {
        let before = r#"{"name":"x","parts":["#.repeat(levels);
        format!("{before}{innermost}{}", "]}".repeat(levels))
    };
    for levels in [0, 1, 16] {
        assert!(tree.read(&nested(r#"{"name":"y"}"#, levels)).is_ok());
        let fault = tree.read(&nested("{}", levels)).unwrap_err().to_string();
        assert!(fault.contains("name"), "{levels}: {fault}");
    }
}
