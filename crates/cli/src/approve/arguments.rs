//! Arguments laid out for the user: complete, one value per line, with nothing hidden.

use neuraxis::core::laid_out_json;
use serde_json::Value;

use crate::harmless::reveal_invisible;

/// Lays out JSON on several lines. Every value is shown in its order, even if its key occurs twice. Escaped letters are
/// written as letters. Text that is not JSON keeps its layout; only its hidden characters are made visible.
pub(super) fn laid_out(json: &str) -> String {
    laid_out_json(json, "", reveal_invisible).unwrap_or_else(|| reveal_invisible(json))
}

/// Lays out JSON for an editor. Its meaning does not change; hidden characters are written as escapes.
pub(super) fn for_editing(json: &str) -> String {
    let value = serde_json::from_str::<Value>(json);
    let text = value.ok().filter(|value| is_faithful(value, json));
    let text = text.and_then(|value| serde_json::to_string_pretty(&value).ok());
    escaped(text.as_deref().unwrap_or(json))
}

/// Same as [`for_editing`], on one line.
pub(super) fn for_editing_inline(json: &str) -> String {
    let value = serde_json::from_str::<Value>(json);
    let text = value.ok().filter(|value| is_faithful(value, json));
    escaped(&text.map_or_else(
        || json.replace(['\r', '\n'], " "),
        |value| value.to_string(),
    ))
}

/// Parses JSON, unless parsing loses something: a duplicate key, or how a number is written.
pub(super) fn faithful(json: &str) -> Option<Value> {
    let value = serde_json::from_str(json).ok()?;
    is_faithful(&value, json).then_some(value)
}

fn is_faithful(value: &Value, json: &str) -> bool {
    laid_out(&value.to_string()) == laid_out(json)
}

/// Escapes hidden characters. In JSON they occur only in strings.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        let shown = reveal_invisible(letter.encode_utf8(&mut [0; 4]));
        if shown.chars().eq([letter]) {
            text.push(letter);
        } else {
            let units = letter.encode_utf16(&mut [0; 2]).to_vec();
            text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_on_its_own_line() {
        let json = r#"{"a":1,"b":[true,null,"x"],"c":{},"d":[]}"#;
        let expected = "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    null,\n    \"x\"\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(laid_out(json), expected);
        assert_eq!(laid_out(expected), expected);
    }

    #[test]
    fn a_duplicate_key_is_shown_twice() {
        assert_eq!(
            laid_out(r#"{"path":"a","path":"b"}"#),
            "{\n  \"path\": \"a\",\n  \"path\": \"b\"\n}"
        );
    }

    #[test]
    fn escaped_letters_are_shown_as_letters_and_invisible_ones_by_code_point() {
        assert_eq!(
            laid_out(r#"{"c":"\u0072\u006d \u202e\u200b"}"#),
            "{\n  \"c\": \"rm ⟨U+202E⟩⟨U+200B⟩\"\n}"
        );
    }

    #[test]
    fn invalid_json_is_shown_unchanged_with_visible_control_characters() {
        assert_eq!(laid_out("{\"a\": \u{1b}[2J"), "{\"a\": ␛[2J");
    }

    #[test]
    fn arguments_for_editing_keep_their_values_and_escape_invisible_characters() {
        let json = "{\"a\":\"x\u{202e}\u{e0041}\"}";
        let text = for_editing(json);
        assert_eq!(text, "{\n  \"a\": \"x\\u202e\\udb40\\udc41\"\n}");
        let values: [Value; 2] = [&text, json].map(|json| serde_json::from_str(json).unwrap());
        assert_eq!(values[0], values[1]);
        assert_eq!(
            for_editing_inline(json),
            "{\"a\":\"x\\u202e\\udb40\\udc41\"}"
        );
    }

    #[test]
    fn arguments_with_duplicate_keys_are_not_parsed() {
        assert!(faithful(r#"{"path": "a"}"#).is_some());
        assert!(faithful(r#"{"path": "a", "path": "b"}"#).is_none());
    }

    proptest::proptest! {
        #[test]
        fn formatted_json_parses_to_the_same_value(value in json_values()) {
            let json = value.to_string();
            let read: serde_json::Value = serde_json::from_str(&laid_out(&json)).unwrap();
            proptest::prop_assert_eq!(read, value);
        }
    }

    fn json_values() -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            // Hidden characters are replaced by their names; all others stay.
            "[ -~äß🦀\\n\"\\\\]*".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec(("[a-z\"]{0,5}", inner), 0..4)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
            ]
        })
    }
}
