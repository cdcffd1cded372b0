//! JSON Schemas of what is sent and what is read, with one name for each type.

use std::collections::BTreeMap;

use neuraxis::Event;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Where named schemas are in the document.
const PLACE: &str = "/components/schemas";

/// The schemas of a document while it is built.
#[derive(Debug)]
pub(super) struct Schemas {
    /// For what is sent: fields that are always present are required.
    responses: SchemaGenerator,
    /// For what is read: fields that may be omitted are not required.
    requests: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = PLACE.into();
                settings.meta_schema = None;
            })
        };
        let responses = settings().for_serialize().with_transform(Tidy::Response);
        let requests = settings().for_deserialize().with_transform(Tidy::Request);
        Self {
            responses: responses.into_generator(),
            requests: requests.into_generator(),
        }
    }

    /// Returns the schema of a type that is sent.
    pub(super) fn of_response<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.responses.subschema_for::<T>();
        Tidy::Response.transform(&mut schema);
        schema.to_value()
    }

    /// Returns the schema of a type that is read.
    pub(super) fn of_request<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.requests.subschema_for::<T>();
        Tidy::Request.transform(&mut schema);
        schema.to_value()
    }

    /// Returns the schema of an object that is read, inline and without a name.
    pub(super) fn fields<T: JsonSchema>(&mut self) -> Value {
        let mut schema = T::json_schema(&mut self.requests);
        Tidy::Request.transform(&mut schema);
        schema.to_value()
    }

    /// Returns the schema of one event of a stream, field by field as it is sent.
    pub(super) fn events(&mut self) -> Value {
        let event = self.of_response::<Event>();
        json!({
            "description": "One event of the stream, with its fields `id`, `event` and `data`.",
            "type": "object",
            "required": ["event", "data"],
            "properties": {
                "id": {
                    "description": "The `seq` of a record, to send as `Last-Event-ID` when resuming. Live events have \
                                    none.",
                    "type": "string",
                    "pattern": "^[0-9]+$",
                },
                "event": {
                    "description": "The `type` of the record or live event; or `dropped`, after which the stream ends \
                                    because the client read nothing for too long.",
                    "type": "string",
                },
                "data": {
                    "description": "The record or live event, as JSON on one line. For `dropped`, an object with \
                                    `type`, `last_event_id` (to send as `Last-Event-ID` when resuming) and `detail` \
                                    (a readable sentence).",
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": event,
                },
            },
        })
    }

    /// Returns the schema of one event of a stream in a third-party protocol.
    pub(super) fn their_events(&mut self) -> Value {
        json!({
            "description": "One event of the stream, with its fields. `data` is JSON as defined by the protocol, or \
                            `[DONE]` at the end of a stream of OpenAI's Chat Completions.",
            "type": "object",
            "required": ["data"],
            "properties": {
                "event": { "description": "The kind of event, if the protocol puts it here.", "type": "string" },
                "data": { "description": "The content of the event.", "type": "string" },
            },
        })
    }

    /// Returns the schema of a text that is not JSON.
    pub(super) fn text(&mut self) -> Value {
        json!({ "type": "string" })
    }

    /// Returns all named schemas.
    pub(super) fn into_named(self) -> Map<String, Value> {
        let (responses, requests) = self.into_both();
        let named: BTreeMap<String, Value> = requests.into_iter().chain(responses).collect();
        named.into_iter().collect()
    }

    /// Returns the schemas of what is sent, and those of what is read.
    pub(super) fn into_both(mut self) -> (Map<String, Value>, Map<String, Value>) {
        let responses = self.responses.take_definitions(true);
        (responses, self.requests.take_definitions(true))
    }
}

/// Adds to a schema what schemars cannot know, and removes what API readers do not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tidy {
    Response,
    Request,
}

impl Transform for Tidy {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = plain(text);
        }
        bound(object);
        all_of(object);
        // Omitting a field is the same as null, so this default says nothing.
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if *self == Self::Response {
            // A default is irrelevant for a field that is sent.
            object.remove("default");
            without_null_where_left_out(object);
        }
    }
}

/// Sets the maximum of an unsigned type.
fn bound(object: &mut Map<String, Value>) {
    let most = match object.get("format").and_then(Value::as_str) {
        Some("uint" | "uint64") => u64::MAX,
        Some("uint32") => u64::from(u32::MAX),
        _ => return,
    };
    object.entry("maximum").or_insert_with(|| most.into());
    if most == u64::MAX {
        object.insert("format".to_owned(), "uint64".into());
    }
}

/// Uses `allOf` to combine a reference with further properties: many readers ignore keywords next to a reference.
fn all_of(object: &mut Map<String, Value>) {
    if object.contains_key("properties")
        && let Some(other) = object.remove("$ref")
    {
        object.insert("allOf".to_owned(), json!([{ "$ref": other }]));
    }
}

/// Removes null from optional fields: they are omitted rather than null.
fn without_null_where_left_out(object: &mut Map<String, Value>) {
    let required = object.get("required").cloned().unwrap_or_default();
    let is_required = |name: &String| {
        let names = required.as_array();
        names.is_some_and(|names| names.iter().any(|it| it == name))
    };
    let Some(Value::Object(fields)) = object.get_mut("properties") else {
        return;
    };
    let optional = fields.iter_mut().filter(|(name, _)| !is_required(name));
    for (_, field) in optional {
        if let Value::Object(field) = field {
            without_null(field);
        }
    }
}

/// Removes null from what a schema allows.
pub(super) fn without_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&"null".into()));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            schema.extend(only);
        }
    }
}

/// Converts a doc comment for API readers: one line per paragraph, and links to code reduced to their text.
fn plain(comment: &str) -> String {
    let paragraphs = comment.split("\n\n");
    let lines = paragraphs.map(|paragraph| paragraph.split('\n').collect::<Vec<_>>().join(" "));
    let text = lines.collect::<Vec<_>>().join("\n\n");
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((name, after)) = link.split_once(']') else {
            plain.push('[');
            rest = link;
            continue;
        };
        let target = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'));
        if target.is_some() || name.starts_with('`') {
            plain.push_str(name);
        } else {
            plain.extend(["[", name, "]"]);
        }
        rest = target.map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    // JSON has no such name: the field is omitted. Comments on the few fields that are null instead say so.
    plain
        .replace(". `None`", ". Absent")
        .replace("`None`", "absent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_links_become_their_plain_text() {
        for (comment, expected) in [
            ("As [`X`](crate::X), or\n[`Y`].", "As `X`, or `Y`."),
            ("One.\n\nTwo\nlines.", "One.\n\nTwo lines."),
            ("`[agents.NAME]`, from [0 on", "`[agents.NAME]`, from [0 on"),
            ("Whose; `None` if nobody's.", "Whose; absent if nobody's."),
            ("Whose. `None` for all.", "Whose. Absent for all."),
        ] {
            assert_eq!(plain(comment), expected);
        }
    }

    #[test]
    fn a_skipped_optional_field_is_not_nullable_in_its_schema() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "its schema is looked at")]
        struct Shown {
            always: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            sometimes: Option<u32>,
        }
        let mut schemas = Schemas::new();
        schemas.of_response::<Shown>();
        let shown = &schemas.into_named()["Shown"];
        let types = |name: &str| shown["properties"][name]["type"].clone();
        assert_eq!(types("always"), json!(["integer", "null"]));
        assert_eq!(types("sometimes"), json!("integer"));
        assert_eq!(shown["properties"]["always"]["maximum"], u32::MAX);
    }
}
