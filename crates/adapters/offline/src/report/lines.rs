//! The lines that are shown of one result: a limited number, with the others only counted.

use crate::clean;

/// The maximum number of lines that are shown of one result.
const MAX_LINES: usize = 200;

/// Up to [`MAX_LINES`] lines, and the number of lines beyond them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<String>,
    more: usize,
}

impl Lines {
    /// Adds a line. It is only built if there is room for it.
    pub(super) fn line(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(line());
        } else {
            self.more += 1;
        }
    }

    /// Adds the lines of a text, cleaned and indented.
    pub(super) fn text(&mut self, text: &str, indent: &str) {
        for line in text.lines() {
            self.line(|| format!("{indent}{}", clean::indented_line(line)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns whether a line contains the text.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// Returns all lines, followed by one that gives the number of missing lines, if any.
    pub(super) fn into_text(self) -> String {
        let more = (self.more > 0).then(|| format!("… and {} more lines", self.more));
        self.lines
            .into_iter()
            .chain(more)
            .collect::<Vec<_>>()
            .join("\n")
    }
}
