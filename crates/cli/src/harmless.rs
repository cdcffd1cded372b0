//! Makes untrusted text harmless to a terminal: it cannot move the cursor, change colors or hide what comes after it.

use std::borrow::Cow;

use neuraxis::core::{is_invisible, is_overlay};
use unicode_bidi::{BidiClass, bidi_class};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::glyphs::{CUT, Glyphs};

/// The maximum number of characters of quoted text in a line.
const MAX_LINE_CHARS: usize = 1_000;

/// The maximum number of combining marks per letter. Scripts need fewer; more would cover the surrounding text.
const MAX_MARKS: usize = 4;

/// Replaces everything that a terminal might obey with a visible sign. Line breaks and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    // A carriage return either belongs to a line break or overwrites the line.
    let visible = text.chars().filter(|letter| *letter != '\r');
    let mut shown = String::with_capacity(text.len());
    visible.for_each(|letter| push_sign(letter, Glyphs::here(), &mut shown));
    Cow::Owned(shown)
}

/// Makes a text fit for a single line: harmless, without line breaks, and cut.
pub(crate) fn one_line(text: &str) -> String {
    one_line_of(text, MAX_LINE_CHARS)
}

/// Same as [`one_line`], with this maximum number of characters.
pub(crate) fn one_line_of(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    cut(&words.join(" "), most)
}

/// Same as [`one_line`], but keeps the number of blanks, for lines that quote other lines.
pub(crate) fn line_with_blanks(line: &str) -> String {
    cut(
        &line.trim().replace(char::is_whitespace, " "),
        MAX_LINE_CHARS,
    )
}

fn cut(line: &str, most: usize) -> String {
    let line = harmless(line);
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}{CUT}", line.get(..end).unwrap_or_default()),
        None => line.into_owned(),
    }
}

/// Escapes a text so that the reader sees exactly what it contains. Like [`harmless`], but also names by its number
/// every character that leaves no mark, looks like a plain space without being one, or covers the letter before it. For
/// text that the user bases a decision on.
///
/// Right-to-left letters stay; [`in_order`] shows their real order.
pub(crate) fn reveal_invisible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    // How many more marks may follow: none without a letter to attach to.
    let mut room = 0_usize;
    for letter in text.chars() {
        let is_mark = is_mark(letter);
        let is_seen = !is_mark || (room > 0 && !is_overlay(letter));
        match letter {
            '\n' | '\t' => seen.push(letter),
            '\0'..='\u{1f}' | '\u{7f}' => push_sign(letter, Glyphs::here(), &mut seen),
            _ if !is_seen || leaves_no_mark(letter) || is_odd_space(letter) => {
                name(letter, &mut seen);
            }
            _ => seen.push(letter),
        }
        room = match is_mark {
            true => room.saturating_sub(1),
            false if letter.is_alphabetic() => MAX_MARKS,
            false => 0,
        };
    }
    seen
}

/// Writes text that is already plain to see again, with right-to-left letters named by their numbers. Terminals show
/// these letters, and the text between them, in an order other than the logical one. Returns `None` if there are none.
pub(crate) fn in_order(text: &str) -> Option<String> {
    let runs_back = |letter| {
        matches!(
            bidi_class(letter),
            BidiClass::R | BidiClass::AL | BidiClass::AN
        )
    };
    text.contains(runs_back).then(|| {
        let mut named = String::with_capacity(text.len());
        for letter in text.chars() {
            // Their marks would have no letter to attach to.
            if runs_back(letter) || is_mark(letter) {
                name(letter, &mut named);
            } else {
                named.push(letter);
            }
        }
        named
    })
}

fn name(letter: char, text: &mut String) {
    text.push_str(&named(letter, Glyphs::here()));
}

fn named(letter: char, glyphs: Glyphs) -> String {
    let number = u32::from(letter);
    match glyphs {
        Glyphs::Unicode => format!("⟨U+{number:04X}⟩"),
        Glyphs::Ascii => format!("<U+{number:04X}>"),
    }
}

fn is_harmless(letter: char) -> bool {
    let is_mark_of_direction = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{ad}');
    matches!(letter, '\n' | '\t')
        || is_mark_of_direction
        || !(letter.is_control() || is_invisible(letter))
}

/// Returns whether a character leaves no mark on the screen, or a mark that differs between fonts.
fn leaves_no_mark(letter: char) -> bool {
    let is_of_no_shape = matches!(
        letter.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    );
    is_of_no_shape || is_invisible(letter) || joins(letter) || letter == '\u{fffc}'
}

/// Returns whether a character combines with the one before it.
fn is_mark(letter: char) -> bool {
    let category = letter.general_category();
    matches!(
        category,
        GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
    )
}

/// Returns whether a character only changes how its neighbors look.
const fn joins(letter: char) -> bool {
    matches!(letter, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Returns whether a character looks like a plain space but is not.
const fn is_odd_space(letter: char) -> bool {
    matches!(
        letter,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}'
    )
}

/// Adds a character, or the sign for one that a terminal might obey. A terminal that shows only ASCII could obey the bytes
/// of a sign from Unicode, too.
fn push_sign(letter: char, glyphs: Glyphs, text: &mut String) {
    match (letter, glyphs) {
        _ if is_harmless(letter) => text.push(letter),
        ('\0'..='\u{1f}', Glyphs::Ascii) => {
            text.extend(['^', char::from_u32(0x40 + u32::from(letter)).unwrap_or('?')]);
        }
        ('\u{7f}', Glyphs::Ascii) => text.push_str("^?"),
        (_, Glyphs::Ascii) => text.push('?'),
        ('\u{7f}', Glyphs::Unicode) => text.push('␡'),
        // Unicode has a picture of each ASCII control character, in the same order.
        ('\0'..='\u{1f}', Glyphs::Unicode) => {
            text.push(char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'));
        }
        (_, Glyphs::Unicode) => text.push('\u{fffd}'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_made_visible() {
        for (hostile, expected) in [
            ("plain ünïcode 🦀\n\tline", "plain ünïcode 🦀\n\tline"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("one\r\ntwo", "one\ntwo"),
            ("safe\rrm -rf", "saferm -rf"),
            ("a\u{8}b\u{7f}c\u{9b}2Jd", "a␈b␡c\u{fffd}2Jd"),
            ("user\u{202e}txt.exe", "user\u{fffd}txt.exe"),
            ("a\u{200b}b\u{feff}c\u{ad}d", "a\u{fffd}b\u{fffd}c\u{ad}d"),
            ("\u{200f}שלום\u{200e}", "\u{200f}שלום\u{200e}"),
            ("hi\u{e0041}\u{e007f}", "hi\u{fffd}\u{fffd}"),
            ("👩\u{200d}🚀 ❤\u{fe0f}", "👩\u{200d}🚀 ❤\u{fe0f}"),
        ] {
            assert_eq!(harmless(hostile), expected, "{hostile:?}");
        }
    }

    /// The last byte of a Unicode sign for the escape character begins a control sequence on terminals of one byte per
    /// character.
    #[test]
    fn signs_for_a_terminal_that_shows_only_ascii_are_ascii() {
        let shown = |hostile: &str| {
            let mut shown = String::new();
            for letter in hostile.chars() {
                push_sign(letter, Glyphs::Ascii, &mut shown);
            }
            shown
        };
        assert_eq!(shown("\u{1b}[2J\u{0}\u{7f}\n"), "^[[2J^@^?\n");
        assert_eq!(shown("a\u{9b}2J\u{202e}b"), "a?2J?b");
        assert_eq!(
            shown("what they wrote: ünïcode"),
            "what they wrote: ünïcode"
        );
        assert_eq!(named('\u{202e}', Glyphs::Ascii), "<U+202E>");
    }

    #[test]
    fn nothing_in_text_to_be_approved_is_invisible() {
        for (hostile, expected) in [
            ("rm -rf /tmp/x\n\tünïcode 🦀", "rm -rf /tmp/x\n\tünïcode 🦀"),
            ("\u{1b}[8mhidden\u{7}", "␛[8mhidden␇"),
            ("safe\rrm", "safe␍rm"),
            ("a\u{85}b\u{9b}c", "a⟨U+0085⟩b⟨U+009B⟩c"),
            ("x\u{202e}y\u{2066}z", "x⟨U+202E⟩y⟨U+2066⟩z"),
            ("a\u{200b}b\u{200d}c\u{fe0f}", "a⟨U+200B⟩b⟨U+200D⟩c⟨U+FE0F⟩"),
            ("a\u{a0}b\u{3000}c", "a⟨U+00A0⟩b⟨U+3000⟩c"),
            ("\u{e0041}\u{3164}\u{2800}", "⟨U+E0041⟩⟨U+3164⟩⟨U+2800⟩"),
            ("\u{1d159}\u{13430}\u{1343f}", "⟨U+1D159⟩⟨U+13430⟩⟨U+1343F⟩"),
            ("\u{16fe4}\u{e000}\u{fffc}", "⟨U+16FE4⟩⟨U+E000⟩⟨U+FFFC⟩"),
            ("\u{115f}\u{1160}\u{ffa0}", "⟨U+115F⟩⟨U+1160⟩⟨U+FFA0⟩"),
            ("a\u{e0100}b\u{10ffff}", "a⟨U+E0100⟩b⟨U+10FFFF⟩"),
            ("r\u{336}m\u{20e0}", "r⟨U+0336⟩m⟨U+20E0⟩"),
            ("/\u{308}etc \u{301}x", "/⟨U+0308⟩etc ⟨U+0301⟩x"),
            (
                "a\u{301}\u{301}\u{301}\u{301}\u{301}",
                "a\u{301}\u{301}\u{301}\u{301}⟨U+0301⟩",
            ),
        ] {
            assert_eq!(reveal_invisible(hostile), expected, "{hostile:?}");
        }
    }

    #[test]
    fn file_names_in_other_scripts_are_readable() {
        for name in [
            "Übergröße.txt",
            "re\u{301}sume\u{301}.pdf",
            "отчёт.odt",
            "报告 2026.md",
            "レポート.txt",
            "보고서.txt",
            "हिन्दी.txt",
            "ภาษาที่ดี.txt",
            "תַּקְצִיר.txt",
            "تقرير.txt",
            "Tiếng Việt.txt",
            "🦀 αβγ €.txt",
        ] {
            assert_eq!(reveal_invisible(name), name);
        }
    }

    #[test]
    fn right_to_left_letters_are_named_in_logical_order() {
        assert_eq!(
            in_order("echo א && rm -rf x #ב").as_deref(),
            Some("echo ⟨U+05D0⟩ && rm -rf x #⟨U+05D1⟩")
        );
        assert_eq!(in_order("cat ١.txt").as_deref(), Some("cat ⟨U+0661⟩.txt"));
        assert_eq!(in_order("rm -rf ünïcode отчёт 报告"), None);
    }

    #[test]
    fn one_line_is_a_single_line_of_bounded_length() {
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
