//! Standard output: what the user asked for, and nothing else.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::harmless::harmless;
use crate::markdown::Markdown;
use crate::terminal;
use crate::wrap::{laid_out, with_commands};

/// Standard output.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: io::Stdout,
    reader: Reader,
}

/// The reader of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A terminal, which obeys control characters.
    Terminal,
    /// A file or another program, which gets every byte unchanged.
    Program,
}

/// The output format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// Human-readable text
    Text,
    /// A JSON array
    Json,
}

/// The output format of a command that prints one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectFormat {
    /// Human-readable text
    Text,
    /// One JSON object
    Json,
}

impl Output {
    /// Prints a list: the texts one after the other, or the values as an array.
    pub(crate) fn list<T>(
        &mut self,
        format: ListFormat,
        items: impl Iterator<Item = T>,
        in_text: impl Fn(T) -> String,
        in_json: impl Fn(T) -> Value,
    ) -> io::Result<()> {
        match format {
            ListFormat::Text => {
                let text: String = items.map(in_text).collect();
                self.plain_lines(&text)
            }
            ListFormat::Json => {
                let list: Value = items.map(in_json).collect();
                self.text(&format!("{list:#}\n"))
            }
        }
    }

    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let reader = if stdout.is_terminal() {
            Reader::Terminal
        } else {
            Reader::Program
        };
        Self { stdout, reader }
    }

    /// Returns whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.reader == Reader::Terminal
    }

    /// Returns the number of columns for human-readable lines.
    pub(crate) fn width(&self) -> usize {
        terminal::width(&self.stdout)
    }

    /// Returns the number of columns of the terminal. Lines for a file or another program are not wrapped.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.is_terminal().then(|| self.width())
    }

    /// Returns whether text is laid out: on a terminal that can do more than print lines, with or without styles.
    pub(crate) fn lays_out(&self) -> bool {
        self.is_terminal() && !terminal::is_dumb()
    }

    /// Prints a text immediately, made harmless if standard output is a terminal.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let text = match self.reader {
            Reader::Terminal => harmless(text),
            Reader::Program => text.into(),
        };
        self.stdout.write_all(text.as_bytes())?;
        self.stdout.flush()
    }

    /// Prints the program's own text immediately; every untrusted part must already be harmless. Styles are kept if the
    /// output is a terminal and colors are not turned off.
    pub(crate) fn painted(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = anstream::AutoStream::auto(&mut self.stdout);
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Prints the program's own lines immediately; every untrusted part must already be harmless. Like
    /// [`painted`](Self::painted), but wraps between words at the width of a terminal.
    pub(crate) fn lines(&mut self, text: &str) -> io::Result<()> {
        match self.reader {
            Reader::Terminal => self.painted(&laid_out(text, self.width())),
            Reader::Program => self.painted(text),
        }
    }

    /// Prints lines with untrusted text immediately. Like [`text`](Self::text), but wraps between words at the width of
    /// a terminal.
    pub(crate) fn plain_lines(&mut self, text: &str) -> io::Result<()> {
        match self.reader {
            Reader::Terminal => self.lines(&harmless(text)),
            Reader::Program => self.text(text),
        }
    }

    /// Prints the program's own sentence immediately, wrapped between words, with each command to be copied kept whole.
    pub(crate) fn sentence(&mut self, sentence: &str) -> io::Result<()> {
        match self.columns() {
            Some(columns) => self.line(&with_commands(sentence, columns)),
            None => self.line(sentence),
        }
    }

    /// Returns a Markdown renderer for this output. Without styles it keeps the marks, since nothing else shows their
    /// meaning.
    pub(crate) fn empty_page(&self) -> Markdown {
        match anstream::AutoStream::choice(&self.stdout) {
            anstream::ColorChoice::Never => Markdown::with_marks(),
            _ => Markdown::default(),
        }
    }

    /// Prints complete Markdown: laid out if the output is, otherwise unchanged.
    pub(crate) fn markdown(&mut self, text: &str) -> io::Result<()> {
        if !self.lays_out() {
            return self.line(text);
        }
        let mut markdown = self.empty_page();
        markdown.set_columns(self.width());
        let shown = markdown.push(text) + &markdown.end();
        self.painted(&shown)
    }

    /// Prints a value immediately as JSON on one line, without characters that a reader could take for a line break.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.line(&on_one_line(&serde_json::to_string(value)?))
    }

    /// Prints a line immediately.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.text(&format!("{line}\n"))
    }
}

/// Escapes characters in JSON that are not line breaks there but are treated as such by many readers. They occur only
/// in strings.
pub(crate) fn on_one_line(json: &str) -> String {
    let json = json.replace('\u{85}', "\\u0085");
    let json = json.replace('\u{2028}', "\\u2028");
    json.replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unicode_line_separators_are_escaped_without_changing_the_value() {
        let value = serde_json::json!({"a\u{2028}": "x\u{85}y\u{2029}z\nä"});
        let line = on_one_line(&value.to_string());
        assert_eq!(line, r#"{"a\u2028":"x\u0085y\u2029z\nä"}"#);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            value
        );
    }
}
