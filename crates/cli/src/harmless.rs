//! Makes text of strangers harmless to a terminal: nothing in it may move the cursor, change colors or hide what follows.

use std::borrow::Cow;

/// The most characters of a line about something else.
const MAX_LINE_CHARS: usize = 1_000;

/// Replaces what a terminal might obey by a visible sign. Line breaks and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    // A carriage return only ever ends a line together with a line feed, or else overwrites one.
    let visible = text.chars().filter(|letter| *letter != '\r');
    Cow::Owned(visible.map(sign_for).collect())
}

/// Makes a text fit for a single line: harmless, without line breaks, and cut.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let line = harmless(&line);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.into_owned(),
    }
}

fn is_harmless(letter: char) -> bool {
    matches!(letter, '\n' | '\t') || !(letter.is_control() || reorders(letter))
}

/// Tells whether a character changes the direction of the text after it, so that a line reads as another.
const fn reorders(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn sign_for(letter: char) -> char {
    match letter {
        _ if is_harmless(letter) => letter,
        '\u{7f}' => '␡',
        // Unicode has a picture of each control character of ASCII, in the same order.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_becomes_visible() {
        for (hostile, expected) in [
            ("plain ünïcode 🦀\n\tline", "plain ünïcode 🦀\n\tline"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("one\r\ntwo", "one\ntwo"),
            ("safe\rrm -rf", "saferm -rf"),
            ("a\u{8}b\u{7f}c\u{9b}2Jd", "a␈b␡c\u{fffd}2Jd"),
            ("user\u{202e}txt.exe", "user\u{fffd}txt.exe"),
        ] {
            assert_eq!(harmless(hostile), expected, "{hostile:?}");
        }
    }

    #[test]
    fn a_line_stays_one_line_of_bounded_length() {
        assert_eq!(
            one_line("two\nlines\r\n\tof\u{1b} text "),
            "two lines of␛ text"
        );
        assert_eq!(
            one_line(&"é".repeat(5_000)).chars().count(),
            MAX_LINE_CHARS + 1
        );
    }
}
