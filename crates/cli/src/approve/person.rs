//! The person at the terminal: reads what is shown, and types.

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
use crate::harmless::plain_to_see;
use crate::terminal;

/// How often it is looked whether a question is still open.
#[cfg(unix)]
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long nothing comes once a paste is over.
#[cfg(unix)]
const QUIET: Duration = Duration::from_millis(50);

/// The most bytes of a line that is typed as an answer.
#[cfg(unix)]
const MAX_LINE: usize = 64 * 1024;

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
    /// Returns how many columns there are to show text in.
    fn width(&self) -> usize;
    /// Returns how many rows there are to show text in.
    fn height(&self) -> usize;
    /// Shows text, which is harmless.
    fn show(&mut self, text: &str) -> io::Result<()>;
    /// Asks for a line that begins as given.
    fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Line>;
    /// Has a text edited; `None` where there is no editor for it.
    fn edit(&mut self, text: &str) -> io::Result<Option<String>>;
}

/// Whoever sits at the terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    editor: Option<DefaultEditor>,
    /// Cancelled once the question is settled and needs no answer any more.
    is_settled: CancellationToken,
    /// What was shown and typed since the question was put: what the next line answers may be any of it.
    shown: String,
}

/// Forgets what was typed before there was a question: it cannot be the answer. Blocks until nothing more comes, since the
/// rest of a large paste comes a little later.
pub(crate) fn forget_what_was_typed() {
    #[cfg(unix)]
    {
        use rustix::termios::{QueueSelector, tcflush};
        // Where nothing can be forgotten, nothing was typed. In the background it was typed to others, and this would be stopped.
        let forget = || {
            !terminal::is_in_the_background() && tcflush(io::stdin(), QueueSelector::IFlush).is_ok()
        };
        while forget() && is_more_there() {}
        // A line without its end, such as the last one of a paste, is not seen as there.
        forget();
    }
}

/// Tells whether a line comes so soon that nobody typed it meanwhile.
#[cfg(unix)]
fn is_more_there() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    let Ok(timeout) = Timespec::try_from(QUIET) else {
        return false;
    };
    let stdin = io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut waiting, Some(&timeout)) {
        Err(Errno::INTR) => true,
        Ok(0) | Err(_) => false,
        // A terminal that went away says so for ever.
        Ok(_) => waiting.iter().all(|stdin| stdin.revents() == PollFlags::IN),
    }
}

impl Terminal {
    /// Somebody who is asked something that may be settled elsewhere: then the input ends.
    pub(super) const fn asked(is_settled: CancellationToken) -> Self {
        Self {
            editor: None,
            is_settled,
            shown: String::new(),
        }
    }

    /// Reads a line as the terminal gives it, and looks in between whether it is still wanted. Ctrl-C is a signal here, as
    /// it is while an answer comes. What came with the line, such as the rest of a paste, answers nothing that is asked next.
    #[cfg(unix)]
    fn plain_line(&mut self, prompt: &str) -> io::Result<Line> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::io::Errno;

        let mut continued = continued();
        let mut is_owed = false;
        self.show(prompt)?;
        let timeout = Timespec::try_from(LOOK_EVERY).map_err(io::Error::other)?;
        let stdin = io::stdin();
        let mut typed = Vec::new();
        loop {
            if self.is_settled.is_cancelled() || typed.len() > MAX_LINE {
                // Half an answer is none to the next question.
                forget_what_was_typed();
                self.show("\n")?;
                return Ok(Line::End);
            }
            // What was shown stands above what the shell wrote while this program was stopped.
            let is_continued = continued.as_mut().and_then(|it| it.recv().now_or_never());
            let is_away = terminal::is_in_the_background();
            is_owed |= is_away || is_continued.is_some();
            if is_away {
                // Who reads there is stopped, and who brings it to the front need not continue it once more.
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            if is_owed {
                forget_what_was_typed();
                typed.clear();
                write(&self.shown)?;
                is_owed = false;
            }
            let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut waiting, Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; 4096];
            let read = match rustix::io::read(&stdin, &mut bytes) {
                // A terminal that went away ends with an error.
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
                forget_what_was_typed();
                let line = String::from_utf8_lossy(&typed);
                return Ok(Line::Text(line.trim_end_matches(['\r', '\n']).to_owned()));
            }
        }
    }
}

impl Person for Terminal {
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
            if let Line::Text(said) = &line {
                // The terminal showed it, with the end of the line.
                self.shown.push_str(&format!("{}\n", plain_to_see(said)));
            }
            return Ok(line);
        }
        if self.is_settled.is_cancelled() {
            return Ok(Line::End);
        }
        // A line to begin with is left out where none can be edited.
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
        line_of(terminal::edited(edit))
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

/// Hears that this program goes on after it was stopped, as by Ctrl-Z. Where that cannot be heard, nothing is shown again.
#[cfg(unix)]
fn continued() -> Option<tokio::signal::unix::Signal> {
    use rustix::process::Signal;
    use tokio::signal::unix::{SignalKind, signal};

    signal(SignalKind::from_raw(Signal::CONT.as_raw())).ok()
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
