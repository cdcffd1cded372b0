//! Splits Markdown that arrives in pieces into blocks, each of which can be parsed separately.

use super::settled::settled;

/// A block: a paragraph, a heading, a list item with its content, a table, or a code block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) text: String,
    /// Whether an empty line came before it.
    pub(super) has_gap: bool,
}

/// Splits text into blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The complete lines of the incomplete block.
    block: String,
    /// The incomplete line.
    line: String,
    fence: Option<Fence>,
    /// How many bytes of a code block were returned while it was open.
    opened: usize,
    has_gap: bool,
    /// Whether the last line was empty.
    is_after_gap: bool,
    /// Whether a block was already split off.
    has_begun: bool,
}

/// The line that opens a code block, and that a line of the same kind closes.
#[derive(Debug, Clone, Copy)]
struct Fence {
    letter: char,
    length: usize,
}

impl Blocks {
    /// Adds text and returns the blocks that it completes.
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

    /// Returns what can be shown now of the incomplete block, if anything. For code, returns `None` until there is
    /// another line.
    pub(super) fn open(&mut self) -> Option<Block> {
        let text = match self.fence {
            // Code is returned in whole lines, and only if there are new ones: it may be long.
            Some(_) if self.block.len() == self.opened => return None,
            Some(_) if Fence::opened_by(&self.block).is_some() => {
                self.opened = self.block.len();
                self.block.clone()
            }
            Some(_) => return None,
            // Text after an empty line may or may not belong to the block.
            None if self.is_after_gap && !self.block.is_empty() => settled(&self.block).to_owned(),
            None => settled(&format!("{}{}", self.block, self.line)).to_owned(),
        };
        let has_gap = match self.block.is_empty() {
            true => self.is_after_gap && self.has_begun,
            false => self.has_gap,
        };
        (!text.is_empty()).then_some(Block { text, has_gap })
    }

    /// Returns whether the incomplete block is code.
    pub(super) const fn is_code(&self) -> bool {
        self.fence.is_some()
    }

    /// Returns whether the incomplete line is known to begin a new block.
    fn begins_another(&self) -> bool {
        let is_indented = self.line.starts_with([' ', '\t']);
        let is_text = self.fence.is_none() && !self.line.is_empty() && !is_indented;
        is_text && (self.is_after_gap && !self.line.trim().is_empty() || is_item(&self.line))
    }

    /// Returns the rest.
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

    /// Returns whether a line is indented so far that it cannot be a fence (CommonMark 4.5). In an open item this
    /// depends on where the item's text begins.
    fn is_code_by_indentation(&self, line: &str) -> bool {
        let is_far = |line: &str| {
            let text = line.trim_start_matches(' ');
            line.len() - text.len() >= 4 || text.starts_with('\t')
        };
        is_far(line) && (is_far(&self.block) || !is_item(self.block.trim_start()))
    }

    /// Completes the block that a fence has closed, unless the fence is part of something larger.
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
        // A second backtick after the opening ones makes it inline code.
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
