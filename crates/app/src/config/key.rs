//! The paths of keys, in TOML notation: `prices."openai/gpt-5.5".prompt` is a path of three names.

use neuraxis_core::JsonText;
use serde::Deserialize;
use toml::de::ValueDeserializer;

/// Formats a name for the left side of a TOML assignment.
pub(super) fn as_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(is_bare) {
        return name.to_owned();
    }
    JsonText::string(name).to_string()
}

/// Formats names as a path.
pub(super) fn path<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(|name| as_key(name.as_ref())).collect();
    names.join(".")
}

/// Returns the names on a path; `None` if something between its dots is not a name. An unquoted name may contain
/// anything except dots, because shells remove quotes.
pub(super) fn parts(path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut from = 0;
    for to in dots(path).into_iter().chain([path.len()]) {
        names.push(part(path.get(from..to)?)?);
        from = to.saturating_add(1);
    }
    Some(names)
}

/// Returns the names on a path for a lookup; an invalid path leads nowhere.
pub(super) fn names(path: &str) -> Vec<String> {
    parts(path).unwrap_or_else(|| path.split('.').map(str::to_owned).collect())
}

/// Returns a path, then the path of its parent, and so on.
pub(super) fn ancestry(path: &str) -> impl Iterator<Item = &str> {
    let above = dots(path).into_iter().rev();
    std::iter::once(path).chain(above.filter_map(move |end| path.get(..end)))
}

/// Returns the positions of the dots that separate names.
pub(super) fn dots(path: &str) -> Vec<usize> {
    let mut dots = Vec::new();
    let (mut quote, mut is_escaped, mut begins) = (None, false, true);
    for (at, letter) in path.char_indices() {
        let begun = std::mem::replace(&mut begins, false);
        match (quote, letter) {
            _ if is_escaped => is_escaped = false,
            (Some('"'), '\\') => is_escaped = true,
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if begun => quote = Some(letter),
            (None, '.') => {
                dots.push(at);
                begins = true;
            }
            _ => {}
        }
    }
    dots
}

fn part(text: &str) -> Option<String> {
    if text.starts_with(['"', '\'']) {
        let value = ValueDeserializer::parse(text).and_then(String::deserialize);
        return value.ok();
    }
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_path_is_split_at_dots_outside_quotes() {
        for (given, expected) in [
            ("a", Some(vec!["a"])),
            ("a.b-c.d_e", Some(vec!["a", "b-c", "d_e"])),
            (
                r#"prices."gpt-5.5".prompt"#,
                Some(vec!["prices", "gpt-5.5", "prompt"]),
            ),
            ("prices.'gpt-5.5'", Some(vec!["prices", "gpt-5.5"])),
            (r#""a\".b".c"#, Some(vec!["a\".b", "c"])),
            (
                "prices.openai/gpt-4o.prompt",
                Some(vec!["prices", "openai/gpt-4o", "prompt"]),
            ),
            ("rules.don't.x", Some(vec!["rules", "don't", "x"])),
            ("", None),
            ("a..b", None),
            (r#"a."b"#, None),
            (r#"a."b"c.d"#, None),
        ] {
            let names = parts(given);
            let names: Option<Vec<&str>> = names
                .as_ref()
                .map(|names| names.iter().map(String::as_str).collect());
            assert_eq!(names, expected, "{given}");
        }
    }

    #[test]
    fn a_path_made_of_names_parses_back_to_those_names() {
        let names = ["prices", "openai/gpt-5.5", "", "a\"b", "ü"];
        let written = path(&names);
        assert_eq!(parts(&written).unwrap(), names);
        let above: Vec<&str> = ancestry("a.'b.c'.d").collect();
        assert_eq!(above, ["a.'b.c'.d", "a.'b.c'", "a"]);
    }
}
