//! Standard output: what the user asked for, and nothing else.

use std::io::{self, IsTerminal, Write};

use crate::harmless::harmless;

/// Standard output.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: io::Stdout,
    reader: Reader,
}

/// Who reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A terminal, which obeys control characters.
    Terminal,
    /// A file or another program, which gets every byte as it is.
    Program,
}

impl Output {
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let reader = if stdout.is_terminal() {
            Reader::Terminal
        } else {
            Reader::Program
        };
        Self { stdout, reader }
    }

    /// Tells whether somebody watches.
    pub(crate) fn is_terminal(&self) -> bool {
        self.reader == Reader::Terminal
    }

    /// Tells whether whoever watches wants styles, and a terminal that knows them.
    pub(crate) fn shows_styles(&self) -> bool {
        let choice = anstream::AutoStream::choice(&self.stdout);
        self.is_terminal() && choice != anstream::ColorChoice::Never
    }

    /// Prints a text with styles at once. Whoever made it has made what is in it harmless.
    pub(crate) fn styled(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = anstream::AutoStream::auto(&mut self.stdout);
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Prints a text at once, harmless where a terminal shows it.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let text = match self.reader {
            Reader::Terminal => harmless(text),
            Reader::Program => text.into(),
        };
        self.stdout.write_all(text.as_bytes())?;
        self.stdout.flush()
    }

    /// Prints a text of ours at once, of which every strange part was made harmless: with colors where a terminal shows
    /// them and nobody minds.
    pub(crate) fn painted(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = anstream::AutoStream::auto(&mut self.stdout);
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Prints a line at once.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.text(&format!("{line}\n"))
    }
}
