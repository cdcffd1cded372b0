//! Streams Markdown to a terminal: text word by word, code line by line, and what can only be judged as a whole, such
//! as a table, once it is complete. Text that was shown never changes.
//!
//! What a model writes is made harmless after parsing, since Markdown can spell any character in several ways.

mod blocks;
mod code;
mod lines;
mod render;
mod settled;
mod table;

use blocks::{Block, Blocks};
use code::Code;
use render::Marks;

use crate::wrap::USUAL_WIDTH;

/// Turns Markdown that arrives in pieces into styled text.
#[derive(Debug)]
pub(crate) struct Markdown {
    blocks: Blocks,
    /// The width of the screen, and the width that the incomplete block began with or was last fitted to.
    columns: usize,
    columns_of_block: usize,
    /// The code of the incomplete block.
    code: Code,
    /// The text already shown of the incomplete block.
    shown: String,
    /// The line break before what is shown next, if the screen was resized.
    line_break: Option<String>,
    /// Whether Markdown marks are kept, because there are no styles.
    keeps_marks: bool,
}

impl Default for Markdown {
    fn default() -> Self {
        Self {
            blocks: Blocks::default(),
            columns: USUAL_WIDTH,
            columns_of_block: USUAL_WIDTH,
            code: Code::default(),
            shown: String::new(),
            line_break: None,
            keeps_marks: false,
        }
    }
}

impl Markdown {
    /// Keeps the marks of headings, code, emphasis and strikethrough, for output without styles.
    pub(crate) fn with_marks() -> Self {
        Self {
            keeps_marks: true,
            ..Self::default()
        }
    }

    /// Sets the width of the screen.
    pub(crate) const fn set_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Adds a piece of text and returns what can be shown now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.fit();
        let complete = self.blocks.push(text);
        let mut more: String = complete.iter().map(|block| self.rest_of(block)).collect();
        more.push_str(&self.more_of_open());
        more
    }

    /// Returns whether the last line shown is incomplete.
    pub(crate) fn is_in_line(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Returns the rest, complete or not, and resets.
    pub(crate) fn end(&mut self) -> String {
        let rest = self.blocks.end();
        rest.iter().map(|block| self.rest_of(block)).collect()
    }

    /// Continues the incomplete block at the current width of the screen. What is shown of it stays. The rest begins on
    /// a new line, with as much room as if the block had had this width from the beginning.
    fn fit(&mut self) {
        let before = self.columns_of_block;
        if self.columns == before || self.shown.is_empty() || self.blocks.is_code() {
            return;
        }
        let Some(open) = self.blocks.open() else {
            return;
        };
        self.columns_of_block = self.columns;
        let whole = self.shown(&open, false);
        let shown_letters = letters(&self.shown);
        let fitted = after(&whole, shown_letters.len()).and_then(|place| whole.get(..place));
        match fitted {
            Some(fitted) if letters(fitted) == shown_letters => {
                let last = fitted.rsplit('\n').next().unwrap_or_default();
                let plain = anstream::adapter::strip_str(last).to_string();
                let begins = plain.len() - plain.trim_start_matches(' ').len();
                self.line_break = Some(format!("\n{}", " ".repeat(begins)));
                self.shown = fitted.to_owned();
            }
            // Something in front of its lines, such as the bar of a quotation, is part of what is shown.
            _ => self.columns_of_block = before,
        }
    }

    /// Returns more of a block, on a new line if the screen was resized.
    fn continuation(&mut self, more: &str) -> String {
        match self.line_break.take() {
            Some(line_break) if !more.trim().is_empty() => {
                format!("{line_break}{}", more.trim_start())
            }
            _ => more.to_owned(),
        }
    }

    /// Returns the part of a complete block that was not shown yet.
    fn rest_of(&mut self, block: &Block) -> String {
        let whole = self.shown(block, true);
        let begun = std::mem::take(&mut self.shown);
        match whole.strip_prefix(begun.as_str()) {
            Some(rest) => self.continuation(rest),
            // What was shown as text turned out to be something else. It stays, and the block is shown again in full.
            None => format!("\n{whole}"),
        }
    }

    /// Returns what can be shown now of the incomplete block.
    fn more_of_open(&mut self) -> String {
        let Some(open) = self.blocks.open() else {
            return String::new();
        };
        let upto_now = self.shown(&open, false);
        let upto_now = upto_now.strip_suffix('\n').unwrap_or(&upto_now);
        match upto_now.strip_prefix(self.shown.as_str()) {
            Some(more) => {
                let more = more.to_owned();
                self.shown.push_str(&more);
                match more.is_empty() {
                    true => more,
                    false => self.continuation(&more),
                }
            }
            None => String::new(),
        }
    }

    fn shown(&mut self, block: &Block, is_complete: bool) -> String {
        if self.shown.is_empty() {
            self.columns_of_block = self.columns;
        }
        let gap = if block.has_gap { "\n" } else { "" };
        let marks = match self.keeps_marks {
            true => Marks::Kept { is_complete },
            false => Marks::Styled,
        };
        let text = render::render(&block.text, self.columns_of_block, marks, &mut self.code);
        format!("{gap}{text}")
    }
}

/// Returns the visible characters of a text, without whitespace.
fn letters(text: &str) -> Vec<char> {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect()
}

/// Returns the position in a text after this many visible characters, and after the styles that end there.
fn after(text: &str, count: usize) -> Option<usize> {
    let mut seen = 0;
    let mut is_style = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\u{1b}' => is_style = true,
            _ if is_style => is_style = letter != 'm',
            _ if letter.is_whitespace() => {
                if seen == count {
                    return Some(at);
                }
            }
            _ if seen == count => return Some(at),
            _ => seen += 1,
        }
    }
    (seen == count).then_some(text.len())
}

#[cfg(test)]
mod tests;
