//! Makes untrusted text safe for a terminal: no escape sequences, no control characters, no overlong lines.

use anstream::adapter::strip_str;
use neuraxis_core::is_invisible;

/// The maximum number of characters in a line.
const MAX_LINE_CHARS: usize = 500;

/// The number of bytes of a line that are examined, which leaves room for escape sequences in addition to its
/// characters.
const MAX_LINE_BYTES: usize = 16 * MAX_LINE_CHARS;

/// Cleans a text and puts it on one line, with single spaces.
pub(crate) fn line(text: &str) -> String {
    let words = printable(text);
    cut(
        &words.split_whitespace().collect::<Vec<_>>().join(" "),
        text,
    )
}

/// Cleans one line and keeps its indentation.
pub(crate) fn indented_line(line: &str) -> String {
    cut(&printable(line).replace('\t', "    "), line)
}

fn printable(text: &str) -> String {
    let beginning = text
        .get(..text.floor_char_boundary(MAX_LINE_BYTES))
        .unwrap_or_default();
    let text = strip_str(beginning).to_string();
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c)))
        .collect()
}

/// Cuts a cleaned line to the maximum length, and adds an ellipsis if anything of the original is missing at its end.
fn cut(line: &str, original: &str) -> String {
    let line = line.trim_end();
    let end = line.char_indices().nth(MAX_LINE_CHARS).map(|(end, _)| end);
    match end.or_else(|| (original.len() > MAX_LINE_BYTES).then_some(line.len())) {
        Some(end) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_control_characters_are_gone() {
        for (hostile, clean) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;new title\u{7}text", "text"),
            (
                "\u{1b}]8;;http://example.com\u{1b}\\link\u{1b}]8;;\u{1b}\\",
                "link",
            ),
            ("a\u{9b}2Jb", "a2Jb"),
            ("over\rwritten\u{8}\u{7}\u{0}", "overwritten"),
            ("user\u{202e}txt.exe", "usertxt.exe"),
            ("two\nlines\t here", "two lines here"),
            ("plain ünïcode 🦀", "plain ünïcode 🦀"),
        ] {
            assert_eq!(line(hostile), clean, "{hostile:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut() {
        let long = line(&"é".repeat(MAX_LINE_CHARS + 1));
        assert_eq!(long.chars().count(), MAX_LINE_CHARS + 1);
        assert!(long.ends_with('…'));
        let hidden = line(&format!("{}x", "\u{1b}[1m".repeat(MAX_LINE_BYTES)));
        assert_eq!(hidden, "…");
    }

    #[test]
    fn an_indented_line_keeps_its_indentation() {
        assert_eq!(indented_line("\tb \u{1b}[1mc\u{1b}[0m \r"), "    b c");
    }
}
