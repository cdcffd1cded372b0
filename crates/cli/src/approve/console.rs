//! The user at the terminal, who reads what is shown and types answers.

use std::io::{self, Write};
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use futures_util::FutureExt;
use neuraxis::ports::CancellationToken;
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

#[cfg(unix)]
use crate::harmless::reveal_invisible;
use crate::terminal;

/// How often to check whether a question is still open.
#[cfg(unix)]
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long there must be no input for a paste to be complete.
#[cfg(unix)]
const PASTE_GAP: Duration = Duration::from_millis(50);

/// The maximum number of bytes of a line typed as an answer.
#[cfg(unix)]
const MAX_LINE: usize = 64 * 1024;

/// A line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// A user who can be shown text and asked for lines.
pub(crate) trait Console {
    /// Returns the number of columns available for text.
    fn width(&self) -> usize;
    /// Returns the number of rows available for text.
    fn height(&self) -> usize;
    /// Shows text, which must be harmless.
    fn show(&mut self, text: &str) -> io::Result<()>;
    /// Asks for a line that starts with `initial`.
    fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Line>;
    /// Lets the user edit a text. Returns `None` if no editor is configured.
    fn edit(&mut self, text: &str) -> io::Result<Option<String>>;
}

/// The user at the terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    editor: Option<DefaultEditor>,
    /// Cancelled once the question is settled and needs no answer any more.
    is_settled: CancellationToken,
    /// Everything shown and typed since the question was asked: the next line may answer any part of it.
    shown: String,
}

/// Discards input typed before there was a question, since it cannot be the answer. Blocks until there is no more
/// input, because the rest of a large paste arrives a little later.
pub(crate) fn discard_typed_input() {
    #[cfg(unix)]
    {
        use rustix::termios::{QueueSelector, tcflush};
        // If input cannot be discarded, there is none. In the background, input belongs to another program, and
        // discarding it would stop this process.
        let forget =
            || !terminal::is_in_background() && tcflush(io::stdin(), QueueSelector::IFlush).is_ok();
        while forget() && has_more_input() {}
        // An incomplete line, such as the last one of a paste, is not reported as available.
        forget();
    }
}

/// Returns whether more input arrives too soon to have been typed meanwhile.
#[cfg(unix)]
fn has_more_input() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    let Ok(timeout) = Timespec::try_from(PASTE_GAP) else {
        return false;
    };
    let stdin = io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut waiting, Some(&timeout)) {
        Err(Errno::INTR) => true,
        Ok(0) | Err(_) => false,
        // A terminal that went away is reported as ready forever.
        Ok(_) => waiting.iter().all(|stdin| stdin.revents() == PollFlags::IN),
    }
}

impl Terminal {
    /// Creates a terminal for a question that may be settled elsewhere, which ends the input.
    pub(super) const fn for_question(is_settled: CancellationToken) -> Self {
        Self {
            editor: None,
            is_settled,
            shown: String::new(),
        }
    }

    /// Reads a line from the terminal, and checks meanwhile whether the answer is still wanted. Ctrl-C sends a signal
    /// here, as it does while an answer is generated. Input after the line, such as the rest of a paste, does not
    /// answer the next question.
    #[cfg(unix)]
    fn plain_line(&mut self, prompt: &str) -> io::Result<Line> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::io::Errno;

        let mut continued = continued();
        let mut needs_redraw = false;
        self.show(prompt)?;
        let timeout = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
        let stdin = io::stdin();
        let mut typed = Vec::new();
        loop {
            if self.is_settled.is_cancelled() || typed.len() > MAX_LINE {
                // A partial answer must not become part of the next one.
                discard_typed_input();
                self.show("\n")?;
                return Ok(Line::End);
            }
            // After a stop, what was shown is above what the shell wrote meanwhile, so it is shown again.
            let is_continued = continued.as_mut().and_then(|it| it.recv().now_or_never());
            let is_away = terminal::is_in_background();
            needs_redraw |= is_away || is_continued.is_some();
            if is_away {
                // A process that reads in the background is stopped. Sleeping avoids that, so bringing the process to
                // the foreground is enough to continue it.
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
            if needs_redraw {
                discard_typed_input();
                typed.clear();
                write(&self.shown)?;
                needs_redraw = false;
            }
            let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut waiting, Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; 4096];
            let read = match rustix::io::read(&stdin, &mut bytes) {
                // Reading from a terminal that went away fails.
                Ok(0) | Err(Errno::IO) => {
                    self.show("\n")?;
                    return Ok(Line::End);
                }
                Ok(read) => read,
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            };
            typed.extend(bytes.iter().take(read));
            if typed.ends_with(b"\n") {
                discard_typed_input();
                let line = String::from_utf8_lossy(&typed);
                return Ok(Line::Text(line.trim_end_matches(['\r', '\n']).to_owned()));
            }
        }
    }
}

impl Console for Terminal {
    fn width(&self) -> usize {
        terminal::width(io::stderr())
    }

    fn height(&self) -> usize {
        terminal::height(io::stderr())
    }

    fn show(&mut self, text: &str) -> io::Result<()> {
        self.shown.push_str(text);
        write(text)
    }

    fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Line> {
        #[cfg(unix)]
        if initial.is_empty() {
            let line = self.plain_line(prompt)?;
            if let Line::Text(typed) = &line {
                // The terminal has echoed it, with the line break.
                self.shown
                    .push_str(&format!("{}\n", reveal_invisible(typed)));
            }
            return Ok(line);
        }
        if self.is_settled.is_cancelled() {
            return Ok(Line::End);
        }
        // If no line can be edited, the initial text is printed above the prompt instead.
        if terminal::is_dumb() && !initial.is_empty() {
            self.show(&format!("{initial}\n"))?;
        }
        let editor = match &mut self.editor {
            Some(editor) => editor,
            None => {
                let config = Config::builder().behavior(Behavior::PreferTerm);
                let editor = DefaultEditor::with_config(config.build());
                self.editor.insert(editor.map_err(io::Error::other)?)
            }
        };
        let edit = || editor.readline_with_initial(prompt, (initial, ""));
        line_of(terminal::read_with_editor(edit))
    }

    fn edit(&mut self, text: &str) -> io::Result<Option<String>> {
        super::editor::edit(text)
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stderr = anstream::stderr();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

/// Receives the signal to continue after this program was stopped, for example by Ctrl-Z. If the signal cannot be
/// received, nothing is shown again.
#[cfg(unix)]
fn continued() -> Option<tokio::signal::unix::Signal> {
    use rustix::process::Signal;
    use tokio::signal::unix::{SignalKind, signal};

    signal(SignalKind::from_raw(Signal::CONT.as_raw())).ok()
}

/// Converts the line editor's result.
pub(crate) fn line_of(read: rustyline::Result<String>) -> io::Result<Line> {
    match read {
        Ok(text) => Ok(Line::Text(text)),
        Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
        Err(ReadlineError::Eof) => Ok(Line::End),
        Err(ReadlineError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Returns the name of the user who decides here, for the record.
pub(crate) fn name() -> String {
    let user = ["USER", "USERNAME"].into_iter();
    let mut user = user.filter_map(|name| std::env::var(name).ok());
    match user.find(|user| !user.is_empty()) {
        Some(user) => format!("{user}, at the terminal"),
        None => "the user at the terminal".to_owned(),
    }
}
