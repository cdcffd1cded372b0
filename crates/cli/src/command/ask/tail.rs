//! The end of what a model thinks or a tool prints, for the status lines.

use crate::call::lines_of;
use crate::rows::Row;

/// The maximum number of characters shown: what fits next to the rest of the line.
const MAX_SHOWN: usize = 60;

/// The maximum number of bytes kept: more than shown, so that not every piece requires a cut.
const MAX_KEPT: usize = 2_048;

/// The end of a text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Tail(String);

impl Tail {
    /// Adds a piece.
    pub(super) fn push(&mut self, piece: &str) {
        self.0.push_str(piece);
        if self.0.len() > MAX_KEPT {
            self.0 = last(&self.0, MAX_SHOWN * 4).to_owned();
        }
    }

    /// Returns the end of the last non-empty line.
    pub(super) fn line(&self) -> &str {
        let lines = self.0.lines().rev();
        let line = lines.map(str::trim).find(|line| !line.is_empty());
        last(line.unwrap_or_default(), MAX_SHOWN)
    }

    /// Returns the last non-empty lines, as a terminal would show them.
    pub(super) fn lines(&self, most: usize) -> Vec<String> {
        let rows: Vec<Row> = lines_of(&self.0).collect();
        let rows = rows.into_iter().map(|row| row.text);
        let rows: Vec<String> = rows.filter(|line| !line.trim().is_empty()).collect();
        let first = rows.len().saturating_sub(most);
        rows.get(first..).unwrap_or_default().to_vec()
    }
}

/// Returns the last characters of a text.
fn last(text: &str, most: usize) -> &str {
    let start = text.char_indices().rev().take(most).last();
    let start = start.map_or(text.len(), |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_last_line_is_shown() {
        let mut tail = Tail::default();
        assert_eq!(tail.line(), "");
        for piece in ["first\nsec", "ond \n", "\n"] {
            tail.push(piece);
        }
        assert_eq!(tail.line(), "second");
        tail.push(&"é".repeat(10_000));
        assert_eq!(tail.line(), "é".repeat(MAX_SHOWN));
        assert!(tail.0.len() <= MAX_KEPT);
        assert_eq!(tail.lines(4).len(), 1);
        let mut tail = Tail::default();
        tail.push("one\n\ntwo\n10%\r20%\n\u{1b}[32mthree\u{1b}[0m\n");
        assert_eq!(tail.lines(3), ["two", "20%", "three"]);
    }
}
