//! JSON laid out for a user who bases a decision on it: complete, with one value per line.
//!
//! The caller decides how strings are shown, and so deals with what may hide in them.

use std::str::Chars;

use serde_json::value::RawValue;

/// Lays out JSON on lines, each after a margin. Every value appears in its order, including one with a duplicate key.
/// Characters that were escaped without need are unescaped; then each string goes through `shown`, with its quotes.
/// Returns `None` if the input is not JSON.
#[must_use]
pub fn laid_out_json(json: &str, margin: &str, shown: impl Fn(&str) -> String) -> Option<String> {
    serde_json::from_str::<&RawValue>(json).ok()?;
    let mut out = Layout {
        text: margin.to_owned(),
        margin,
        depth: 0,
        is_fresh: false,
    };
    let mut rest = json.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => out.value(&shown(&string(&mut rest))),
            '{' | '[' => out.open(letter),
            '}' | ']' => out.close(letter),
            ',' => {
                out.text.push(',');
                out.line();
            }
            ':' => out.text.push_str(": "),
            letter if letter.is_ascii_whitespace() => {}
            letter => out.value(letter.encode_utf8(&mut [0; 4])),
        }
    }
    Some(out.text)
}

struct Layout<'a> {
    text: String,
    margin: &'a str,
    depth: usize,
    /// An array or object was opened and has no items yet.
    is_fresh: bool,
}

impl Layout<'_> {
    fn line(&mut self) {
        self.text.push('\n');
        self.text.push_str(self.margin);
        self.text.push_str(&"  ".repeat(self.depth));
    }

    /// Writes a value or a part of one, on a new line after an opening bracket, and marks the bracket as non-empty.
    fn value(&mut self, text: &str) {
        if std::mem::take(&mut self.is_fresh) {
            self.line();
        }
        self.text.push_str(text);
    }

    fn open(&mut self, bracket: char) {
        self.value(bracket.encode_utf8(&mut [0; 4]));
        self.depth += 1;
        self.is_fresh = true;
    }

    fn close(&mut self, bracket: char) {
        self.depth = self.depth.saturating_sub(1);
        if !std::mem::take(&mut self.is_fresh) {
            self.line();
        }
        self.text.push(bracket);
    }
}

/// Reads a string from after its opening quote, and returns it with its quotes.
fn string(rest: &mut Chars<'_>) -> String {
    let mut token = String::from('"');
    let mut is_escaped = false;
    for letter in rest.by_ref() {
        token.push(letter);
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => break,
            _ => {}
        }
    }
    let decoded = serde_json::from_str::<String>(&token);
    let plain = decoded.and_then(|text| serde_json::to_string(&text));
    plain.unwrap_or(token)
}
