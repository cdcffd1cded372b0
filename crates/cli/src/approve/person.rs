//! The person at the terminal: reads what is shown, and types.

use std::io::{self, Write};

use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// Somebody who can be shown text and asked for lines.
pub(crate) trait Person {
    /// Shows text, which is harmless.
    fn show(&mut self, text: &str) -> io::Result<()>;
    /// Asks for a line that begins as given.
    fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Line>;
    /// Has a text edited; `None` where there is no editor for it.
    fn edit(&mut self, text: &str) -> io::Result<Option<String>>;
}

/// Whoever sits at the terminal of this process.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    editor: Option<DefaultEditor>,
}

impl Terminal {
    /// Forgets what was typed before there was a question: it cannot be the answer.
    pub(crate) fn forget_what_was_typed(&mut self) {
        #[cfg(unix)]
        {
            use rustix::termios::{QueueSelector, tcflush};
            // Where nothing can be forgotten, nothing was typed.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        }
    }
}

impl Person for Terminal {
    fn show(&mut self, text: &str) -> io::Result<()> {
        let mut stderr = anstream::stderr();
        stderr.write_all(text.as_bytes())?;
        stderr.flush()
    }

    fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Line> {
        if self.editor.is_none() {
            let config = Config::builder().behavior(Behavior::PreferTerm);
            let editor = DefaultEditor::with_config(config.build()).map_err(io::Error::other)?;
            self.editor = Some(editor);
        }
        let Some(editor) = &mut self.editor else {
            return Ok(Line::End);
        };
        line_of(editor.readline_with_initial(prompt, (initial, "")))
    }

    fn edit(&mut self, text: &str) -> io::Result<Option<String>> {
        super::editor::edit(text)
    }
}

/// Reads what the line editor says.
pub(crate) fn line_of(read: rustyline::Result<String>) -> io::Result<Line> {
    match read {
        Ok(text) => Ok(Line::Text(text)),
        Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
        Err(ReadlineError::Eof) => Ok(Line::End),
        Err(ReadlineError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Names who decides here, for the record.
pub(crate) fn name() -> String {
    let user = ["USER", "USERNAME"].into_iter();
    let mut user = user.filter_map(|name| std::env::var(name).ok());
    match user.find(|user| !user.is_empty()) {
        Some(user) => format!("{user}, at the terminal"),
        None => "the user at the terminal".to_owned(),
    }
}
