//! Standard error: progress for a user who watches, and warnings and notices for everyone.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstyle::{AnsiColor, Style};
use neuraxis_app::without_secrets;

use crate::detail::Detail;
use crate::harmless::one_line;
use crate::status::Status;
use crate::terminal;
use crate::wrap::{broken, with_whole_word};

const DIM: Style = Style::new().dimmed();

/// The indentation of continuation lines.
const MARGIN: &str = "  ";

/// The current status, whichever [`Progress`] shows it: all other output goes above it.
static SHOWN: Mutex<Option<Status>> = Mutex::new(None);

/// Reports progress: a status line and a line for each completed step if a user watches, otherwise nothing. Hides its
/// status when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    audience: Audience,
    /// Whether this value shows the current status. It must not hide a status shown by another.
    is_shown: AtomicBool,
}

/// The reader of standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// A user at a terminal.
    Watcher,
    /// A user at a terminal that can only print lines, or a log that should contain each step.
    Reader,
    /// A log, or no reader.
    Log,
}

impl Audience {
    /// Determines the reader, for this level of detail.
    fn of(detail: Detail) -> Self {
        let is_terminal = io::stderr().is_terminal();
        match detail {
            Detail::Quiet => Self::Log,
            Detail::Usual | Detail::Verbose if is_terminal && !terminal::is_dumb() => Self::Watcher,
            Detail::Usual if !is_terminal => Self::Log,
            Detail::Usual | Detail::Verbose => Self::Reader,
        }
    }

    fn print_done(self, what: &str) {
        if self != Self::Log {
            // The line may hold a command to be copied, so it is not wrapped here.
            print(&format!("{DIM}{}{DIM:#}\n", one_line(what)));
        }
    }
}

impl Progress {
    /// Reports with the usual level of detail.
    pub(crate) fn new() -> Self {
        Self::with_detail(Detail::Usual)
    }

    /// Reports with this level of detail: nothing if quiet, and each step, even to a log, if verbose.
    pub(crate) fn with_detail(detail: Detail) -> Self {
        Self {
            audience: Audience::of(detail),
            is_shown: AtomicBool::new(false),
        }
    }

    /// Sets the current activity.
    pub(crate) fn activity(&self, what: &str) {
        self.activity_over(what, &[]);
    }

    /// Sets the current activity, with the last lines of its output below it.
    pub(crate) fn activity_over(&self, what: &str, below: &[String]) {
        if self.audience == Audience::Watcher {
            self.is_shown.store(true, Ordering::Relaxed);
            let mut shown = shown();
            let status = shown.get_or_insert_with(|| Status::new(what));
            status.set(what, below);
        }
    }

    /// Hides the status until the next activity, so that other text can be written.
    pub(crate) fn hide(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            *shown() = None;
        }
    }

    /// Reports a completed step to a user who watches.
    pub(crate) fn done(&self, what: &str) {
        self.audience.print_done(what);
    }

    /// Prints text that is already styled, harmless and wrapped, to a user who watches.
    pub(crate) fn show(&self, text: &str) {
        if self.audience != Audience::Log {
            print(text);
        }
    }

    /// Returns whether more than warnings is printed.
    pub(crate) fn is_read(&self) -> bool {
        self.audience != Audience::Log
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Hides the status before the process ends immediately. Does not wait for a thread that is writing at this moment.
pub(crate) fn end() {
    if let Ok(mut shown) = SHOWN.try_lock() {
        *shown = None;
    }
}

/// Reports a completed step to a user who watches.
pub(crate) fn done(what: &str) {
    Audience::of(Detail::Usual).print_done(what);
}

/// Prints a warning for everyone.
pub(crate) fn warn(what: &str) {
    const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    let what = one_line(&without_secrets(what));
    print_wrapped(&format!("{WARNING}warning{WARNING:#}: {what}"));
}

/// Prints a notice for everyone, before work begins.
pub(crate) fn notice(what: &str) {
    print_wrapped(&notice_line(what));
}

/// Prints a notice that contains an id, which can be copied whole from a terminal of any width.
pub(crate) fn notice_with_id(what: &str, id: &str) {
    let line = notice_line(what);
    let line = match terminal::error_columns() {
        Some(columns) => with_whole_word(&line, id, columns, MARGIN),
        None => line,
    };
    print(&format!("{line}\n"));
}

fn notice_line(what: &str) -> String {
    const NOTICE: Style = AnsiColor::Cyan.on_default().bold();
    let what = one_line(&without_secrets(what));
    format!("{NOTICE}note{NOTICE:#}: {what}")
}

/// Writes a line, wrapped between words if a terminal shows it.
fn print_wrapped(line: &str) {
    let line = match terminal::error_columns() {
        Some(columns) => broken(line, columns, MARGIN),
        None => line.to_owned(),
    };
    print(&format!("{line}\n"));
}

fn print(text: &str) {
    // If standard error cannot be written, there is nowhere to report that.
    let print = || drop(write!(anstream::stderr(), "{text}"));
    match &*shown() {
        Some(status) => status.above(print),
        None => print(),
    }
}

fn shown() -> MutexGuard<'static, Option<Status>> {
    // The value is intact even if another thread panicked meanwhile.
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_that_shows_nothing_hides_no_progress_of_others() {
        let watched = || Progress {
            audience: Audience::Watcher,
            is_shown: AtomicBool::new(false),
        };
        let (busy, idle) = (watched(), watched());
        busy.activity("working");
        drop(idle);
        assert!(shown().is_some());
        busy.hide();
        assert!(shown().is_none());
        busy.activity("working on");
        end();
        assert!(shown().is_none());
    }
}
