//! How wide and how high the terminal is, and how it was before a line editor changed it: one that is cut off in the middle of a line leaves it without echo.
//!
//! Whatever else is found changed was changed by somebody else, such as the shell that this process runs under.

use std::ffi::OsStr;
use std::io::IsTerminal;
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use rustix::process::getpgrp;
#[cfg(unix)]
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use crate::wrap::USUAL_WIDTH;

/// The height that is assumed of what is not a terminal, or does not say.
const USUAL_HEIGHT: usize = 24;

/// Names of terminals that know nothing but lines. They are those for which the line editor reads plain lines.
const DUMB: [&str; 3] = ["dumb", "cons25", "emacs"];

/// Has the terminal mark pasted text, so that its line breaks are told from Enter.
#[cfg(unix)]
const BRACKETED_PASTE: &str = "\u{1b}[?2004h";

/// Ends what line editors switch on: pasted text is marked no more.
#[cfg(unix)]
const NO_BRACKETED_PASTE: &str = "\u{1b}[?2004l";

/// How the terminal was before the line that is being edited.
#[cfg(unix)]
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Returns how many columns the terminal behind a stream has, or those that are usual where there is none that says.
#[cfg(unix)]
pub(crate) fn width(stream: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    match columns {
        0 => USUAL_WIDTH,
        columns => columns,
    }
}

/// Returns how many columns a terminal usually has.
#[cfg(not(unix))]
pub(crate) fn width<T>(_stream: T) -> usize {
    USUAL_WIDTH
}

/// Returns how many columns the terminal behind standard error has; none where there is no terminal: a log gets each line whole.
pub(crate) fn error_columns() -> Option<usize> {
    let stderr = std::io::stderr();
    stderr.is_terminal().then(|| width(stderr))
}

/// Returns how many rows the terminal behind a stream has, or those that are usual where there is none that says.
#[cfg(unix)]
pub(crate) fn height(stream: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream);
    let rows = size.map_or(0, |size| usize::from(size.ws_row));
    match rows {
        0 => USUAL_HEIGHT,
        rows => rows,
    }
}

/// Returns how many rows a terminal usually has.
#[cfg(not(unix))]
pub(crate) fn height<T>(_stream: T) -> usize {
    USUAL_HEIGHT
}

/// Tells whether the terminal knows nothing but lines.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| is_name_of_dumb(&term))
}

fn is_name_of_dumb(term: &OsStr) -> bool {
    DUMB.iter().any(|name| term.eq_ignore_ascii_case(name))
}

/// Reads a line with an editor, which makes the terminal what it was unless it is cut off.
pub(crate) fn edited<T>(read: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    note(tcgetattr(std::io::stdin()).ok());
    let line = read();
    #[cfg(unix)]
    note(None);
    line
}

/// Who reads what is typed while nobody reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextReader {
    /// Our line editor, which knows pasted text by its marks, and reads letters and not lines.
    Editor,
    /// Another program, such as the shell.
    Other,
}

/// Keeps what is typed from showing up in the middle of what is written. It is not lost: whoever reads next gets it.
#[derive(Debug)]
pub(crate) struct Unechoed {
    #[cfg(unix)]
    before: Termios,
    /// Pasted text is marked meanwhile.
    #[cfg(unix)]
    marks_pastes: bool,
}

/// Begins to keep what is typed from showing, until that is dropped. Nothing where the terminal is not ours.
#[cfg(unix)]
pub(crate) fn unechoed(next: NextReader) -> Option<Unechoed> {
    use rustix::termios::LocalModes;

    if !std::io::stdout().is_terminal() || is_in_the_background() {
        return None;
    }
    let before = tcgetattr(std::io::stdin()).ok()?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    // A key that sends a signal, such as Ctrl-C, would have the terminal throw away what was typed before it.
    quiet.local_modes.insert(LocalModes::NOFLSH);
    let marks_pastes = next == NextReader::Editor && !is_dumb();
    if marks_pastes {
        // Of a line that is longer than it holds, a terminal that gathers lines drops the rest, the mark at its end included.
        quiet.local_modes.remove(LocalModes::ICANON);
    }
    tcsetattr(std::io::stdin(), OptionalActions::Now, &quiet).ok()?;
    note(Some(before.clone()));
    if marks_pastes {
        tell(BRACKETED_PASTE);
    }
    Some(Unechoed {
        before,
        marks_pastes,
    })
}

/// Elsewhere, what is typed shows.
#[cfg(not(unix))]
pub(crate) const fn unechoed(_next: NextReader) -> Option<Unechoed> {
    None
}

#[cfg(unix)]
impl Drop for Unechoed {
    fn drop(&mut self) {
        note(None);
        if !is_in_the_background() {
            if self.marks_pastes {
                tell(NO_BRACKETED_PASTE);
            }
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// Tells the terminal behind standard output what to do.
#[cfg(unix)]
fn tell(sequence: &str) {
    use std::io::Write;

    let mut stdout = std::io::stdout();
    // A terminal that is gone does nothing any more.
    let _ = stdout.write_all(sequence.as_bytes());
    let _ = stdout.flush();
}

#[cfg(unix)]
fn note(before: Option<Termios>) -> Option<Termios> {
    // What is kept here is whole, whoever panicked meanwhile.
    let mut kept = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut kept, before)
}

/// Makes the terminal what it was, if an editor was cut off.
pub(crate) fn restore() {
    #[cfg(unix)]
    if let Some(before) = note(None)
        && !is_in_the_background()
        && let Ok(now) = tcgetattr(std::io::stdin())
        && now.local_modes != before.local_modes
    {
        use std::io::{Write, stderr};
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        let _ = writeln!(stderr(), "{NO_BRACKETED_PASTE}");
    }
}

/// Tells whether others have the terminal: who reads from it or changes it all the same is stopped.
#[cfg(unix)]
pub(crate) fn is_in_the_background() -> bool {
    // Of a terminal that controls no session, this cannot be said.
    tcgetpgrp(std::io::stdin()).is_ok_and(|group| group != getpgrp())
}

/// Elsewhere, nothing is stopped.
#[cfg(not(unix))]
pub(crate) const fn is_in_the_background() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_for_which_lines_cannot_be_edited_is_dumb() {
        for (term, expected) in [
            ("dumb", true),
            ("emacs", true),
            ("CONS25", true),
            ("xterm-256color", false),
            ("dumb-color", false),
            ("", false),
        ] {
            assert_eq!(is_name_of_dumb(OsStr::new(term)), expected, "{term:?}");
        }
    }
}
