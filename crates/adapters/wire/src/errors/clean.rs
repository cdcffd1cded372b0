//! Makes an external string safe for an error message.

use std::fmt::Write;

use neuraxis_core::is_invisible;

/// Returns a string on one line, truncated to `max_chars` characters. Characters that could move a terminal's cursor,
/// or hide or reorder text, are written as escapes.
#[must_use]
pub fn clean(text: &str, max_chars: usize) -> String {
    let mut cleaned = String::new();
    let mut left = max_chars;
    let mut blank_before = true;
    for letter in text.trim().chars() {
        if left == 0 {
            cleaned.push('…');
            break;
        }
        if letter.is_whitespace() {
            if !blank_before {
                cleaned.push(' ');
                left -= 1;
            }
            blank_before = true;
            continue;
        }
        blank_before = false;
        left -= 1;
        if letter.is_control() || is_invisible(letter) {
            // Writing to a string cannot fail.
            let _ = write!(cleaned, "{}", letter.escape_unicode());
        } else {
            cleaned.push(letter);
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_hidden_characters_are_escaped() {
        assert_eq!(
            clean("a\u{1b}]8;;x\u{7}b\u{202e}c\u{e0041}", 100),
            "a\\u{1b}]8;;x\\u{7}b\\u{202e}c\\u{e0041}"
        );
    }

    #[test]
    fn a_text_is_put_on_one_line_and_cut_between_characters() {
        assert_eq!(clean("  one\r\n\ttwo ", 100), "one two");
        assert_eq!(clean("ÄÖÜß", 2), "ÄÖ…");
        assert_eq!(clean("ÄÖ", 2), "ÄÖ");
    }
}
