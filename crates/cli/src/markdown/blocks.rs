//! Cuts Markdown that comes in pieces into blocks, each of which can be read for itself.

use super::settled::settled;

/// A block: a paragraph, a heading, an item of a list with what belongs to it, a table, a piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) text: String,
    /// An empty line stood before it.
    pub(super) has_gap: bool,
}

/// Cuts text into blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The block that is not complete yet: whole lines.
    block: String,
    /// The line that is not complete yet.
    line: String,
    fence: Option<Fence>,
    /// How many bytes of a block of code were returned while it was open.
    opened: usize,
    has_gap: bool,
    /// The last line was empty.
    is_after_gap: bool,
    /// Something was cut off already.
    has_begun: bool,
}

/// The line that opens a block of code, and that another of its kind closes.
#[derive(Debug, Clone, Copy)]
struct Fence {
    letter: char,
    length: usize,
}

impl Blocks {
    /// Takes text and returns the blocks that it completes.
    pub(super) fn push(&mut self, text: &str) -> Vec<Block> {
        let mut complete = Vec::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take(&line, &mut complete);
            }
        }
        if self.begins_another() {
            self.cut(&mut complete);
        }
        complete
    }

    /// Returns what can be shown now of the block that is not complete yet, if any of it can. Of code it says nothing until
    /// there is another line.
    pub(super) fn open(&mut self) -> Option<Block> {
        let text = match self.fence {
            // Of code nothing but whole lines, and those not again: it may be long.
            Some(_) if self.block.len() == self.opened => return None,
            Some(_) if Fence::opened_by(&self.block).is_some() => {
                self.opened = self.block.len();
                self.block.clone()
            }
            Some(_) => return None,
            // What comes after an empty line may or may not belong to it.
            None if self.is_after_gap && !self.block.is_empty() => settled(&self.block).to_owned(),
            None => settled(&format!("{}{}", self.block, self.line)).to_owned(),
        };
        let has_gap = match self.block.is_empty() {
            true => self.is_after_gap && self.has_begun,
            false => self.has_gap,
        };
        (!text.is_empty()).then_some(Block { text, has_gap })
    }

    /// Tells whether the block that is not complete yet is code.
    pub(super) const fn is_code(&self) -> bool {
        self.fence.is_some()
    }

    /// Tells whether the line that is not complete yet is known to begin a block of its own.
    fn begins_another(&self) -> bool {
        let is_indented = self.line.starts_with([' ', '\t']);
        let is_text = self.fence.is_none() && !self.line.is_empty() && !is_indented;
        is_text && (self.is_after_gap && !self.line.trim().is_empty() || is_item(&self.line))
    }

    /// Returns what is left.
    pub(super) fn end(&mut self) -> Vec<Block> {
        let mut complete = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(&line, &mut complete);
        }
        self.cut(&mut complete);
        *self = Self {
            is_after_gap: self.is_after_gap,
            has_begun: self.has_begun,
            ..Self::default()
        };
        complete
    }

    fn take(&mut self, line: &str, complete: &mut Vec<Block>) {
        if let Some(fence) = self.fence {
            self.block.push_str(line);
            if fence.is_closed_by(line) && !self.is_code_by_indentation(line) {
                self.fence = None;
                self.cut_unless_indented(complete);
            }
            return;
        }
        if line.trim().is_empty() {
            self.is_after_gap = true;
            if !self.block.is_empty() {
                self.block.push_str(line);
            }
            return;
        }
        let is_indented = line.starts_with([' ', '\t']);
        let is_heading = is_heading(line);
        self.fence = Fence::opened_by(line).filter(|_| !self.is_code_by_indentation(line));
        let begins = self.is_after_gap || is_heading || is_item(line) || self.fence.is_some();
        if begins && !is_indented {
            self.cut(complete);
        }
        if self.block.is_empty() {
            self.has_gap = self.is_after_gap && self.has_begun;
        }
        self.is_after_gap = false;
        self.block.push_str(line);
        if is_heading {
            self.cut(complete);
        }
    }

    /// Tells whether a line is so far indented that a fence in it is none (CommonMark 4.5), unless an item is open: then it
    /// depends on where the text of that begins.
    fn is_code_by_indentation(&self, line: &str) -> bool {
        let is_far = |line: &str| {
            let text = line.trim_start_matches(' ');
            line.len() - text.len() >= 4 || text.starts_with('\t')
        };
        is_far(line) && (is_far(&self.block) || !is_item(self.block.trim_start()))
    }

    /// Ends the block that a fence has closed, unless that fence is part of something larger.
    fn cut_unless_indented(&mut self, complete: &mut Vec<Block>) {
        if Fence::opened_by(&self.block).is_some() && !self.block.starts_with([' ', '\t']) {
            self.cut(complete);
        }
    }

    fn cut(&mut self, complete: &mut Vec<Block>) {
        if self.block.is_empty() {
            return;
        }
        self.has_begun = true;
        self.opened = 0;
        complete.push(Block {
            text: std::mem::take(&mut self.block),
            has_gap: self.has_gap,
        });
    }
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let letter = line
            .chars()
            .next()
            .filter(|letter| "`~".contains(*letter))?;
        let length = line.chars().take_while(|other| *other == letter).count();
        let info = line.get(length..)?.lines().next().unwrap_or_default();
        // After backticks, another one makes it code within a line.
        let is_fence = length >= 3 && !(letter == '`' && info.contains('`'));
        is_fence.then_some(Self { letter, length })
    }

    fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|letter| letter == self.letter)
    }
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    (1..=6).contains(&level) && rest.starts_with([' ', '\n'])
}

fn is_item(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+']),
        1..=9 => line
            .get(digits..)
            .and_then(|rest| rest.strip_prefix(['.', ')'])),
        _ => None,
    };
    rest.is_some_and(|rest| rest.starts_with([' ', '\t', '\n']))
}
