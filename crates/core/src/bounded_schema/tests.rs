//! Tests with bounded and unbounded schemas.

use serde_json::json;

use super::*;

fn bound(schema: &Value, levels: u32) -> Result<Value, UnboundedSchema> {
    let bounded = bounded_schema(&JsonText::encode(schema).unwrap(), levels)?;
    Ok(bounded.decode().unwrap())
}

/// A schema whose definitions refer to the next one twice, as `reference` writes it.
fn doubling(reference: impl Fn(usize) -> String) -> Value {
    let mut definitions = Map::new();
    for level in 0..40 {
        let below = reference(level + 1);
        let twice = json!({"allOf": [{"$ref": below}, {"$ref": below}]});
        definitions.insert(format!("l{level}"), twice);
    }
    definitions.insert("l40".to_owned(), json!({"type": "object"}));
    json!({"$ref": reference(0), "$defs": definitions})
}

#[test]
fn a_schema_without_recursion_is_unchanged() {
    let schema = json!({
        "properties": {"a": {"$ref": "#/$defs/a%20word"}, "b": {"$ref": "#/$defs/a%20word"}},
        "$defs": {"a word": {"type": "string"}, "unused": {"$ref": "#/nowhere"}},
    });
    assert_eq!(bound(&schema, 4), Ok(schema));
}

#[test]
fn a_schema_that_doubles_per_level_is_refused_however_references_are_written() {
    let written: [fn(usize) -> String; 3] = [
        |level| format!("#/$defs/l{level}"),
        |level| format!("#/%24defs/l{level}"),
        |level| format!("#/%24%64efs/%6c{level}"),
    ];
    for reference in written {
        let refused = bound(&doubling(reference), 0);
        assert_eq!(refused, Err(UnboundedSchema::TooCostly), "{}", reference(0));
    }
}

#[test]
fn an_oversized_schema_without_references_is_refused_with_the_limit() {
    let values: Vec<u32> = (0..60_000).collect();
    let refused = bound(&json!({"enum": values}), 0).unwrap_err();
    assert_eq!(refused, UnboundedSchema::TooCostly);
    let said = refused.to_string();
    assert!(said.contains("more than 50000 places"), "{said}");
}

#[test]
fn nested_unevaluated_keywords_count_again_per_level() {
    let mut schema = json!({});
    for _ in 0..12 {
        schema = json!({"allOf": [schema], "unevaluatedProperties": false});
    }
    assert_eq!(bound(&schema, 0), Err(UnboundedSchema::TooCostly));
}

#[test]
fn a_dangling_or_ambiguous_reference_is_refused() {
    for target in [
        "#/$defs/b",
        "#/%zz",
        "#/%2",
        "#/%FF",
        "#/allOf/00",
        "#/$defs/~2",
    ] {
        let schema = json!({
            "allOf": [{}],
            "properties": {"a": {"$ref": target}},
            "$defs": {"a": {}, "~2": {}},
        });
        let refused = bound(&schema, 0);
        let expected = UnboundedSchema::Nowhere(target.to_owned());
        assert_eq!(refused, Err(expected));
    }
}

#[test]
fn an_embedded_schema_id_is_refused_under_either_keyword() {
    let part = |name: &str| json!({"allOf": [{name: "http://x/", "type": "string"}]});
    assert_eq!(bound(&part("$id"), 0), Err(UnboundedSchema::OwnAddress));
    assert!(bound(&part("id"), 0).is_ok());
    let mut old = part("id");
    old["$schema"] = "http://json-schema.org/draft-04/schema#".into();
    assert_eq!(bound(&old, 0), Err(UnboundedSchema::OwnAddress));
}

#[test]
fn a_chain_of_references_is_followed_only_up_to_a_limit() {
    let chain = |length: usize| {
        let links = (0..length).map(|at| {
            let link = json!({"$ref": format!("#/$defs/l{}", at + 1)});
            (format!("l{at}"), link)
        });
        let mut definitions: Map<String, Value> = links.collect();
        definitions.insert(format!("l{length}"), json!({}));
        json!({"$ref": "#/$defs/l0", "$defs": definitions})
    };
    assert!(bound(&chain(200), 0).is_ok());
    let long = bound(&chain(20_000), 0);
    assert_eq!(long, Err(UnboundedSchema::TooCostly));
}

#[test]
fn a_recursive_reference_is_unrolled_to_the_requested_depth() {
    let list = json!({
        "$id": "http://x/",
        "properties": {"next": {"$ref": "#"}, "name": {"$ref": "#/$defs/name"}},
        "$defs": {"name": {"type": "string"}},
    });
    let cut = bound(&list, 0).unwrap();
    assert_eq!(cut["properties"]["next"], json!({}));
    let opened = bound(&list, 2).unwrap();
    let next = |place: &Value| place["properties"]["next"].clone();
    assert_eq!(next(&opened), json!({"$ref": "#/$defs/neuraxis-level-1"}));
    let first = &opened["$defs"]["neuraxis-level-1"];
    assert_eq!(next(first), json!({"$ref": "#/$defs/neuraxis-level-2"}));
    assert_eq!(
        first["properties"]["name"],
        json!({"$ref": "#/$defs/neuraxis-level-1/$defs/name"})
    );
    assert!(first.get("$id").is_none());
    assert_eq!(next(&opened["$defs"]["neuraxis-level-2"]), json!({}));
}

#[test]
fn a_recursion_that_multiplies_per_level_is_unrolled_less() {
    let names: Vec<String> = (0..20).map(|at| format!("n{at}")).collect();
    let branches = names
        .iter()
        .map(|name| (name.clone(), json!({"$ref": "#"})));
    let tree = json!({"properties": branches.collect::<Map<String, Value>>()});
    let opened = bound(&tree, 16).unwrap();
    let copies = opened["$defs"].as_object().unwrap().len();
    assert_eq!(copies, 2);
}
