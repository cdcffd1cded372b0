//! What clients send: JSON objects with known fields, and clear error messages for invalid ones.

mod words;

use neuraxis::core::clip;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Number, Value};

pub(crate) use self::words::in_plain_words;
use crate::problem::{INVALID_FIELD, INVALID_JSON, Problem, UNKNOWN_FIELD};

/// The maximum number of characters of a client's own input, such as the name of an unknown field, that an error
/// repeats.
pub(crate) const MAX_REPEATED_CHARS: usize = 64;

/// The maximum number of characters of such an error message.
pub(crate) const MAX_ERROR_CHARS: usize = 300;

/// The schema pattern of a string that every store can hold.
pub(crate) const WITHOUT_NUL: &str = r"^[^\x00]*$";

/// The schema pattern of a string that is not blank.
pub(crate) const NOT_BLANK: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";

/// The greatest whole number that all JSON programs can tell from its neighbors: 2^53 - 1.
pub(crate) const MAX_WHOLE_NUMBER: u64 = (1 << 53) - 1;

/// Parses a whole number, however it is written: `7.0` is one in JSON, and some languages have no other numbers.
pub(crate) fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let is_whole = |float: &f64| float.fract() == 0.0 && *float >= 0.0;
    let whole = number.as_u64().or_else(|| {
        let float = number.as_f64().filter(is_whole)?;
        // Without a fraction, this is the text of a whole number.
        format!("{float:.0}").trim_start_matches('-').parse().ok()
    });
    whole
        .filter(|whole| *whole <= MAX_WHOLE_NUMBER)
        .ok_or_else(|| {
            D::Error::custom(format_args!(
                "invalid number {number}, expected a whole number from 0 to {MAX_WHOLE_NUMBER}"
            ))
        })
}

/// Parses an optional whole number.
pub(crate) fn whole_number_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Whole(#[serde(deserialize_with = "whole_number")] u64);
    Ok(Option::<Whole>::deserialize(deserializer)?.map(|Whole(number)| number))
}

/// An object that clients send.
pub(crate) trait RequestBody: DeserializeOwned {
    /// The known fields, the most important first.
    const FIELDS: &'static [&'static str];
}

/// Parses an object from JSON.
pub(crate) fn parse<T: RequestBody>(bytes: &[u8]) -> Result<T, Problem> {
    if is_list(bytes) {
        let field = T::FIELDS.first().copied().unwrap_or_default();
        let detail = format!("the body must be a JSON object with the field {field}, not a list");
        return Err(Problem::new(&INVALID_FIELD, detail));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(empty_body());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let body: T = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| parse_problem(error.inner(), &error.path().to_string(), T::FIELDS))?;
    let end = deserializer.end();
    end.map_err(|error| parse_problem(&error, "", T::FIELDS))?;
    Ok(body)
}

/// Returns whether a body is a list: serde would accept a list of an object's field values as the object.
pub(crate) fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

/// The error for a body without content.
pub(crate) fn empty_body() -> Problem {
    Problem::new(&INVALID_JSON, "the body is empty; expected a JSON object")
        .with("line", 1)
        .with("column", 0)
}

/// Refuses a string that some stores cannot hold, so that all refuse the same.
pub(crate) fn check_no_nul(field: &'static str, text: &str) -> Result<(), Problem> {
    if !text.contains('\0') {
        return Ok(());
    }
    Err(nul_problem(field))
}

/// The error for a field whose string contains U+0000, which some stores cannot hold.
pub(crate) fn nul_problem(field: &str) -> Problem {
    if field.is_empty() {
        let detail = "the body must not contain the character U+0000";
        return Problem::new(&INVALID_FIELD, detail);
    }
    Problem::invalid(field, "must not contain the character U+0000")
}

/// Returns the path of the first string within a value that contains U+0000, such as `messages[0].content`. The path is
/// empty if the value itself is that string. For a member name that contains it, the path is that of the enclosing
/// object.
pub(crate) fn find_nul(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| Some(join_path(&format!("[{at}]"), &find_nul(item)?)))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if name.contains('\0') {
                return Some(String::new());
            }
            Some(join_path(
                &clip(name, MAX_REPEATED_CHARS),
                &find_nul(value)?,
            ))
        }),
        _ => None,
    }
}

/// Joins the path of a value and a path within it.
pub(crate) fn join_path(place: &str, within: &str) -> String {
    match within {
        "" => place.to_owned(),
        within if place.is_empty() => within.to_owned(),
        within if within.starts_with('[') => format!("{place}{within}"),
        within => format!("{place}.{within}"),
    }
}

/// Parses a value. Errors name the invalid field by its path in the body, which `within` begins.
pub(crate) fn typed<T: DeserializeOwned>(value: Value, within: &str) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = join_path(within, path.trim_start_matches('.'));
        let text = error.into_inner().to_string();
        // For a missing field, the path is that of the object which lacks it.
        let missing = text.strip_prefix("missing field `");
        let missing = missing.and_then(|name| name.strip_suffix('`'));
        match missing {
            Some(name) => invalid(&join_path(&path, name), "missing"),
            None => invalid(&path, &in_plain_words(&text)),
        }
    })
}

/// Refuses the value of a field. An empty path stands for the body itself.
pub(crate) fn invalid(field: &str, why: &str) -> Problem {
    let (field, why) = (clip(field, MAX_ERROR_CHARS), clip(why, MAX_ERROR_CHARS));
    if field.is_empty() {
        return Problem::new(&INVALID_FIELD, why);
    }
    Problem::invalid(&field, why)
}

/// Returns the message of an error in JSON, and where it is in the body, such as ` (line 1, column 12)`: empty for a
/// missing field, which has no place.
pub(crate) fn json_error(error: &serde_json::Error) -> (String, String) {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let text = text
        .strip_suffix(&format!(" at line {line} column {column}"))
        .unwrap_or(&text);
    let place = match text.starts_with("missing field `") {
        true => String::new(),
        false => format!(" (line {line}, column {column})"),
    };
    (clip(&in_plain_words(text), MAX_ERROR_CHARS), place)
}

fn parse_problem(error: &serde_json::Error, path: &str, fields: &[&'static str]) -> Problem {
    let (line, column) = (error.line(), error.column());
    let (text, place) = json_error(error);
    let problem = match (error.classify(), path) {
        (Category::Data, "" | ".") => {
            let problem = Problem::new(&INVALID_FIELD, format!("{text}{place}"));
            match missing_field(&text).filter(|name| fields.contains(name)) {
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
            format!("cannot parse the body as JSON: {text}{place}"),
        ),
    };
    problem.with("line", line).with("column", column)
}

/// Returns the name of the field that an object lacks or has twice, taken from the error message.
fn missing_field(text: &str) -> Option<&str> {
    let missing = text.strip_prefix("missing field `");
    let name = missing.or_else(|| text.strip_prefix("duplicate field `"))?;
    name.strip_suffix('`')
}

/// Returns the name of the list that contains a path such as `attachments[0].name`, or else the path itself.
fn list_of(path: &str) -> &str {
    path.split_once('[').map_or(path, |(list, _)| list)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_nul_character_in_a_json_value_is_found_with_its_path() {
        for (value, place) in [
            (json!({"a": [{"b": "x"}, {"b": "y\0"}]}), Some("a[1].b")),
            (json!({"a": {"c\0": 1}}), Some("a")),
            (json!([["\0"]]), Some("[0][0]")),
            (json!("\0"), Some("")),
            (json!({"a": ["\\u0000", 0, null]}), None),
        ] {
            assert_eq!(find_nul(&value).as_deref(), place, "{value}");
        }
    }

    #[test]
    fn a_json_error_names_what_was_expected_and_where() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Verb {
            Approve,
            Deny,
        }
        let error = serde_json::from_str::<Verb>("\"yes\"").unwrap_err();
        let (text, place) = json_error(&error);
        assert_eq!(text, "expected approve or deny, not \"yes\"");
        let expected = format!(" (line {}, column {})", error.line(), error.column());
        assert_eq!(place, expected);
        let error = serde_json::from_str::<Verb>("{").unwrap_err();
        let (text, _) = json_error(&error);
        assert!(text.starts_with("EOF") && !text.contains("line"), "{text}");
    }

    #[derive(Debug, Deserialize)]
    struct Numbers {
        #[serde(default, deserialize_with = "whole_number")]
        one: u64,
        #[serde(default, deserialize_with = "whole_number_if_any")]
        other: Option<u64>,
    }

    #[test]
    fn a_whole_number_is_read_in_every_notation_and_others_are_refused() {
        for (text, expected) in [
            (r#"{"one": 7, "other": 8}"#, (7, Some(8))),
            (r#"{"one": 7.0, "other": 8e2}"#, (7, Some(800))),
            (
                r#"{"one": 9007199254740991, "other": null}"#,
                (MAX_WHOLE_NUMBER, None),
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
