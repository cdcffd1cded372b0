//! Turns a result's JSON value into lines.
//!
//! A value with a `summary` is shown as that, with its `warnings`, its `hint`, and the content that a summary cannot
//! hold: `text`, `hits` and `entries`. Any other value is shown field by field.

use serde_json::{Map, Value};

use super::lines::Lines;
use crate::clean;

/// The maximum number of list items, or object fields, that are shown on one line.
const MAX_ITEMS: usize = 20;
/// The depth to which each field gets its own line; deeper values are shown on one line.
const MAX_DEPTH: usize = 3;

/// Returns the lines that describe a value.
pub(super) fn describe(value: &Value) -> Lines {
    let mut lines = Lines::default();
    match value {
        Value::Object(fields) if fields.contains_key("summary") => {
            describe_summarized(fields, &mut lines);
        }
        Value::Null => {}
        Value::String(text) => lines.text(text, ""),
        other => describe_at(other, 0, &mut lines),
    }
    lines
}

fn describe_summarized(fields: &Map<String, Value>, lines: &mut Lines) {
    let items = |name: &str| {
        fields
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    for sentence in sentences(fields, "summary") {
        lines.text(sentence, "");
    }
    let warnings = sentences(fields, "warnings");
    if !warnings.is_empty() {
        lines.line(|| "Warnings:".to_owned());
    }
    for warning in warnings {
        lines.line(|| format!("- {}", clean::line(warning)));
    }
    if let Some(text) = fields
        .get("text")
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
    {
        lines.line(String::new);
        lines.text(text, "");
    }
    for hit in items("hits") {
        lines.line(|| self::hit(hit).unwrap_or_else(|| on_one_line(hit)));
    }
    // A short list is already part of the summary.
    let entry = |item: &Value| entry(item).unwrap_or_else(|| on_one_line(item));
    if items("entries").any(|item| !lines.contains(&entry(item))) {
        items("entries").for_each(|item| lines.line(|| entry(item)));
    }
    if let Some(hint) = fields.get("hint").and_then(Value::as_str) {
        lines.line(|| format!("Note: {}", clean::line(hint)));
    }
}

/// Returns a field's text, or the texts of its list.
fn sentences<'a>(fields: &'a Map<String, Value>, name: &str) -> Vec<&'a str> {
    match fields.get(name) {
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(text)) if !text.is_empty() => vec![text],
        _ => Vec::new(),
    }
}

/// Describes a line of a file.
fn hit(hit: &Value) -> Option<String> {
    let (path, text) = (hit.get("path")?.as_str()?, hit.get("text")?.as_str()?);
    Some(format!(
        "{}:{}: {}",
        clean::line(path),
        hit.get("line")?.as_u64()?,
        clean::line(text)
    ))
}

/// Describes a file or folder.
fn entry(entry: &Value) -> Option<String> {
    let path = clean::line(entry.get("path")?.as_str()?);
    let is_folder = entry.get("kind").and_then(Value::as_str) == Some("folder");
    Some(if is_folder { format!("{path}/") } else { path })
}

/// Describes a value, with lines indented by its depth.
fn describe_at(value: &Value, depth: usize, lines: &mut Lines) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                describe_field(name, value, depth, lines);
            }
        }
        Value::Array(items) => {
            for item in items {
                lines.line(|| format!("{indent}- {}", on_one_line(item)));
            }
        }
        plain => lines.line(|| format!("{indent}{}", on_one_line(plain))),
    }
}

fn describe_field(name: &str, value: &Value, depth: usize, lines: &mut Lines) {
    let indent = "  ".repeat(depth);
    let is_nested = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => items.iter().any(|item| item.is_object() || item.is_array()),
        Value::String(text) => text.trim_end().contains('\n'),
        _ => false,
    };
    if !is_nested || depth + 1 >= MAX_DEPTH {
        lines.line(|| format!("{indent}{}: {}", in_words(name), on_one_line(value)));
        return;
    }
    lines.line(|| format!("{indent}{}:", in_words(name)));
    match value {
        Value::String(text) => lines.text(text, &format!("{indent}  ")),
        other => describe_at(other, depth + 1, lines),
    }
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => clean::line(text),
        Value::Array(items) => enumerate(items.iter().map(on_one_line), items.len()),
        Value::Object(fields) => {
            let described = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", in_words(name), on_one_line(value)));
            enumerate(described, fields.len())
        }
    }
}

fn enumerate(items: impl Iterator<Item = String>, count: usize) -> String {
    if count == 0 {
        return "none".to_owned();
    }
    let more = count.checked_sub(MAX_ITEMS).filter(|more| *more > 0);
    let more = more.map(|more| format!("and {more} more"));
    clean::line(
        &items
            .take(MAX_ITEMS)
            .chain(more)
            .collect::<Vec<_>>()
            .join(", "),
    )
}

fn in_words(name: &str) -> String {
    clean::line(&name.replace('_', " "))
}
