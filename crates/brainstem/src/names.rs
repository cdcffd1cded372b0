//! Names in messages: hostile ones are made harmless, misspelled ones get a suggestion.

use std::fmt::{self, Display};

use neuraxis_core::escaped;

/// The most characters of a given name that a message repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// How alike two names must be, from 0 to 1, for the one to be suggested for the other.
const ALIKE: f64 = 0.8;

/// Tells whether a name may be given to a mode, channel or plan: it stands in addresses, variables and messages.
pub(crate) fn is_valid(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Makes a given name fit to be shown: cut to a bounded length, with everything escaped that a terminal might obey.
pub(crate) fn shown(given: &str) -> String {
    shown_up_to(MAX_SHOWN_CHARS, given)
}

/// As [`shown`], for texts that are longer than names.
pub(crate) fn shown_up_to(max_chars: usize, given: &str) -> String {
    let mut text = escaped(given.chars().take(max_chars), &['"', '\'', '\\']);
    if given.chars().nth(max_chars).is_some() {
        text.push('…');
    }
    text
}

/// Returns the known name that was most likely meant by a misspelled one, if any is close: what the error of whoever looks up a
/// name suggests.
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
    // Two letters swapped are as likely as one too many; then the length decides.
    let longer = |name: &str| name.len().abs_diff(given.len());
    let best = close.max_by(|(score, name), (other_score, other)| {
        let by_length = longer(other).cmp(&longer(name));
        score.total_cmp(other_score).then(by_length)
    });
    best.map(|(_, name)| name)
}

/// The end of a message about an unknown name: what may have been meant, and what there is.
pub(crate) fn choices<N: Display>(nearest: Option<&N>, known: &[N]) -> String {
    let meant = nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
    if known.is_empty() {
        return format!("{meant}; there are none");
    }
    format!("{meant}; known: {}", Listed(known))
}

/// Shows names with commas between them.
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
    fn what_a_terminal_might_obey_is_escaped() {
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
    fn the_closest_name_is_suggested_and_a_far_one_is_not() {
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
