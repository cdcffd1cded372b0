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

/// Who reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A terminal, which obeys control characters.
    Terminal,
    /// A file or another program, which gets every byte as it is.
    Program,
}

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// For people
    Text,
    /// A JSON array
    Json,
}

/// The form of something that is one object for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectFormat {
    /// For people
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

    /// Tells whether somebody watches.
    pub(crate) fn is_terminal(&self) -> bool {
        self.reader == Reader::Terminal
    }

    /// Returns how many columns lines for people may have.
    pub(crate) fn width(&self) -> usize {
        terminal::width(&self.stdout)
    }

    /// Returns how many columns a terminal has. A file or another program gets each line whole.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.is_terminal().then(|| self.width())
    }

    /// Tells whether text is laid out for whoever watches: at a terminal that knows more than lines, with styles or, where
    /// they are not wanted, without.
    pub(crate) fn lays_out(&self) -> bool {
        self.is_terminal() && !terminal::is_dumb()
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

    /// Prints a text of ours at once, of which every strange part was made harmless: with styles where a terminal shows
    /// them and nobody minds.
    pub(crate) fn painted(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = anstream::AutoStream::auto(&mut self.stdout);
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Prints lines of ours at once, of which every strange part was made harmless: as [`painted`](Self::painted), and broken
    /// between words where a terminal ends.
    pub(crate) fn lines(&mut self, text: &str) -> io::Result<()> {
        match self.reader {
            Reader::Terminal => self.painted(&laid_out(text, self.width())),
            Reader::Program => self.painted(text),
        }
    }

    /// Prints lines with others' words in them at once: as [`text`](Self::text), and broken between words where a terminal ends.
    pub(crate) fn plain_lines(&mut self, text: &str) -> io::Result<()> {
        match self.reader {
            Reader::Terminal => self.lines(&harmless(text)),
            Reader::Program => self.text(text),
        }
    }

    /// Prints a sentence of ours at once: broken between words where a terminal ends, with each command to be copied whole.
    pub(crate) fn sentence(&mut self, sentence: &str) -> io::Result<()> {
        match self.columns() {
            Some(columns) => self.line(&with_commands(sentence, columns)),
            None => self.line(sentence),
        }
    }

    /// Returns what Markdown is laid out by. Where nobody wants styles its marks stay: nothing else says what they say.
    pub(crate) fn empty_page(&self) -> Markdown {
        match anstream::AutoStream::choice(&self.stdout) {
            anstream::ColorChoice::Never => Markdown::with_marks(),
            _ => Markdown::default(),
        }
    }

    /// Prints Markdown that is complete: laid out where that is wanted, and otherwise as it is.
    pub(crate) fn markdown(&mut self, text: &str) -> io::Result<()> {
        if !self.lays_out() {
            return self.line(text);
        }
        let mut markdown = self.empty_page();
        markdown.set_columns(self.width());
        let shown = markdown.push(text) + &markdown.end();
        self.painted(&shown)
    }

    /// Prints a value at once, as JSON on one line, whatever a reader takes for the end of one.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.line(&on_one_line(&serde_json::to_string(value)?))
    }

    /// Prints a line at once.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.text(&format!("{line}\n"))
    }
}

/// Escapes in JSON what is no end of a line there and is one for many who read line by line. It stands in strings alone.
pub(crate) fn on_one_line(json: &str) -> String {
    let json = json.replace('\u{85}', "\\u0085");
    let json = json.replace('\u{2028}', "\\u2028");
    json.replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_some_take_for_the_end_of_a_line_is_escaped_and_means_the_same() {
        let value = serde_json::json!({"a\u{2028}": "x\u{85}y\u{2029}z\nä"});
        let line = on_one_line(&value.to_string());
        assert_eq!(line, r#"{"a\u2028":"x\u0085y\u2029z\nä"}"#);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            value
        );
    }
}
