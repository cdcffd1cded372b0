//! Turns a server's request for input into a question for the user.

use std::sync::Arc;

use neuraxis_core::JsonText;
use neuraxis_ports::{Field, FieldChoice, FieldKind, Question, Required};
use serde_json::{Map, Value};

use crate::text::{harmless, one_line};

/// The maximum number of fields in a question.
const MAX_FIELDS: usize = 20;

/// The maximum number of choices for a field.
const MAX_CHOICES: usize = 50;

/// The maximum length of a question, in characters: the user must see all of it before agreeing to it. Its other texts
/// are cut at their own limit.
const MAX_MESSAGE: usize = 2_000;
const MAX_TEXT: usize = 300;

/// The maximum number of times that a field's schema may lead to another schema.
const MAX_STEPS: usize = 8;

/// Keywords that combine schemas. A combination of one schema with null is an optional value.
const UNIONS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Builds a question from a message and a flat schema. Nullable fields and references within the schema are resolved.
///
/// # Errors
///
/// The reason why it cannot be asked.
pub(crate) fn question(
    server: &Arc<str>,
    message: &str,
    schema: &Value,
) -> Result<Question, String> {
    let none = Map::new();
    let fields = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    if fields.len() > MAX_FIELDS {
        return Err(format!("it has more than {MAX_FIELDS} fields"));
    }
    let message = harmless(message, usize::MAX);
    if message.chars().count() > MAX_MESSAGE {
        return Err(format!("it has more than {MAX_MESSAGE} characters"));
    }
    let required = texts(schema.get("required"));
    let mut question = Question::new(Arc::clone(server), message);
    for (name, field) in fields {
        let field = field.as_object().ok_or("a field is not a schema")?;
        let field = opened(schema, field)?;
        let kind = kind(schema, &field)?;
        question = question.field(made(name, &field, kind, required.contains(&name.as_str()))?);
    }
    Ok(question)
}

/// Returns the schema of a field with everything it refers to merged in.
fn opened(root: &Value, field: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut schema = field.clone();
    for _ in 0..MAX_STEPS {
        let below = if let Some(Value::String(target)) = schema.remove("$ref") {
            let place = target.strip_prefix('#').and_then(|it| root.pointer(it));
            let place = place.and_then(Value::as_object);
            place
                .cloned()
                .ok_or("a field refers to something that is not in its schema")?
        } else if let Some((union, one)) = only_one(&schema) {
            schema.remove(union);
            one
        } else {
            if let Some(kind) = only_type(&schema) {
                schema.insert("type".to_owned(), kind);
            }
            return Ok(schema);
        };
        // Keywords of the field itself, such as its title, take precedence.
        for (name, value) in below {
            schema.entry(name).or_insert(value);
        }
    }
    Err("a field refers to too many schemas".to_owned())
}

/// Returns the only schema that is combined with nothing but null, and the keyword that combines them. A `const` choice
/// is not such a schema.
fn only_one(schema: &Map<String, Value>) -> Option<(&'static str, Map<String, Value>)> {
    let is_null = |it: &Value| it.get("type").and_then(Value::as_str) == Some("null");
    UNIONS.into_iter().find_map(|union| {
        let joined = schema.get(union)?.as_array()?;
        let mut others = joined.iter().filter(|it| !is_null(it));
        let one = others.next()?.as_object()?;
        let is_only = others.next().is_none() && !one.contains_key("const");
        is_only.then(|| (union, one.clone()))
    })
}

/// Returns the only type in a list that has nothing else but null.
fn only_type(schema: &Map<String, Value>) -> Option<Value> {
    let types = schema.get("type")?.as_array()?;
    let mut others = types.iter().filter(|it| it.as_str() != Some("null"));
    let one = others.next()?.clone();
    others.next().is_none().then_some(one)
}

fn made(
    name: &str,
    schema: &Map<String, Value>,
    kind: FieldKind,
    is_required: bool,
) -> Result<Field, String> {
    // The name is sent back unchanged, so the user must see it exactly.
    if one_line(name, MAX_TEXT) != name {
        return Err("a field has a name that cannot be shown".to_owned());
    }
    let text = |key: &str| {
        schema
            .get(key)
            .and_then(Value::as_str)
            .map(|it| one_line(it, MAX_TEXT))
    };
    let mut field = Field::new(name, kind);
    field.title = text("title");
    field.description = text("description");
    field.default = match schema.get("default") {
        None | Some(Value::Null) => None,
        Some(value) => JsonText::encode(value).ok(),
    };
    if is_required {
        field.required = Required::Yes;
    }
    Ok(field)
}

fn kind(root: &Value, schema: &Map<String, Value>) -> Result<FieldKind, String> {
    let limit = |key: &str| schema.get(key);
    if let Some(choices) = choices(schema)? {
        return Ok(FieldKind::OneOf { choices });
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Ok(FieldKind::Text {
            min: limit("minLength").and_then(Value::as_u64),
            max: limit("maxLength").and_then(Value::as_u64),
            format: limit("format")
                .and_then(Value::as_str)
                .map(|it| one_line(it, MAX_TEXT)),
        }),
        Some("integer") => Ok(FieldKind::Integer {
            min: limit("minimum").and_then(whole_number),
            max: limit("maximum").and_then(whole_number),
        }),
        Some("number") => Ok(FieldKind::Number {
            min: limit("minimum").and_then(Value::as_f64),
            max: limit("maximum").and_then(Value::as_f64),
        }),
        Some("boolean") => Ok(FieldKind::Boolean),
        Some("array") => {
            let items = schema.get("items").and_then(Value::as_object);
            let items = items.map(|items| opened(root, items)).transpose()?;
            let values = items.as_ref().map(choices).transpose()?.flatten();
            values
                .map(|choices| FieldKind::AnyOf { choices })
                .ok_or_else(|| "a list has no choices".to_owned())
        }
        _ => Err("a field has an unsupported type".to_owned()),
    }
}

/// Returns a whole number, even if it is written with a fraction.
fn whole_number(number: &Value) -> Option<i64> {
    let written = number.to_string();
    let written = written.strip_suffix(".0").unwrap_or(&written);
    written.parse().ok()
}

/// Returns the values that a schema lists, each with its display name.
fn choices(schema: &Map<String, Value>) -> Result<Option<Vec<FieldChoice>>, String> {
    let titled = schema
        .get("oneOf")
        .or_else(|| schema.get("anyOf"))
        .and_then(Value::as_array);
    let choices: Vec<FieldChoice> = if let Some(titled) = titled {
        let choice = |it: &Value| {
            let value = it.get("const")?.as_str()?;
            let title = it.get("title").and_then(Value::as_str).unwrap_or(value);
            Some(chosen(value, title))
        };
        titled.iter().filter_map(choice).collect()
    } else if schema.contains_key("enum") && !is_number(schema) {
        let values = texts(schema.get("enum"));
        let titles = texts(schema.get("enumNames"));
        let titled = values.iter().enumerate();
        titled
            .map(|(at, value)| chosen(value, titles.get(at).unwrap_or(value)))
            .collect()
    } else {
        return Ok(None);
    };
    match choices.len() {
        1..=MAX_CHOICES => Ok(Some(choices)),
        0 => Err("a field has no choices".to_owned()),
        _ => Err(format!("a field has more than {MAX_CHOICES} values")),
    }
}

/// Returns whether a field takes numbers. Numbers that its schema lists are left to the server to check, since an
/// answer cannot choose among numbers.
fn is_number(schema: &Map<String, Value>) -> bool {
    let kind = schema.get("type").and_then(Value::as_str);
    matches!(kind, Some("integer" | "number"))
}

fn chosen(value: &str, title: &str) -> FieldChoice {
    FieldChoice {
        value: value.to_owned(),
        title: one_line(title, MAX_TEXT),
    }
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    let items = value.and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(schema: &Value) -> Result<Question, String> {
        question(&Arc::from("shop"), "Which\u{1b}[2J one?", schema)
    }

    #[test]
    fn a_flat_schema_becomes_fields_in_order() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "maxLength": 20, "default": "me"},
                "pages": {"type": "integer", "minimum": 1, "maximum": 9},
                "gift": {"type": "boolean"},
                "rows": {"type": "integer", "enum": [1, 2]},
                "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
                "extras": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Ribbon"}]}},
            },
            "required": ["name"],
        });
        let question = asked(&schema).unwrap();
        assert_eq!(&*question.from, "shop");
        assert_eq!(question.message, "Which[2J one?");
        let field = |name: &str| question.fields.iter().find(|it| it.name == name).unwrap();
        assert_eq!(field("name").required, Required::Yes);
        assert_eq!(field("name").default, Some(JsonText::from_text("\"me\"")));
        assert_eq!(
            field("pages").kind,
            FieldKind::Integer {
                min: Some(1),
                max: Some(9)
            }
        );
        assert_eq!(field("gift").kind, FieldKind::Boolean);
        assert_eq!(
            field("rows").kind,
            FieldKind::Integer {
                min: None,
                max: None
            }
        );
        assert_eq!(
            field("size").kind,
            FieldKind::OneOf {
                choices: vec![chosen("s", "Small"), chosen("l", "Large")]
            }
        );
        assert_eq!(
            field("extras").kind,
            FieldKind::AnyOf {
                choices: vec![chosen("r", "Ribbon")]
            }
        );
    }

    #[test]
    fn nullable_and_referenced_fields_are_resolved() {
        let schema = json!({
            "properties": {
                "size": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}], "default": null},
                "sizes": {"type": "array", "items": {"$ref": "#/$defs/Size"}},
                "at": {"type": ["string", "null"], "title": "When", "format": "time"},
                "pages": {"allOf": [{"type": "integer", "minimum": 1.0, "maximum": 9}], "title": "Pages"},
                "wrap": {"anyOf": [{"oneOf": [{"const": "r"}, {"const": "p"}]}, {"type": "null"}]},
                "only": {"type": "string", "oneOf": [{"const": "r", "title": "Ribbon"}]},
                "both": {"anyOf": [{"type": "string"}], "oneOf": [{"const": "r"}, {"const": "p"}]},
                "last": {"oneOf": [{"const": "r"}, {"const": "p"}], "allOf": [{"title": "Last"}]},
            },
            "$defs": {"Size": {"type": "string", "title": "Size", "enum": ["s", "l"]}},
        });
        let question = asked(&schema).unwrap();
        let field = |name: &str| question.fields.iter().find(|it| it.name == name).unwrap();
        let sizes = || vec![chosen("s", "s"), chosen("l", "l")];
        assert_eq!(field("size").kind, FieldKind::OneOf { choices: sizes() });
        assert_eq!(field("size").title.as_deref(), Some("Size"));
        assert_eq!(field("size").default, None);
        assert_eq!(field("sizes").kind, FieldKind::AnyOf { choices: sizes() });
        assert!(
            matches!(&field("at").kind, FieldKind::Text { format: Some(format), .. } if format == "time")
        );
        assert_eq!(field("at").title.as_deref(), Some("When"));
        assert_eq!(
            field("pages").kind,
            FieldKind::Integer {
                min: Some(1),
                max: Some(9)
            }
        );
        let count = |name: &str| match &field(name).kind {
            FieldKind::OneOf { choices } => choices.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((count("wrap"), count("only")), (2, 1));
        assert_eq!((count("both"), count("last")), (2, 2));
        assert_eq!(field("last").title.as_deref(), Some("Last"));
    }

    #[test]
    fn a_question_too_long_to_show_whole_is_refused() {
        let asked = |message: String| question(&Arc::from("shop"), &message, &json!({}));
        // Characters that are not shown do not count toward the limit.
        let longest = format!("\u{1b}{}", "é".repeat(MAX_MESSAGE));
        let shown = asked(longest.clone()).unwrap().message;
        assert_eq!(shown.chars().count(), MAX_MESSAGE);
        let refused = asked(longest + "!").unwrap_err();
        assert_eq!(refused, "it has more than 2000 characters");
    }

    #[test]
    fn fields_that_cannot_be_shown_are_refused() {
        for field in [
            json!({"$ref": "#/properties/a"}),
            json!({"$ref": "#/$defs/none"}),
            json!({"$ref": "https://example.org/size.json"}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"type": ["string", "integer"]}),
            json!({"type": "object"}),
            json!({"type": "string", "enum": []}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({}),
        ] {
            assert!(asked(&json!({"properties": {"a": field}})).is_err());
        }
        let hidden = json!({"properties": {"a\u{202e}b": {"type": "boolean"}}});
        assert!(asked(&hidden).is_err());
        let many: Map<String, Value> = (0..=MAX_FIELDS)
            .map(|at| (at.to_string(), json!({"type": "boolean"})))
            .collect();
        assert!(asked(&json!({"properties": many})).is_err());
        assert!(asked(&json!({})).unwrap().fields.is_empty());
    }
}
