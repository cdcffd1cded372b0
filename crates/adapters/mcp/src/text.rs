//! Text of a stranger, in a form that does no harm: bounded, and without what cannot be seen.

use neuraxis_core::is_invisible;

/// Returns a text without characters that nobody sees or that steer a terminal, cut at a number of characters. Line breaks
/// and tabs stay.
pub(crate) fn harmless(text: &str, most: usize) -> String {
    let mut seen = text.chars().filter(|letter| !is_hidden(*letter));
    let mut kept: String = seen.by_ref().take(most).collect();
    if seen.next().is_some() {
        kept.push('…');
    }
    kept
}

/// As [`harmless`], on one line.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    harmless(text, most).replace(['\n', '\r', '\t'], " ")
}

fn is_hidden(letter: char) -> bool {
    !matches!(letter, '\n' | '\t') && (letter.is_control() || is_invisible(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hidden_is_left_and_what_is_seen_stays() {
        let hidden = "a\u{1b}[2Jb\u{e0041}\u{202e}\u{200b}c\nd\te";
        assert_eq!(harmless(hidden, 100), "a[2Jbc\nd\te");
        assert_eq!(one_line(hidden, 100), "a[2Jbc d e");
        assert_eq!(harmless("Größe 日本 👩", 100), "Größe 日本 👩");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        assert_eq!(harmless("abc", 3), "abc");
        assert_eq!(harmless("abcd", 3), "abc…");
    }
}
