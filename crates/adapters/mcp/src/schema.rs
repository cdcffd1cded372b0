//! Makes the schema of a stranger's tool harmless: bounded in size and in what checking a call against it can cost.
//!
//! Nothing outside the schema is ever looked up. A reference that leads back to itself is opened once and takes anything
//! after that: the server checks what it is given anyway.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The most bytes of a tool's schema.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// The most levels of a schema.
const MAX_DEPTH: usize = 64;

/// The most that checking one value may cost, in places of the schema that are looked at.
const MAX_COST: u64 = 50_000;

/// What refers to another place.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Returns a schema that can be used, for the model and for checking.
///
/// # Errors
///
/// Why it cannot be used.
pub(crate) fn bounded(schema: &Map<String, Value>) -> Result<Value, String> {
    let size = serde_json::to_vec(schema).map_or(usize::MAX, |text| text.len());
    if size > MAX_BYTES {
        return Err(format!(
            "its schema has {size} bytes, more than {MAX_BYTES}"
        ));
    }
    let mut schema = Value::Object(schema.clone());
    if depth(&schema) > MAX_DEPTH {
        return Err(format!("its schema has more than {MAX_DEPTH} levels"));
    }
    check_references(&schema, true)?;
    let mut walk = Walk {
        schema: &schema,
        costs: HashMap::new(),
        cyclic: Vec::new(),
    };
    let cost = walk.cost("", &schema);
    if cost > MAX_COST {
        return Err("its schema is too costly to check calls against".to_owned());
    }
    for pointer in walk.cyclic {
        if let Some(Value::Object(place)) = schema.pointer_mut(&pointer) {
            place.remove("$ref");
        }
    }
    if let Value::Object(root) = &mut schema {
        root.entry("type").or_insert_with(|| "object".into());
    }
    Ok(schema)
}

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => None,
    };
    1 + below.unwrap_or(0)
}

/// Refuses references to anything but a place within the schema, and places with an address of their own, from which
/// references would count.
fn check_references(value: &Value, is_root: bool) -> Result<(), String> {
    match value {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| check_references(item, false)),
        Value::Object(members) => {
            for keyword in REFERENCES {
                if let Some(Value::String(target)) = members.get(keyword) {
                    let is_local = target == "#" || target.starts_with("#/");
                    if keyword != "$ref" || !is_local {
                        return Err("its schema refers to something outside of itself".to_owned());
                    }
                }
            }
            if !is_root && members.get("$id").is_some_and(Value::is_string) {
                return Err("its schema has a part with an address of its own".to_owned());
            }
            members
                .values()
                .try_for_each(|member| check_references(member, false))
        }
        _ => Ok(()),
    }
}

/// Adds up what checking costs, and finds the references that lead back to where they are used.
struct Walk<'a> {
    schema: &'a Value,
    /// What each place that is referred to costs; `None` while it is being added up.
    costs: HashMap<String, Option<u64>>,
    /// The places of the references that lead back.
    cyclic: Vec<String>,
}

impl Walk<'_> {
    /// Returns what a place costs, with all it refers to.
    fn cost(&mut self, pointer: &str, value: &Value) -> u64 {
        match value {
            Value::Array(items) => {
                let costs = items.iter().enumerate();
                costs.fold(1, |sum: u64, (at, item)| {
                    sum.saturating_add(self.cost(&format!("{pointer}/{at}"), item))
                })
            }
            Value::Object(members) => {
                let mut sum: u64 = 1;
                for (name, member) in members {
                    // What is only defined costs where it is used.
                    if matches!(name.as_str(), "$defs" | "definitions") && pointer.is_empty() {
                        continue;
                    }
                    let name = name.replace('~', "~0").replace('/', "~1");
                    sum = sum.saturating_add(self.cost(&format!("{pointer}/{name}"), member));
                }
                if let Some(Value::String(target)) = members.get("$ref") {
                    sum = sum.saturating_add(self.reference(pointer, target));
                }
                sum
            }
            _ => 1,
        }
    }

    fn reference(&mut self, from: &str, target: &str) -> u64 {
        let target = target.trim_start_matches('#').to_owned();
        // What it is within is being added up just now.
        let is_within = from.starts_with(&target)
            && from
                .get(target.len()..)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match self.costs.get(&target) {
            _ if is_within => {
                self.cyclic.push(from.to_owned());
                1
            }
            Some(Some(cost)) => *cost,
            Some(None) => {
                self.cyclic.push(from.to_owned());
                1
            }
            None => {
                let schema = self.schema;
                let Some(place) = schema.pointer(&target) else {
                    return 1;
                };
                self.costs.insert(target.clone(), None);
                let cost = self.cost(&target, place);
                self.costs.insert(target, Some(cost));
                cost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bound(schema: &Value) -> Result<Value, String> {
        bounded(schema.as_object().unwrap())
    }

    #[test]
    fn an_ordinary_schema_stays_as_it_is() {
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
    fn a_reference_that_leads_back_takes_anything_and_the_rest_stays() {
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
    fn a_schema_that_doubles_with_each_level_is_refused() {
        let mut defs = Map::new();
        for level in 0..40 {
            let below = format!("#/$defs/l{}", level + 1);
            let twice = json!({"allOf": [{"$ref": below}, {"$ref": below}]});
            defs.insert(format!("l{level}"), twice);
        }
        defs.insert("l40".to_owned(), json!({"type": "object"}));
        let schema = json!({"$ref": "#/$defs/l0", "$defs": defs});
        assert!(bound(&schema).unwrap_err().contains("too costly"));
    }

    #[test]
    fn what_is_outside_or_too_large_is_refused() {
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
        for _ in 0..MAX_DEPTH {
            deep = json!({"items": deep});
        }
        assert!(bound(&deep).unwrap_err().contains("levels"));
    }
}
