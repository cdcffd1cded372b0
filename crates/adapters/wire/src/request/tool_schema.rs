//! The schemas of tools in a form that services accept. The refused parts of a schema are described to the model in
//! words: a single tool with them would make every request fail. Calls are checked against the full schema anyway, by
//! the code that runs the tools.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::settings::PropertyNames;

/// Keywords that services refuse at the root of a schema.
pub(super) const REFUSED: [&str; 5] = ["allOf", "anyOf", "oneOf", "not", "enum"];

/// Those of them that contain schemas with their own properties.
const BRANCHING: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Keywords that exclude properties that are not named.
const CLOSING: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// The maximum number of characters of a plain name.
const MAX_NAME: usize = 64;

/// The maximum number of references followed in a row, and how deep branches are searched for properties.
const MAX_LEVELS: usize = 4;

/// The schema of a tool's arguments.
#[derive(Debug)]
pub(super) struct ToolSchema<'a> {
    /// The part that is sent as a schema.
    pub(super) sent: Cow<'a, str>,
    /// The text added to the tool's description about what services refuse.
    pub(super) note: Option<String>,
}

/// Returns the schema of a tool in a form that services accept: that of an object, as the arguments of a call always
/// are.
///
/// A reference at the root is replaced by its target. Properties of branches are added to the others. Refused branches
/// and names are not sent. The schema always has properties, even if there are none: OpenAI refuses an object without
/// the keyword.
pub(super) fn tool_schema(schema: &str, names: PropertyNames) -> ToolSchema<'_> {
    let is_name = |name: &str| names == PropertyNames::Any || is_plain(name);
    let whole = serde_json::from_str::<Value>(schema).ok();
    let Some(whole) = whole.filter(|whole| !is_accepted(whole, is_name)) else {
        return ToolSchema {
            sent: schema.into(),
            note: None,
        };
    };
    let root = whole.as_object();
    let root = root.map(|root| opened(root, &whole, MAX_LEVELS));
    let root = root.unwrap_or_default();
    let all = properties(&root, &whole).into_iter();
    let (taken, refused): (Map<String, Value>, Map<String, Value>) =
        all.partition(|(name, _)| is_name(name));
    let mut sent = Map::new();
    sent.insert("type".to_owned(), "object".into());
    sent.insert("properties".to_owned(), Value::Object(taken));
    let mut unsent = Map::new();
    for (keyword, value) in root {
        match keyword.as_str() {
            "type" | "properties" => {}
            // The description in words names further properties.
            closing if CLOSING.contains(&closing) && !refused.is_empty() => {}
            keyword if REFUSED.contains(&keyword) => {
                unsent.insert(keyword.to_owned(), value);
            }
            "required" => {
                let Value::Array(names) = value else { continue };
                let is_sent = |name: &Value| name.as_str().is_some_and(is_name);
                let (names, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_sent);
                if !others.is_empty() {
                    unsent.insert(keyword.clone(), Value::Array(others));
                }
                sent.insert(keyword, Value::Array(names));
            }
            _ => {
                sent.insert(keyword, value);
            }
        }
    }
    if !refused.is_empty() {
        unsent.insert("properties".to_owned(), Value::Object(refused));
    }
    let note = (!unsent.is_empty()).then(|| {
        let unsent = Value::Object(unsent);
        format!(
            "The arguments must also fit this JSON Schema, with names as they are in it: {unsent}"
        )
    });
    ToolSchema {
        sent: Value::Object(sent).to_string().into(),
        note,
    }
}

/// Returns whether services accept a schema unchanged; also `true` for one that is not an object, since it cannot be
/// converted.
fn is_accepted(schema: &Value, is_name: impl Fn(&str) -> bool) -> bool {
    let Value::Object(root) = schema else {
        return true;
    };
    let properties = root.get("properties").and_then(Value::as_object);
    root.get("type").is_some_and(|it| it == "object")
        && !root.contains_key("$ref")
        && !REFUSED.iter().any(|keyword| root.contains_key(*keyword))
        && properties.is_some_and(|all| all.keys().all(|name| is_name(name)))
}

fn is_plain(name: &str) -> bool {
    let is_sign = |sign: u8| sign.is_ascii_alphanumeric() || b"_.-".contains(&sign);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_sign)
}

/// Returns a part of a schema with its reference replaced by the target; the part's own keywords take precedence.
fn opened(part: &Map<String, Value>, whole: &Value, levels: usize) -> Map<String, Value> {
    let mut opened_part = part.clone();
    let reference = part.get("$ref").and_then(Value::as_str);
    let place = reference.and_then(|reference| reference.strip_prefix('#'));
    let target = place.and_then(|place| whole.pointer(place));
    let (Some(target), Some(levels)) = (target.and_then(Value::as_object), levels.checked_sub(1))
    else {
        return opened_part;
    };
    opened_part.retain(|keyword, _| keyword != "$ref");
    let target = opened(target, whole, levels);
    for (keyword, value) in target.into_iter().filter(|(keyword, _)| keyword != "$ref") {
        match opened_part.entry(keyword) {
            Entry::Vacant(free) => {
                free.insert(value);
            }
            Entry::Occupied(mut own) => {
                if let (Value::Object(own), Value::Object(more)) = (own.get_mut(), value) {
                    for (name, schema) in more {
                        own.entry(name).or_insert(schema);
                    }
                }
            }
        }
    }
    opened_part
}

/// Returns the properties of a schema with those of its branches. A property with several forms there may have any of
/// them.
fn properties(root: &Map<String, Value>, whole: &Value) -> Map<String, Value> {
    let own = root.get("properties").and_then(Value::as_object);
    let mut all = own.cloned().unwrap_or_default();
    let mut forms = BTreeMap::new();
    collect_forms(root, whole, MAX_LEVELS, &mut forms);
    for (name, forms) in forms {
        let form = match <[Value; 1]>::try_from(forms) {
            Ok([only]) => only,
            Err(several) => {
                let several = [("anyOf".to_owned(), Value::Array(several))];
                Value::Object(several.into_iter().collect())
            }
        };
        all.entry(name).or_insert(form);
    }
    all
}

/// Collects the forms that properties have in the branches of a part.
fn collect_forms(
    part: &Map<String, Value>,
    whole: &Value,
    levels: usize,
    forms: &mut BTreeMap<String, Vec<Value>>,
) {
    let Some(levels) = levels.checked_sub(1) else {
        return;
    };
    let branches = BRANCHING.iter().filter_map(|keyword| part.get(*keyword));
    let branches = branches.filter_map(Value::as_array).flatten();
    for branch in branches.filter_map(Value::as_object) {
        let branch = opened(branch, whole, MAX_LEVELS);
        let own = branch.get("properties").and_then(Value::as_object);
        for (name, schema) in own.into_iter().flatten() {
            let known = forms.entry(name.clone()).or_default();
            if !known.contains(schema) {
                known.push(schema.clone());
            }
        }
        collect_forms(&branch, whole, levels, forms);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the part of a schema that is sent if names must be plain, and the text for the rest.
    fn sent(schema: &Value) -> (Value, Option<String>) {
        sent_with(schema, PropertyNames::Plain)
    }

    fn sent_with(schema: &Value, names: PropertyNames) -> (Value, Option<String>) {
        let schema = schema.to_string();
        let schema = tool_schema(&schema, names);
        (serde_json::from_str(&schema.sent).unwrap(), schema.note)
    }

    #[test]
    fn the_schema_of_a_tool_always_describes_an_object() {
        for (schema, expected) in [
            ("{}", r#"{"type":"object","properties":{}}"#),
            (
                r#"{"type": "object"}"#,
                r#"{"type":"object","properties":{}}"#,
            ),
            (
                r#"{"type":["object","null"]}"#,
                r#"{"type":"object","properties":{}}"#,
            ),
            (
                r##"{"$ref":"#/$defs/a"}"##,
                r##"{"type":"object","properties":{},"$ref":"#/$defs/a"}"##,
            ),
            ("nonsense", "nonsense"),
        ] {
            let schema = tool_schema(schema, PropertyNames::Any);
            assert_eq!((&*schema.sent, schema.note), (expected, None));
        }
    }

    #[test]
    fn a_supported_schema_is_unchanged() {
        let schema = r#"{ "type":"object", "properties":{"a.b-c_1":{"anyOf":[{"properties":{"$top":{}}}]}} }"#;
        let taken = tool_schema(schema, PropertyNames::Plain);
        assert_eq!((&*taken.sent, taken.note), (schema, None));
    }

    #[test]
    fn a_reference_at_the_root_is_resolved() {
        let node = json!({"properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]});
        let schema = json!({"$ref": "#/$defs/a", "properties": {"own": {}},
            "$defs": {"a": {"$ref": "#/$defs/node"}, "node": node}});
        let expected = json!({"type": "object", "required": ["next"], "$defs": schema["$defs"],
            "properties": {"own": {}, "next": {"$ref": "#/$defs/node"}}});
        assert_eq!(sent(&schema), (expected, None));
        for cyclic in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
        ] {
            let (sent, told) = sent(&cyclic);
            assert_eq!((sent.get("$ref"), told), (None, None));
        }
    }

    #[test]
    fn branches_at_the_root_move_into_the_note_and_their_properties_are_merged() {
        for keyword in BRANCHING {
            let branches = json!([
                {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["x"]},
                {"$ref": "#/$defs/b"},
                true,
            ]);
            let defs = json!({"b": {"anyOf": [{"properties":
                {"kind": {"const": "b"}, "x": {"type": "string"}, "id": {"const": 1}}}]}});
            let mut schema = json!({"properties": {"id": {"type": "integer"}}, "$defs": defs});
            schema[keyword] = branches.clone();
            let (sent, told) = sent(&schema);
            let kinds = json!([{"const": "a"}, {"const": "b"}]);
            let expected = json!({"type": "object", "$defs": defs, "properties":
                {"id": {"type": "integer"}, "kind": {"anyOf": kinds}, "x": {"type": "string"}}});
            assert_eq!(sent, expected);
            let told = told.unwrap();
            let rule = json!({keyword: branches}).to_string();
            assert!(told.ends_with(&rule), "{told}");
        }
    }

    #[test]
    fn unsupported_property_names_move_into_the_note() {
        let long = "x".repeat(MAX_NAME + 1);
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"$top": {"type": "integer"}, "filter[id]": {}, long.clone(): {}, "ok": {}},
            "required": ["$top", "ok"]});
        let (sent, told) = sent(&schema);
        let expected = json!({"type": "object", "properties": {"ok": {}}, "required": ["ok"]});
        assert_eq!(sent, expected);
        let told = told.unwrap();
        let (_, rule) = told.split_once("it: ").unwrap();
        let rule: Value = serde_json::from_str(rule).unwrap();
        let properties = json!({"$top": {"type": "integer"}, "filter[id]": {}, long: {}});
        assert_eq!(
            rule,
            json!({"required": ["$top"], "properties": properties})
        );
    }

    #[test]
    fn all_property_names_are_sent_to_services_that_accept_any() {
        let schema = json!({"not": {"required": ["b"]}, "required": ["$top"],
            "properties": {"$top": {"type": "integer"}, "b": {}}});
        let (sent, told) = sent_with(&schema, PropertyNames::Any);
        assert_eq!(
            sent,
            json!({"type": "object", "required": ["$top"], "properties": schema["properties"]})
        );
        let told = told.unwrap();
        assert!(told.ends_with(r#"{"not":{"required":["b"]}}"#), "{told}");
    }

    #[test]
    fn recursive_branches_terminate() {
        let schema = json!({"anyOf": [{"$ref": "#"}], "properties": {"a": {}}});
        let (sent, told) = sent(&schema);
        assert_eq!(sent, json!({"type": "object", "properties": {"a": {}}}));
        assert!(told.is_some());
    }
}
