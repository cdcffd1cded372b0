//! Names in messages: escapes hostile names, and suggests corrections for misspelled ones.

use std::fmt::{self, Display};

use neuraxis_core::escaped;

/// The maximum number of characters of a given name that a message repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// How similar two names must be, from 0 to 1, for one to be suggested for the other.
const ALIKE: f64 = 0.8;

/// Returns whether a name is valid for a mode, channel or plan: it is used in addresses, variables and messages.
pub(crate) fn is_valid(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Makes a given name safe to display: truncates it, and escapes everything that a terminal might interpret.
pub(crate) fn shown(given: &str) -> String {
    shown_up_to(MAX_SHOWN_CHARS, given)
}

/// Like [`shown`], for text that is longer than a name.
pub(crate) fn shown_up_to(max_chars: usize, given: &str) -> String {
    let mut text = escaped(given.chars().take(max_chars), &['"', '\'', '\\']);
    if given.chars().nth(max_chars).is_some() {
        text.push('…');
    }
    text
}

/// Returns the known name that was most likely meant by a misspelled one, if any is similar. Errors about unknown names
/// suggest it.
///
/// ```
/// use neuraxis_brainstem::nearest;
///
/// assert_eq!(nearest("modrate", ["moderate", "exploratory"]), Some("moderate"));
/// assert_eq!(nearest("zzz", ["moderate", "exploratory"]), None);
/// ```
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given: String = given.chars().take(MAX_SHOWN_CHARS).collect();
    let given = given.to_lowercase();
    let scored = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&given, name), name));
    let close = scored.filter(|(score, _)| *score >= ALIKE);
    // Two swapped letters are as likely as one extra letter; then the length decides.
    let longer = |name: &str| name.len().abs_diff(given.len());
    let best = close.max_by(|(score, name), (other_score, other)| {
        let by_length = longer(other).cmp(&longer(name));
        score.total_cmp(other_score).then(by_length)
    });
    best.map(|(_, name)| name)
}

/// Returns the end of a message about an unknown name: the likely name, and all known names.
pub(crate) fn choices<N: Display>(nearest: Option<&N>, known: &[N]) -> String {
    let meant = nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
    if known.is_empty() {
        return format!("{meant}; there are none");
    }
    format!("{meant}; known: {}", Listed(known))
}

/// Displays names separated by commas.
pub(crate) struct Listed<'a, N>(pub(crate) &'a [N]);

impl<N: Display> Display for Listed<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "a\u{1b}[2J\u{202e}\u{e0041}\r\n\"";
        assert_eq!(shown(hostile), r#"a\u{1b}[2J\u{202e}\u{e0041}\r\n""#);
        assert_eq!(shown(r"grep '\bx'"), r"grep '\bx'");
        assert_eq!(shown("mv हिन्दी.txt ที่อยู่"), "mv हिन्दी.txt ที่อยู่");
    }

    #[test]
    fn a_shown_name_has_a_bounded_length() {
        assert_eq!(
            shown(&"x".repeat(1_000_000)),
            format!("{}…", "x".repeat(64))
        );
        assert_eq!(shown(&"x".repeat(64)), "x".repeat(64));
    }

    #[test]
    fn only_a_close_name_is_suggested() {
        let known = ["conservative", "exploratory", "moderate"];
        for (given, expected) in [
            ("modrate", Some("moderate")),
            ("MODERATE", Some("moderate")),
            ("explore", Some("exploratory")),
            ("YOLO", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, known), expected, "{given}");
        }
        for known in [["models", "modes"], ["modes", "models"]] {
            assert_eq!(nearest("modles", known), Some("models"));
        }
    }
}
