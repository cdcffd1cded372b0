//! Markdown on a terminal, as it comes: text word by word, code line by line, and what can only be judged whole, such as a
//! table, once it is complete. What was shown never changes.
//!
//! What a model writes is made harmless after it was read, since Markdown has its own ways to spell any character.

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

/// Turns Markdown that comes in pieces into text with styles.
#[derive(Debug)]
pub(crate) struct Markdown {
    blocks: Blocks,
    /// How wide the screen is, and was when the block that is not complete yet began, or was last fitted to it.
    columns: usize,
    columns_of_block: usize,
    /// The code of the block that is not complete yet.
    code: Code,
    /// What was shown of the block that is not complete yet.
    shown: String,
    /// What stands before what is shown next, because the screen was resized.
    line_break: Option<String>,
    /// Whether the marks of what styles show stay, because there are none.
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
    /// Lets the marks of headings, code, and what is emphasized or struck out stay, for whoever sees no styles.
    pub(crate) fn with_marks() -> Self {
        Self {
            keeps_marks: true,
            ..Self::default()
        }
    }

    /// Says how wide the screen is from now on.
    pub(crate) const fn set_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Takes a piece of text and returns what of it can be shown by now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.fit();
        let complete = self.blocks.push(text);
        let mut more: String = complete.iter().map(|block| self.rest_of(block)).collect();
        more.push_str(&self.more_of_open());
        more
    }

    /// Tells whether the last line that was shown is not complete yet.
    pub(crate) fn is_in_line(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Returns what is left, complete or not, and begins anew.
    pub(crate) fn end(&mut self) -> String {
        let rest = self.blocks.end();
        rest.iter().map(|block| self.rest_of(block)).collect()
    }

    /// Lets the block that is not complete yet go on in the width that the screen has now. What stands of it stays as it is;
    /// the rest begins on a line of its own, of which as much is left as there would be had it been so wide from the beginning.
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
        let stands = letters(&self.shown);
        let fitted = after(&whole, stands.len()).and_then(|place| whole.get(..place));
        match fitted {
            Some(fitted) if letters(fitted) == stands => {
                let last = fitted.rsplit('\n').next().unwrap_or_default();
                let plain = anstream::adapter::strip_str(last).to_string();
                let begins = plain.len() - plain.trim_start_matches(' ').len();
                self.line_break = Some(format!("\n{}", " ".repeat(begins)));
                self.shown = fitted.to_owned();
            }
            // What stands before its lines is part of what stands, such as the bar of a quotation.
            _ => self.columns_of_block = before,
        }
    }

    /// Returns more of a block, on a line of its own where the screen was resized.
    fn going_on(&mut self, more: &str) -> String {
        match self.line_break.take() {
            Some(line_break) if !more.trim().is_empty() => {
                format!("{line_break}{}", more.trim_start())
            }
            _ => more.to_owned(),
        }
    }

    /// Returns what was not shown yet of a block that is complete.
    fn rest_of(&mut self, block: &Block) -> String {
        let whole = self.shown(block, true);
        let begun = std::mem::take(&mut self.shown);
        match whole.strip_prefix(begun.as_str()) {
            Some(rest) => self.going_on(rest),
            // What looked like text turned out to be something else: that stays, and is said again as what it is.
            None => format!("\n{whole}"),
        }
    }

    /// Returns what can be shown now of the block that is not complete yet.
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
                    false => self.going_on(&more),
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

/// Returns what is seen of a text but its blanks and line breaks.
fn letters(text: &str) -> Vec<char> {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect()
}

/// Returns the place in a text after so many of its letters, and after the styles that end there.
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
