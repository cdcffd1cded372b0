//! The size of the terminal, and its mode before a line editor changed it: an editor that is interrupted in the middle
//! of a line leaves the terminal without echo.
//!
//! All other changes were made by other programs, such as the shell that runs this process, and are left alone.

use std::ffi::OsStr;
use std::io::IsTerminal;
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use rustix::process::getpgrp;
#[cfg(unix)]
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use crate::wrap::USUAL_WIDTH;

/// The default height, for anything that is not a terminal or does not report it.
const USUAL_HEIGHT: usize = 24;

/// Names of terminals that can only print lines. For these, the line editor reads plain lines.
const DUMB: [&str; 3] = ["dumb", "cons25", "emacs"];

/// Tells the terminal to mark pasted text, so that its line breaks can be told from Enter.
#[cfg(unix)]
const BRACKETED_PASTE: &str = "\u{1b}[?2004h";

/// Turns off the marking of pasted text, which line editors turn on.
#[cfg(unix)]
const NO_BRACKETED_PASTE: &str = "\u{1b}[?2004l";

/// The mode of the terminal before the line that is being edited.
#[cfg(unix)]
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Returns the number of columns of the terminal behind a stream, or the usual number if unknown.
#[cfg(unix)]
pub(crate) fn width(stream: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    match columns {
        0 => USUAL_WIDTH,
        columns => columns,
    }
}

/// Returns the usual number of columns of a terminal.
#[cfg(not(unix))]
pub(crate) fn width<T>(_stream: T) -> usize {
    USUAL_WIDTH
}

/// Returns the number of columns of the terminal behind standard error. `None` without a terminal: lines of a log are
/// not wrapped.
pub(crate) fn error_columns() -> Option<usize> {
    let stderr = std::io::stderr();
    stderr.is_terminal().then(|| width(stderr))
}

/// Returns the number of rows of the terminal behind a stream, or the usual number if unknown.
#[cfg(unix)]
pub(crate) fn height(stream: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream);
    let rows = size.map_or(0, |size| usize::from(size.ws_row));
    match rows {
        0 => USUAL_HEIGHT,
        rows => rows,
    }
}

/// Returns the usual number of rows of a terminal.
#[cfg(not(unix))]
pub(crate) fn height<T>(_stream: T) -> usize {
    USUAL_HEIGHT
}

/// Returns whether the terminal can only print lines.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| is_name_of_dumb(&term))
}

fn is_name_of_dumb(term: &OsStr) -> bool {
    DUMB.iter().any(|name| term.eq_ignore_ascii_case(name))
}

/// Reads a line with an editor. Remembers the terminal's mode, which the editor restores unless it is interrupted.
pub(crate) fn read_with_editor<T>(read: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    replace_saved_mode(tcgetattr(std::io::stdin()).ok());
    let line = read();
    #[cfg(unix)]
    replace_saved_mode(None);
    line
}

/// What reads typed input next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextReader {
    /// The line editor of this program, which recognizes pasted text by its marks and reads characters instead of
    /// lines.
    Editor,
    /// Another program, such as the shell.
    Other,
}

/// Keeps typed input from appearing in the middle of output. The input is not lost: the next reader gets it.
#[derive(Debug)]
pub(crate) struct EchoGuard {
    #[cfg(unix)]
    before: Termios,
    /// Whether pasted text is marked meanwhile.
    #[cfg(unix)]
    marks_pastes: bool,
}

/// Hides typed input until the result is dropped. Returns `None` if this process does not control the terminal.
#[cfg(unix)]
pub(crate) fn disable_echo(next: NextReader) -> Option<EchoGuard> {
    use rustix::termios::LocalModes;

    if !std::io::stdout().is_terminal() || is_in_background() {
        return None;
    }
    let before = tcgetattr(std::io::stdin()).ok()?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    // Otherwise a key that sends a signal, such as Ctrl-C, makes the terminal discard what was typed before it.
    quiet.local_modes.insert(LocalModes::NOFLSH);
    let marks_pastes = next == NextReader::Editor && !is_dumb();
    if marks_pastes {
        // In line mode, a terminal drops the rest of a line that exceeds its buffer, including the mark at the end of a
        // paste.
        quiet.local_modes.remove(LocalModes::ICANON);
    }
    tcsetattr(std::io::stdin(), OptionalActions::Now, &quiet).ok()?;
    replace_saved_mode(Some(before.clone()));
    if marks_pastes {
        write_sequence(BRACKETED_PASTE);
    }
    Some(EchoGuard {
        before,
        marks_pastes,
    })
}

/// On other systems, typed input is shown.
#[cfg(not(unix))]
pub(crate) const fn disable_echo(_next: NextReader) -> Option<EchoGuard> {
    None
}

#[cfg(unix)]
impl Drop for EchoGuard {
    fn drop(&mut self) {
        replace_saved_mode(None);
        if !is_in_background() {
            if self.marks_pastes {
                write_sequence(NO_BRACKETED_PASTE);
            }
            // If the terminal is gone, there is nothing to restore.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// Sends a control sequence to the terminal behind standard output.
#[cfg(unix)]
fn write_sequence(sequence: &str) {
    use std::io::Write;

    let mut stdout = std::io::stdout();
    // If the terminal is gone, there is nothing to control.
    let _ = stdout.write_all(sequence.as_bytes());
    let _ = stdout.flush();
}

#[cfg(unix)]
fn replace_saved_mode(before: Option<Termios>) -> Option<Termios> {
    // The value is intact even if another thread panicked meanwhile.
    let mut kept = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut kept, before)
}

/// Restores the terminal's mode if an editor was interrupted.
pub(crate) fn restore() {
    #[cfg(unix)]
    if let Some(before) = replace_saved_mode(None)
        && !is_in_background()
        && let Ok(now) = tcgetattr(std::io::stdin())
        && now.local_modes != before.local_modes
    {
        use std::io::{Write, stderr};
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        let _ = writeln!(stderr(), "{NO_BRACKETED_PASTE}");
    }
}

/// Returns whether another process group has the terminal. A process that reads from it or changes it then is stopped.
#[cfg(unix)]
pub(crate) fn is_in_background() -> bool {
    // Unknown for a terminal that controls no session.
    tcgetpgrp(std::io::stdin()).is_ok_and(|group| group != getpgrp())
}

/// On other systems, background processes are not stopped.
#[cfg(not(unix))]
pub(crate) const fn is_in_background() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_line_editing_is_dumb() {
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
