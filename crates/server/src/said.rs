//! What clients say: JSON objects and queries of known fields, with a clear word about what is wrong with them.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use neuraxis::core::clip;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Number, Value};

use crate::problem::{INVALID_FIELD, INVALID_JSON, INVALID_QUERY, Problem, UNKNOWN_FIELD};

/// The most characters of a client's own words, such as the name of an unknown field, that an answer repeats.
const MAX_REPEATED_CHARS: usize = 64;

/// The most characters of an answer about them.
const MAX_COMPLAINT_CHARS: usize = 300;

/// The form of a text that every store can keep, as a schema tells it.
pub(crate) const WITHOUT_NUL: &str = r"^[^\x00]*$";

/// The form of a text that says something, as a schema tells it.
pub(crate) const SAYS_SOMETHING: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";

/// The greatest whole number that all JSON programs tell from its neighbors: 2^53 - 1.
pub(crate) const MAX_WHOLE: u64 = (1 << 53) - 1;

/// Reads a whole number, however it is written: to JSON `7.0` is one, and some languages know no other numbers.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let is_whole = |float: &f64| float.fract() == 0.0 && *float >= 0.0;
    let whole = number.as_u64().or_else(|| {
        let float = number.as_f64().filter(is_whole)?;
        // Without a fraction it is the text of a whole number.
        format!("{float:.0}").trim_start_matches('-').parse().ok()
    });
    whole.filter(|whole| *whole <= MAX_WHOLE).ok_or_else(|| {
        D::Error::custom(format_args!(
            "invalid number {number}, expected a whole number from 0 to {MAX_WHOLE}"
        ))
    })
}

/// Reads a whole number, or none.
pub(crate) fn whole_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Whole(#[serde(deserialize_with = "whole")] u64);
    Ok(Option::<Whole>::deserialize(deserializer)?.map(|Whole(number)| number))
}

/// An object that clients send.
pub(crate) trait Said: DeserializeOwned {
    /// The fields there are, the most needed first.
    const FIELDS: &'static [&'static str];
}

/// Reads an object from JSON.
pub(crate) fn parse<T: Said>(bytes: &[u8]) -> Result<T, Problem> {
    if is_list(bytes) {
        let field = T::FIELDS.first().copied().unwrap_or_default();
        let detail = format!("the body must be a JSON object with the field {field}, not a list");
        return Err(Problem::new(&INVALID_FIELD, detail));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let said: T = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| complaint(error.inner(), &error.path().to_string(), T::FIELDS))?;
    let end = deserializer.end();
    end.map_err(|error| complaint(&error, "", T::FIELDS))?;
    Ok(said)
}

/// Tells whether a body is a list: serde would take one of the values of an object's fields in its place.
pub(crate) fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

/// Reads what stands behind the `?` of an address.
pub(crate) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    let Query(said) = query.map_err(|rejection| {
        let text = clip(&rejection.body_text(), MAX_COMPLAINT_CHARS);
        Problem::new(&INVALID_QUERY, text)
    })?;
    Ok(said)
}

/// Refuses a text that not every store can keep: what one refuses all refuse.
pub(crate) fn without_nul(field: &'static str, text: &str) -> Result<(), Problem> {
    if !text.contains('\0') {
        return Ok(());
    }
    Err(holds_nul(field))
}

/// Refuses the text of a field, since it holds the character that not every store can keep.
pub(crate) fn holds_nul(field: &str) -> Problem {
    if field.is_empty() {
        let detail = "the body must not hold the character U+0000";
        return Problem::new(&INVALID_FIELD, detail);
    }
    Problem::invalid(field, "it must not hold the character U+0000")
}

/// Returns the place of the first text within a value that holds that character, such as `messages[0].content`; empty where it
/// is the value itself. A name that holds it is told by the object that it stands in.
pub(crate) fn nul_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| Some(joined(&format!("[{at}]"), &nul_in(item)?)))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if name.contains('\0') {
                return Some(String::new());
            }
            Some(joined(&clip(name, MAX_REPEATED_CHARS), &nul_in(value)?))
        }),
        _ => None,
    }
}

fn joined(place: &str, within: &str) -> String {
    match within {
        "" => place.to_owned(),
        within if within.starts_with('[') => format!("{place}{within}"),
        within => format!("{place}.{within}"),
    }
}

fn complaint(error: &serde_json::Error, path: &str, fields: &[&'static str]) -> Problem {
    let (line, column) = (error.line(), error.column());
    let place = format!(" at line {line} column {column}");
    let text = error.to_string();
    let text = clip(
        text.strip_suffix(&place).unwrap_or(&text),
        MAX_COMPLAINT_CHARS,
    );
    let problem = match (error.classify(), path) {
        (Category::Data, "" | ".") => {
            let problem = Problem::new(&INVALID_FIELD, format!("{text}{place}"));
            match lacking(&text).filter(|name| fields.contains(name)) {
                Some(name) => problem.with("field", name),
                None => problem,
            }
        }
        (Category::Data, field) if fields.contains(&list_of(field)) => {
            Problem::invalid(field, format_args!("{text}{place}"))
        }
        (Category::Data, field) => {
            let field = clip(field, MAX_REPEATED_CHARS);
            let detail = format!(
                "unknown field \"{field}\"{place}; known: {}",
                fields.join(", ")
            );
            Problem::new(&UNKNOWN_FIELD, detail)
                .with("field", field)
                .with("known", fields.to_vec())
        }
        _ => Problem::new(
            &INVALID_JSON,
            format!("the body cannot be read as JSON: {text}{place}"),
        ),
    };
    problem.with("line", line).with("column", column)
}

/// Returns the name of the field that an object lacks or has twice, by what is said of that.
fn lacking(text: &str) -> Option<&str> {
    let missing = text.strip_prefix("missing field `");
    let name = missing.or_else(|| text.strip_prefix("duplicate field `"))?;
    name.strip_suffix('`')
}

/// Returns the name of the list that a place is within, `attachments[0].name`, or the place itself.
fn list_of(path: &str) -> &str {
    path.split_once('[').map_or(path, |(list, _)| list)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_that_no_store_keeps_is_found_at_its_place() {
        for (value, place) in [
            (json!({"a": [{"b": "x"}, {"b": "y\0"}]}), Some("a[1].b")),
            (json!({"a": {"c\0": 1}}), Some("a")),
            (json!([["\0"]]), Some("[0][0]")),
            (json!("\0"), Some("")),
            (json!({"a": ["\\u0000", 0, null]}), None),
        ] {
            assert_eq!(nul_in(&value).as_deref(), place, "{value}");
        }
    }

    #[derive(Debug, Deserialize)]
    struct Numbers {
        #[serde(default, deserialize_with = "whole")]
        one: u64,
        #[serde(default, deserialize_with = "whole_if_any")]
        other: Option<u64>,
    }

    #[test]
    fn a_number_is_whole_however_it_is_written() {
        for (text, expected) in [
            (r#"{"one": 7, "other": 8}"#, (7, Some(8))),
            (r#"{"one": 7.0, "other": 8e2}"#, (7, Some(800))),
            (
                r#"{"one": 9007199254740991, "other": null}"#,
                (MAX_WHOLE, None),
            ),
            (r#"{"one": -0.0}"#, (0, None)),
        ] {
            let read: Numbers = serde_json::from_str(text).unwrap();
            assert_eq!((read.one, read.other), expected, "{text}");
        }
        for text in [
            "7.5",
            "-1",
            "-1.0",
            "9007199254740992",
            "1e300",
            "\"7\"",
            "null",
        ] {
            let text = format!(r#"{{"one": {text}}}"#);
            assert!(serde_json::from_str::<Numbers>(&text).is_err(), "{text}");
        }
    }
}
