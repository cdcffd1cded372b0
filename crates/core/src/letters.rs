//! Characters that can mislead a reader, and how to display text that may contain them.

/// Maximum number of marks on one letter. Scripts need fewer; more would only obscure the surrounding text.
const MAX_MARKS: usize = 4;

/// Returns whether a character is invisible when displayed, or changes the reading order of the following text:
/// zero-width characters, directional controls, line and paragraph separators, fillers, and the tag characters that can
/// hide words from users but not from models.
///
/// Control characters are a separate matter ([`char::is_control`]). The two joiners and the variation selectors are not
/// included, because emoji and several scripts need them.
///
/// The set consists of Unicode's default-ignorable characters (`DerivedCoreProperties.txt`), minus those exceptions,
/// plus the format characters without a shape of their own.
///
/// ```
/// use neuraxis_core::is_invisible;
///
/// let name = "invoice\u{202e}fdp.exe";
/// assert_eq!(name.replace(is_invisible, ""), "invoicefdp.exe");
/// ```
#[must_use]
pub const fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2d7f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1107f}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{13441}'..='\u{13442}'
            | '\u{16fe4}'
            | '\u{1bc9d}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d159}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns whether a character is a mark that is visible on the letter before it: an accent, a vowel sign, a tone.
/// Marks drawn over the letter, such as strokes and rings, and variation selectors are not included.
#[must_use]
pub fn is_mark(letter: char) -> bool {
    if letter.is_ascii() || letter.escape_debug().len() == 1 {
        return false;
    }
    let is_selector = matches!(letter, '\u{fe00}'..='\u{fe0f}');
    if is_selector || is_invisible(letter) || is_overlay(letter) {
        return false;
    }
    // `escape_debug` escapes combining characters only at the start of a string.
    let behind: String = ['a', letter].into_iter().collect();
    behind.escape_debug().eq(behind.chars())
}

/// Escapes a string so that it hides nothing and moves no cursor: like [`char::escape_debug`], except that the
/// characters of `plain` stay as they are, and so do marks ([`is_mark`]) on a letter, without which several scripts are
/// unreadable. Characters that are [invisible](is_invisible) are escaped, and so are joiners and the Braille blank.
///
/// ```
/// use neuraxis_core::escaped;
///
/// assert_eq!(escaped("ที่อยู่\u{202e}\n'".chars(), &['\'']), r"ที่อยู่\u{202e}\n'");
/// ```
#[must_use]
pub fn escaped(letters: impl IntoIterator<Item = char>, plain: &[char]) -> String {
    let mut text = String::new();
    // How many marks may still follow: none if there is no letter to carry them.
    let mut room = 0_usize;
    for letter in letters {
        let is_mark = is_mark(letter);
        if plain.contains(&letter) || is_mark && room > 0 {
            text.push(letter);
        } else if is_invisible(letter) || letter == '\u{2800}' {
            text.extend(letter.escape_unicode());
        } else {
            text.extend(letter.escape_debug());
        }
        room = match is_mark {
            true => room.saturating_sub(1),
            false if letter.is_alphabetic() => MAX_MARKS,
            false => 0,
        };
    }
    text
}

/// Returns whether a mark is drawn over the letter it belongs to: strokes, slashes, rings and boxes.
#[must_use]
pub const fn is_overlay(mark: char) -> bool {
    matches!(
        mark,
        '\u{334}'..='\u{338}'
            | '\u{488}'..='\u{489}'
            | '\u{1abe}'
            | '\u{20d0}'..='\u{20f0}'
            | '\u{a670}'..='\u{a672}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hiding_and_reordering_characters_are_distinguished_from_ordinary_text() {
        let hidden = "\u{ad}\u{200b}\u{200e}\u{2028}\u{202e}\u{2066}\u{feff}\u{e0041}";
        assert!(hidden.chars().all(is_invisible));
        let written = "aß日 \n\u{301}👩\u{200d}👩\u{fe0f}می\u{200c}خواهم";
        assert!(!written.contains(is_invisible));
    }

    #[test]
    fn names_in_all_scripts_are_shown_as_they_are_written() {
        for name in [
            "रिपोर्ट काँच हिन्दी",
            "ที่อยู่",
            "தமிழ் উরং",
            "e\u{301} か\u{3099} תַּקְצִיר",
            "دَرس 日本語 보고서 Ünï",
        ] {
            assert_eq!(escaped(name.chars(), &[]), name);
        }
    }

    #[test]
    fn hiding_covering_joining_and_dangling_characters_are_escaped() {
        for (hostile, expected) in [
            ("a\u{1b}\u{9b}\r", r"a\u{1b}\u{9b}\r"),
            ("a\u{202e}b\u{2066}\u{200b}", r"a\u{202e}b\u{2066}\u{200b}"),
            ("ی\u{200c}خ👨\u{200d}👩", r"ی\u{200c}خ👨\u{200d}👩"),
            (
                "a\u{fe0f}b\u{e0100}c\u{34f}",
                r"a\u{fe0f}b\u{e0100}c\u{34f}",
            ),
            ("\u{3164}\u{2800}\u{ffa0}", r"\u{3164}\u{2800}\u{ffa0}"),
            ("a\u{2d7f}b\u{1107f}", r"a\u{2d7f}b\u{1107f}"),
            ("\u{e0041}\u{3000}\u{e000}", r"\u{e0041}\u{3000}\u{e000}"),
            ("r\u{336}m\u{20e0}", r"r\u{336}m\u{20e0}"),
            ("\u{301}/\u{308}1\u{308}", r"\u{301}/\u{308}1\u{308}"),
            (
                "a\u{301}\u{301}\u{301}\u{301}\u{301}",
                "a\u{301}\u{301}\u{301}\u{301}\\u{301}",
            ),
            ("\"'\\", r#"\"'\\"#),
        ] {
            assert_eq!(escaped(hostile.chars(), &['\'']), expected, "{hostile:?}");
        }
    }
}
