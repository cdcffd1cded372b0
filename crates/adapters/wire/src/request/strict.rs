//! Decides whether a JSON Schema can be strict, and makes it strict.
//!
//! A strict schema is one that a model is forced to follow. Providers require that every object lists all of its
//! properties as required and allows no others, and they support only a part of JSON Schema. The rules follow OpenAI's
//! guide to structured outputs (platform.openai.com/docs/guides/structured-outputs, "Supported schemas").

mod keywords;

use serde_json::{Map, Value, json};

use super::tool_schema::REFUSED;

/// The maximum nesting depth of objects and lists, and the maximum total number of properties and of enumeration
/// values.
const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5_000;
const MAX_ENUM_VALUES: usize = 1_000;

/// Returns the strict form of a schema, or `None` if it has none.
///
/// Every value that fits the strict form also fits the schema: a keyword that providers do not know is never dropped
/// silently. And a model is never made to invent an optional value: an optional property becomes required only if it
/// may be null, and a schema with one that may not be null has no strict form.
///
/// ```
/// use neuraxis_wire::strict_schema;
///
/// let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
/// assert_eq!(
///     strict_schema(schema).as_deref(),
///     Some(r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#),
/// );
/// assert_eq!(strict_schema(r#"{"type":"object","properties":{"path":{"type":"string"}}}"#), None);
/// ```
#[must_use]
pub fn strict_schema(schema: &str) -> Option<String> {
    let Ok(Value::Object(root)) = serde_json::from_str(schema) else {
        return None;
    };
    let is_object = root.get("type").is_some_and(|kind| kind == "object");
    let is_refused = |keyword: &str| keyword == "const" || REFUSED.contains(&keyword);
    if !is_object || root.keys().any(|keyword| is_refused(keyword)) {
        return None;
    }
    let strict = Strictness::default().object_schema(&root, 0)?;
    serde_json::to_string(&strict).ok()
}

/// Running totals of a schema.
#[derive(Debug, Default)]
struct Strictness {
    properties: usize,
    enum_values: usize,
}

impl Strictness {
    fn schema(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let schema = schema.as_object()?;
        self.object_schema(schema, depth).map(Value::Object)
    }

    fn object_schema(
        &mut self,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> Option<Map<String, Value>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut strict = Map::new();
        for (keyword, value) in schema {
            if let Some((keyword, value)) = self.keyword(keyword, value, schema, depth)? {
                strict.insert(keyword.to_owned(), value);
            }
        }
        if keywords::is_of_type(schema, "object") {
            self.close(schema, &mut strict)?;
        }
        let says_something = ["type", "anyOf", "enum", "$ref"];
        let says_something = says_something.iter().any(|word| strict.contains_key(*word));
        // A list without items is a list of anything.
        let is_closed = !keywords::is_of_type(schema, "array") || strict.contains_key("items");
        (says_something && is_closed).then_some(strict)
    }

    /// Returns the strict form of a keyword: `Some(None)` if it can be dropped, `None` if the schema cannot be strict.
    fn keyword<'a>(
        &mut self,
        keyword: &'a str,
        value: &Value,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> Option<Option<(&'a str, Value)>> {
        let kept = || Some(Some((keyword, value.clone())));
        match keyword {
            "properties" => {
                let properties = value.as_object()?;
                self.properties += properties.len();
                let strict = self.all(properties, depth + 1)?;
                Some(Some((keyword, strict)))
            }
            "$defs" | "definitions" => {
                let strict = self.all(value.as_object()?, depth)?;
                Some(Some((keyword, strict)))
            }
            "items" => Some(Some((keyword, self.schema(value, depth + 1)?))),
            "anyOf" => Some(Some((keyword, self.branches(value, depth)?))),
            "oneOf" if keywords::are_distinct_constants(value) => {
                Some(Some(("anyOf", self.branches(value, depth)?)))
            }
            "const" => {
                self.enum_values += 1;
                Some(Some(("enum", json!([value]))))
            }
            "enum" => {
                self.enum_values += value.as_array()?.len();
                (self.enum_values <= MAX_ENUM_VALUES).then(kept)?
            }
            "$ref" => {
                let is_alone = schema
                    .keys()
                    .all(|other| other == "$ref" || keywords::is_annotation(other));
                let is_local = value.as_str()?.starts_with('#');
                (is_alone && is_local).then(kept)?
            }
            // Both are written again by `close`.
            "required" => Some(None),
            "additionalProperties" => (value == &Value::Bool(false)).then_some(None),
            // Nothing else may be beside a reference.
            "title" | "description" if schema.contains_key("$ref") => Some(None),
            "format" if keywords::is_of_type(schema, "string") => {
                keywords::is_known_format(value).then(kept)?
            }
            _ if keywords::is_annotation(keyword) && !keywords::is_shown(keyword) => Some(None),
            _ => keywords::is_supported(keyword, value).then(kept)?,
        }
    }

    fn all(&mut self, schemas: &Map<String, Value>, depth: usize) -> Option<Value> {
        let mut strict = Map::new();
        for (name, schema) in schemas {
            strict.insert(name.clone(), self.schema(schema, depth)?);
        }
        Some(Value::Object(strict))
    }

    fn branches(&mut self, schemas: &Value, depth: usize) -> Option<Value> {
        let schemas = schemas.as_array()?.iter();
        schemas.map(|schema| self.schema(schema, depth)).collect()
    }

    /// Makes all properties of an object required, and allows no others.
    fn close(&self, schema: &Map<String, Value>, strict: &mut Map<String, Value>) -> Option<()> {
        // An object that names no properties is a map.
        let properties = schema.get("properties")?.as_object()?;
        if self.properties > MAX_PROPERTIES {
            return None;
        }
        let required = match schema.get("required") {
            Some(required) => required.as_array()?.as_slice(),
            None => &[],
        };
        let is_required = |name: &str| required.iter().any(|other| other == name);
        let all_can = properties
            .iter()
            .all(|(name, schema)| is_required(name) || keywords::accepts_null(schema));
        // A required property that is not listed could no longer be given.
        let all_are_there = required.iter().all(|name| {
            name.as_str()
                .is_some_and(|name| properties.contains_key(name))
        });
        if !all_can || !all_are_there {
            return None;
        }
        let names: Vec<&String> = properties.keys().collect();
        strict.insert("required".to_owned(), json!(names));
        strict.insert("additionalProperties".to_owned(), Value::Bool(false));
        Some(())
    }
}

#[cfg(test)]
mod tests;
