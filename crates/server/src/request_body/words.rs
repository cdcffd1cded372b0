//! What a value should have been and what it was, in the words of JSON. Serde's own messages use the words of Rust:
//! `invalid type: map, expected a sequence`.

use neuraxis::core::clip;

use super::MAX_REPEATED_CHARS;

/// Returns the message for a value of the wrong type, the wrong length, or none of the allowed ones. Any other message
/// is returned as it is.
pub(crate) fn in_plain_words(text: &str) -> String {
    let plain = wrong_value(text)
        .or_else(|| wrong_length(text))
        .or_else(|| unknown_variant(text));
    plain.unwrap_or_else(|| text.to_owned())
}

fn wrong_value(text: &str) -> Option<String> {
    let text = text
        .strip_prefix("invalid type: ")
        .or_else(|| text.strip_prefix("invalid value: "))?;
    // The value may contain these words, what is expected does not.
    let (value, expected) = text.rsplit_once(", expected ")?;
    Some(format!("expected {}, not {}", form(expected), came(value)))
}

fn wrong_length(text: &str) -> Option<String> {
    let text = text.strip_prefix("invalid length ")?;
    let (length, expected) = text.rsplit_once(", expected ")?;
    let entries = match length {
        "1" => "1 entry".to_owned(),
        length => format!("{length} entries"),
    };
    Some(format!("expected {}, not {entries}", form(expected)))
}

fn unknown_variant(text: &str) -> Option<String> {
    let text = text.strip_prefix("unknown variant `")?;
    let (name, expected) = text.rsplit_once("`, expected ")?;
    let name = clip(name, MAX_REPEATED_CHARS);
    let expected = expected.replace('`', "");
    Some(format!("expected {expected}, not \"{name}\""))
}

/// Returns the name of an expected form.
fn form(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list",
        "a map" => "an object",
        "string or map" => "a string or an object",
        "a boolean" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        expected if is_type(expected) => "an object",
        expected => expected,
    }
}

/// Returns whether a form is given as a type of this program, such as `struct Wire`.
fn is_type(expected: &str) -> bool {
    ["struct ", "internally tagged enum ", "enum "]
        .iter()
        .any(|kind| expected.starts_with(kind))
}

/// Describes a value that came.
fn came(value: &str) -> String {
    let number = value
        .strip_prefix("integer `")
        .or_else(|| value.strip_prefix("floating point `"));
    if let Some(number) = number {
        return format!("the number {}", number.trim_end_matches('`'));
    }
    let bare = value
        .strip_prefix("boolean `")
        .map(|it| it.trim_end_matches('`'));
    match bare.unwrap_or(value) {
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        "unit value" => "null".to_owned(),
        value => match value.strip_prefix("string \"") {
            Some(text) => {
                let text = text.strip_suffix('"').unwrap_or(text);
                format!("\"{}\"", clip(text, MAX_REPEATED_CHARS))
            }
            None => value.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Named {
        #[expect(dead_code, reason = "only parsed")]
        name: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Verb {
        Approve,
        Deny,
    }

    fn said<T: DeserializeOwned + std::fmt::Debug>(value: Value) -> String {
        let error = serde_json::from_value::<T>(value).unwrap_err();
        in_plain_words(&error.to_string())
    }

    #[test]
    fn a_value_of_the_wrong_form_is_described_as_json() {
        let long = "x".repeat(1_000);
        let clipped = format!(
            "expected a list, not \"{}…\"",
            "x".repeat(MAX_REPEATED_CHARS)
        );
        for (said, expected) in [
            (
                said::<String>(json!(5)),
                "expected a string, not the number 5",
            ),
            (
                said::<String>(json!(1.5)),
                "expected a string, not the number 1.5",
            ),
            (said::<String>(json!(null)), "expected a string, not null"),
            (said::<String>(json!(true)), "expected a string, not true"),
            (said::<String>(json!([])), "expected a string, not a list"),
            (
                said::<bool>(json!({})),
                "expected true or false, not an object",
            ),
            (
                said::<u32>(json!(-1)),
                "expected a whole number that is not negative, not the number -1",
            ),
            (
                said::<i32>(json!("7")),
                "expected a whole number, not \"7\"",
            ),
            (said::<f64>(json!("7")), "expected a number, not \"7\""),
            (said::<Vec<u8>>(json!({})), "expected a list, not an object"),
            (said::<Vec<u8>>(json!(long)), clipped.as_str()),
            (
                said::<BTreeMap<String, u8>>(json!("a, expected b")),
                "expected an object, not \"a, expected b\"",
            ),
            (said::<Named>(json!("a")), "expected an object, not \"a\""),
            (
                said::<Verb>(json!("yes")),
                "expected approve or deny, not \"yes\"",
            ),
            (
                said::<(u8, u8)>(json!([1])),
                "expected a tuple of size 2, not 1 entry",
            ),
        ] {
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn a_message_about_something_else_stays_as_it_is() {
        for text in ["missing field `name`", "the session id is empty", ""] {
            assert_eq!(in_plain_words(text), text);
        }
    }
}
