//! The command that is being read, or one that encloses it.

use super::{NOT_COMPLETE, Simple};

/// Words that a shell interprets at the start of a command; the command follows them.
const RESERVED: [&str; 19] = [
    "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done",
    "case", "esac", "function", "select", "time", "coproc",
];

/// Reserved words that other words may follow before the command does: options, a name, a list.
const NOT_AT_ONCE: [&str; 5] = ["for", "function", "select", "time", "coproc"];

/// A command that is being read.
pub(super) struct Level {
    pub(super) command: Simple,
    /// The position of its first byte in the text.
    pub(super) from: usize,
    /// The current word, if one has started.
    pub(super) word: Option<String>,
    /// The quote that is open in the word.
    pub(super) quote: Option<char>,
    /// Whether the next word is the target of a redirection.
    pub(super) is_target: bool,
    /// The targets of its redirections, wherever they occur. They are not words of the command, but are added after
    /// them.
    pub(super) targets: Vec<String>,
    /// Whether it has a harmless redirection. Some shells run a program for a redirection on its own.
    pub(super) has_harmless: bool,
    /// The operator before the command, if another command must follow it.
    pub(super) after: Option<Operator>,
    pub(super) ends: Ends,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Text,
    Parenthesis,
    Backquote,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// `&&`, `||` or `|`: a command must follow.
    Joins,
    /// `;` or `&`.
    Ends,
    /// A line break, which may also occur where there is no command.
    Line,
}

impl Level {
    pub(super) fn new(ends: Ends, from: usize) -> Self {
        Self {
            command: Simple::default(),
            from,
            word: None,
            quote: None,
            is_target: false,
            targets: Vec::new(),
            has_harmless: false,
            after: None,
            ends,
        }
    }

    pub(super) fn mark(&mut self, why: &'static str) {
        self.command.unclear.get_or_insert(why);
    }

    pub(super) fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    pub(super) fn push_marked(&mut self, letter: char, why: &'static str) {
        self.mark(why);
        self.push(letter);
    }

    pub(super) fn end_word(&mut self) {
        let Some(word) = self.word.take() else {
            return;
        };
        if std::mem::take(&mut self.is_target) {
            self.targets.push(word);
            return;
        }
        if self.command.words.is_empty() {
            if RESERVED.contains(&word.as_str()) {
                self.command.runs_others |= NOT_AT_ONCE.contains(&word.as_str());
                self.mark("it is a compound statement");
                return;
            }
            if word.contains('=') {
                self.mark("it sets variables");
                return;
            }
            if word.is_empty() {
                self.mark("it names no program");
            }
        }
        self.command.words.push(word);
    }

    /// Ends the last word of the command.
    pub(super) fn end_words(&mut self) {
        self.end_word();
        if self.has_harmless && self.command.words.is_empty() {
            self.mark(NOT_COMPLETE);
        }
    }

    /// Ends the word directly before a redirection: a number or `{name}` says what is redirected and is not a word of
    /// the command.
    pub(super) fn end_descriptor(&mut self) {
        if self.word.as_deref().is_some_and(is_descriptor) {
            self.targets.extend(self.word.take());
        }
        self.end_word();
    }

    /// Returns whether `~` or `^` stands for itself here: after a letter, a digit or a brace of the same word.
    pub(super) fn is_within_word(&self) -> bool {
        let last = self.word.as_ref().and_then(|word| word.chars().next_back());
        last.is_some_and(|last| last.is_alphanumeric() || matches!(last, '~' | '^' | '}'))
    }
}

fn is_descriptor(word: &str) -> bool {
    let is_number = word.chars().all(|letter| letter.is_ascii_digit());
    is_number || word.starts_with('{') && word.ends_with('}')
}
