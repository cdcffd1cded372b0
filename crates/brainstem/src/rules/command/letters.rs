//! The characters of a text, read one by one, with lookahead and the current position.

use std::str::Chars;

/// The rest of a text that is still to be read.
#[derive(Debug, Clone)]
pub(super) struct Letters<'a> {
    text: &'a str,
    rest: Chars<'a>,
}

impl<'a> Letters<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            text,
            rest: text.chars(),
        }
    }

    /// Returns the number of bytes already read.
    pub(super) fn position(&self) -> usize {
        self.text.len() - self.rest.as_str().len()
    }

    /// Returns the text between two positions.
    pub(super) fn between(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    /// Reads the next character if it fits.
    pub(super) fn next_if(&mut self, fits: impl FnOnce(char) -> bool) -> Option<char> {
        let letter = self.peek().filter(|letter| fits(*letter))?;
        self.rest.next();
        Some(letter)
    }

    pub(super) fn next_if_eq(&mut self, wanted: char) -> Option<char> {
        self.next_if(|letter| letter == wanted)
    }
}

impl Iterator for Letters<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        self.rest.next()
    }
}
