//! Markdown on a terminal, as it comes: a block is shown once it is complete, and never changes afterwards.
//!
//! What a model writes is made harmless after it was read, since Markdown has its own ways to spell any character.

mod blocks;
mod render;
mod table;

use blocks::{Block, Blocks};

/// Turns Markdown that comes in pieces into text with styles.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    blocks: Blocks,
}

impl Markdown {
    /// Takes a piece of text and returns what of it can be shown by now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let complete = self.blocks.push(text);
        complete.iter().map(shown).collect()
    }

    /// Returns what is left, complete or not, and begins anew.
    pub(crate) fn end(&mut self) -> String {
        let rest = self.blocks.end();
        rest.iter().map(shown).collect()
    }
}

fn shown(block: &Block) -> String {
    let gap = if block.has_gap { "\n" } else { "" };
    format!("{gap}{}", render::render(&block.text))
}

#[cfg(test)]
mod tests;
