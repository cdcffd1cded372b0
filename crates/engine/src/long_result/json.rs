//! Finds the long strings of a JSON value in its text without building the value, so nothing is reordered or rewritten.
//! The text must be one JSON value; for any other text, the result is unspecified.

use std::collections::BTreeSet;
use std::ops::Range;

/// The depth to which a value is laid out over several lines whatever its size: an object of lists, or a list of
/// objects.
const LAID_OUT_DEPTH: usize = 2;

/// The maximum size in bytes of a list or an object below that depth that stays on one line.
const MAX_ON_ONE_LINE: usize = 2 * 1024;

/// The maximum length in bytes of a string's name.
const MAX_PATH_BYTES: usize = 128;

/// A string in a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// Its position, including its quotes.
    pub(super) place: Range<usize>,
    /// Its path, as a JSON Pointer.
    pub(super) path: String,
}

/// A position in a list or an object.
enum Place<'a> {
    /// After this key, which includes its quotes.
    Member(&'a str),
    /// In the item with this index.
    Item(usize),
}

/// Returns the strings of a value that have at least `least` bytes, in order. Keys are not included.
pub(super) fn texts(json: &str, least: usize) -> Vec<Text> {
    let mut found = Vec::new();
    let mut places: Vec<Place<'_>> = Vec::new();
    for (place, token) in tokens(json) {
        match token {
            "{" => places.push(Place::Member("")),
            "[" => places.push(Place::Item(0)),
            "}" | "]" => drop(places.pop()),
            "," => {
                if let Some(Place::Item(number)) = places.last_mut() {
                    *number += 1;
                }
            }
            text if is_key(json, &place) => {
                if let Some(key) = places.last_mut() {
                    *key = Place::Member(text);
                }
            }
            text if text.len() >= least => found.push(Text {
                path: path(&places),
                place,
            }),
            _ => {}
        }
    }
    found
}

/// Returns the value with line breaks between the members of its outermost lists and objects, and of the long ones
/// within them, so that it can be read by lines.
pub(super) fn laid_out(json: &str) -> String {
    let long = long_ones(json);
    let mut text = String::with_capacity(json.len() + json.len() / 16);
    // Whether each enclosing list or object is laid out.
    let mut around: Vec<bool> = Vec::new();
    let mut copied = 0;
    for (place, token) in tokens(json) {
        let at_end = match token {
            "{" | "[" => {
                let is_laid_out = around.len() < LAID_OUT_DEPTH || long.contains(&place.start);
                around.push(is_laid_out);
                is_laid_out
            }
            "}" | "]" => {
                around.pop();
                false
            }
            "," => around.last() == Some(&true),
            _ => false,
        };
        if at_end {
            text.push_str(json.get(copied..place.end).unwrap_or_default());
            text.push('\n');
            copied = place.end;
        }
    }
    text.push_str(json.get(copied..).unwrap_or_default());
    text
}

/// Returns where the lists and objects begin that are too long for one line.
fn long_ones(json: &str) -> BTreeSet<usize> {
    let (mut long, mut open) = (BTreeSet::new(), Vec::new());
    for (place, token) in tokens(json) {
        match token {
            "{" | "[" => open.push(place.start),
            "}" | "]" => {
                let begin = open.pop();
                long.extend(begin.filter(|begin| place.end - begin > MAX_ON_ONE_LINE));
            }
            _ => {}
        }
    }
    long
}

/// Iterates over the brackets, commas and strings of a value.
fn tokens(json: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + json.get(at..)?.find(['{', '}', '[', ']', ',', '"'])?;
        let rest = json.get(start..)?;
        let length = match rest.starts_with('"') {
            true => text_length(rest),
            false => 1,
        };
        at = start + length;
        Some((start..at, rest.get(..length)?))
    })
}

/// Returns the length of the string that begins with a quote, including its quotes.
fn text_length(from: &str) -> usize {
    let mut at = 1;
    while let Some(rest) = from.get(at..)
        && let Some(found) = rest.find(['"', '\\'])
    {
        at += found + 1;
        match rest.get(found..=found) {
            Some("\\") => at += 1,
            _ => return at,
        }
    }
    from.len()
}

fn is_key(json: &str, place: &Range<usize>) -> bool {
    let behind = json.get(place.end..).unwrap_or_default();
    behind.trim_start().starts_with(':')
}

fn path(places: &[Place<'_>]) -> String {
    let mut path = String::new();
    for place in places {
        path.push('/');
        match place {
            Place::Item(number) => path.push_str(&number.to_string()),
            Place::Member(key) => {
                let key: String = serde_json::from_str(key).unwrap_or_default();
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
        }
    }
    path.truncate(path.floor_char_boundary(MAX_PATH_BYTES));
    // The path is shown on a line of its own.
    path.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_strings_are_found_with_their_paths_and_keys_are_not() {
        let json = r#"{"a long key":"a long \"text\\", "list":[1,"short",{"x/y~":"another long one"}],"last":"ä long"}"#;
        let found = texts(json, 8);
        let shown: Vec<_> = found
            .iter()
            .map(|text| (text.path.as_str(), &json[text.place.clone()]))
            .collect();
        assert_eq!(
            shown,
            [
                ("/a long key", r#""a long \"text\\""#),
                ("/list/2/x~1y~0", "\"another long one\""),
                ("/last", "\"ä long\""),
            ]
        );
        assert_eq!(texts("\"a text alone\"", 3)[0].path, "");
        assert_eq!(texts("[1,true,null]", 0), []);
    }

    #[test]
    fn laying_out_a_value_does_not_change_it() {
        let json = r#"{"rows":[{"a":[1,2]},{"a":"x,[y"}],"n":3}"#;
        let text = laid_out(json);
        assert_eq!(
            text,
            "{\n\"rows\":[\n{\"a\":[1,2]},\n{\"a\":\"x,[y\"}],\n\"n\":3}"
        );
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&text), value(json));
    }

    #[test]
    fn a_long_list_has_a_line_per_element_at_any_depth() {
        let rows = r#"{"id":7,"of":[1,2]},"#.repeat(200);
        let json = format!(r#"{{"data":{{"found":{{"rows":[{rows}{{}}],"next":[1,2]}}}},"n":3}}"#);
        let text = laid_out(&json);
        assert_eq!(
            text.lines().nth(5),
            Some(r#"{"id":7,"of":[1,2]},"#),
            "{text}"
        );
        assert!(
            text.ends_with("{}],\n\"next\":[1,2]}},\n\"n\":3}"),
            "{text}"
        );
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&text), value(&json));
    }

    #[test]
    fn invalid_json_does_not_panic() {
        for text in ["", "\"", "\"\\", "]}", "{\"a\"", "\u{1f980}\"\\\u{1f980}"] {
            texts(text, 0);
            laid_out(text);
        }
    }
}
