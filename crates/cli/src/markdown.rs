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

use crate::wrap::USUAL_WIDTH;

/// Turns Markdown that comes in pieces into text with styles.
#[derive(Debug)]
pub(crate) struct Markdown {
    blocks: Blocks,
    /// How wide the screen is, and was when the block began that is not complete yet: the rest of that goes on as it began.
    columns: usize,
    columns_of_block: usize,
    /// The code of the block that is not complete yet.
    code: Code,
    /// What was shown of the block that is not complete yet.
    shown: String,
}

impl Default for Markdown {
    fn default() -> Self {
        Self {
            blocks: Blocks::default(),
            columns: USUAL_WIDTH,
            columns_of_block: USUAL_WIDTH,
            code: Code::default(),
            shown: String::new(),
        }
    }
}

impl Markdown {
    /// Says how wide the screen is from now on.
    pub(crate) const fn set_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Takes a piece of text and returns what of it can be shown by now.
    pub(crate) fn push(&mut self, text: &str) -> String {
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

    /// Returns what was not shown yet of a block that is complete.
    fn rest_of(&mut self, block: &Block) -> String {
        let whole = self.shown(block);
        let begun = std::mem::take(&mut self.shown);
        match whole.strip_prefix(begun.as_str()) {
            Some(rest) => rest.to_owned(),
            // What looked like text turned out to be something else: that stays, and is said again as what it is.
            None => format!("\n{whole}"),
        }
    }

    /// Returns what can be shown now of the block that is not complete yet.
    fn more_of_open(&mut self) -> String {
        let Some(open) = self.blocks.open() else {
            return String::new();
        };
        let upto_now = self.shown(&open);
        let upto_now = upto_now.strip_suffix('\n').unwrap_or(&upto_now);
        match upto_now.strip_prefix(self.shown.as_str()) {
            Some(more) => {
                let more = more.to_owned();
                self.shown.push_str(&more);
                more
            }
            None => String::new(),
        }
    }

    fn shown(&mut self, block: &Block) -> String {
        if self.shown.is_empty() {
            self.columns_of_block = self.columns;
        }
        let gap = if block.has_gap { "\n" } else { "" };
        let text = render::render(&block.text, self.columns_of_block, &mut self.code);
        format!("{gap}{text}")
    }
}

#[cfg(test)]
mod tests;
