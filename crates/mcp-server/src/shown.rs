//! Third-party text, rendered so that it hides nothing, however a client displays it.
//!
//! A client may show text in a terminal, as Markdown or as a web page. So the text that a user bases a decision on is
//! JSON in which each character that is invisible, changes how others look or runs from right to left is written as a
//! JSON escape. Each line is indented, which makes Markdown leave it as it is.

use neuraxis_core::{clip, laid_out_json};

/// The maximum number of third-party characters within a line of the server's own.
const MAX_LINE_CHARS: usize = 300;

/// The indentation of third-party text: Markdown shows such lines verbatim.
const MARGIN: &str = "    ";

/// Renders third-party text as one line of bounded length.
pub(crate) fn one_line(text: &str) -> String {
    clip(&line(text), MAX_LINE_CHARS)
}

/// Renders third-party text as a separate, indented line.
pub(crate) fn quoted(text: &str) -> String {
    format!("{MARGIN}{}", one_line(text))
}

/// Renders third-party lines one by one, indented and in full: the user answers what they say.
pub(crate) fn quoted_lines(text: &str) -> String {
    let lines = text.lines().map(|it| format!("{MARGIN}{}", line(it)));
    lines.collect::<Vec<_>>().join("\n")
}

fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    escaped(&words.join(" "))
}

/// Lays JSON out on indented lines. Every value is kept, in order, even if its key occurs twice. Letters that were
/// escaped unnecessarily are written as letters. Input that is not JSON is returned as one line.
pub(crate) fn laid_out(json: &str) -> String {
    let laid_out = laid_out_json(json, MARGIN, escaped);
    laid_out.unwrap_or_else(|| format!("{MARGIN}{}", escaped(&json.replace(['\r', '\n'], " "))))
}

/// Writes hidden characters as JSON escapes.
fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_plain(letter) {
            plain.push(letter);
        } else {
            let units = letter.encode_utf16(&mut [0; 2]).to_vec();
            plain.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    plain
}

/// Returns whether a character is visible and stays in place: letters and digits of left-to-right scripts, and the rest
/// of ASCII. Symbols and emoji are not included; their escapes are just as exact.
fn is_plain(letter: char) -> bool {
    match letter {
        ' '..='~' => true,
        '\u{0590}'..='\u{08ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' => false,
        '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}' => false,
        // Letters by name, but invisible.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => false,
        letter => letter.is_alphanumeric(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_on_its_own_line_and_a_duplicate_key_is_shown_twice() {
        let json = r#"{"path":"a","path":"b","deep":[1,{"x":null}],"none":{}}"#;
        let expected = "    {\n      \"path\": \"a\",\n      \"path\": \"b\",\n      \"deep\": [\n        1,\n        {\n          \"x\": null\n        }\n      ],\n      \"none\": {}\n    }";
        assert_eq!(laid_out(json), expected);
    }

    #[test]
    fn invisible_characters_are_escaped_and_escaped_letters_are_shown_as_letters() {
        for (json, expected) in [
            (r#"{"c":"\u0072\u006d"}"#, "\"c\": \"rm\""),
            ("{\"c\":\"a\u{202e}b\u{200b}\"}", r#""a\u202eb\u200b""#),
            (
                "{\"c\":\"\u{1b}[2J\"}"
                    .replace('\u{1b}', "\\u001b")
                    .as_str(),
                r#""\u001b[2J""#,
            ),
            ("{\"c\":\"אב\"}", r#""\u05d0\u05d1""#),
            ("{\"c\":\"x\u{336}\"}", r#""x\u0336""#),
            ("{\"c\":\"\u{3164}\"}", r#""\u3164""#),
            ("{\"c\":\"🦀\"}", r#""\ud83e\udd80""#),
            ("{\"c\":\"отчёт 报告 Übung\"}", "отчёт 报告 Übung"),
            (r#"{"c":"a\nb"}"#, r#""a\nb""#),
        ] {
            let shown = laid_out(json);
            assert!(shown.contains(expected), "{shown}");
            let lines = shown.lines();
            assert!(lines.into_iter().all(|line| line.starts_with(MARGIN)));
        }
    }

    #[test]
    fn formatted_json_parses_to_the_same_value() {
        let json = r#"{"a":["\u202e","\"\\",1e5,-0.5,true],"":{"b":[]}}"#;
        let shown: serde_json::Value = serde_json::from_str(&laid_out(json)).unwrap();
        assert_eq!(
            shown,
            serde_json::from_str::<serde_json::Value>(json).unwrap()
        );
    }

    #[test]
    fn text_stays_on_one_line_of_bounded_length() {
        assert_eq!(one_line(" two\nlines\u{7} "), "two lines\\u0007");
        assert_eq!(
            one_line(&"x".repeat(5_000)).chars().count(),
            MAX_LINE_CHARS + 1
        );
        assert_eq!(laid_out("{\"a\": \u{1b}\n"), "    {\"a\": \\u001b ");
    }
}
