//! Standard error: what is going on, for whoever watches, and what everybody should know.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstyle::{AnsiColor, Style};
use neuraxis_app::without_secrets;

use crate::detail::Detail;
use crate::harmless::one_line;
use crate::status::Status;
use crate::terminal;
use crate::wrap::broken;

const DIM: Style = Style::new().dimmed();

/// What stands before what a line of ours goes on with below.
const MARGIN: &str = "  ";

/// What is going on, wherever that is shown from: whatever else is written goes above it.
static SHOWN: Mutex<Option<Status>> = Mutex::new(None);

/// Tells about the work: with a line for what is going on and one for each step done where somebody watches, otherwise not at
/// all. Dropped, it shows nothing any more.
#[derive(Debug)]
pub(crate) struct Progress {
    audience: Audience,
    /// Whether what is shown is its own: what others show is not for it to take away.
    is_shown: AtomicBool,
}

/// Who reads standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Somebody at a terminal.
    Watcher,
    /// Somebody at a terminal that knows nothing but lines, and a log that is to hold each step.
    Reader,
    /// A log, or nobody.
    Log,
}

impl Audience {
    /// Looks who reads, where so much is wanted.
    fn of(detail: Detail) -> Self {
        let is_terminal = io::stderr().is_terminal();
        match detail {
            Detail::Quiet => Self::Log,
            Detail::Usual | Detail::Verbose if is_terminal && !terminal::is_dumb() => Self::Watcher,
            Detail::Usual if !is_terminal => Self::Log,
            Detail::Usual | Detail::Verbose => Self::Reader,
        }
    }

    fn hear_done(self, what: &str) {
        if self != Self::Log {
            // It may hold a command to be copied, which is broken by nobody but the terminal.
            print(&format!("{DIM}{}{DIM:#}\n", one_line(what)));
        }
    }
}

impl Progress {
    /// Tells as much as whoever reads standard error wants to know.
    pub(crate) fn new() -> Self {
        Self::telling(Detail::Usual)
    }

    /// Tells so much: nothing if little is wanted, and each step wherever it goes if much is.
    pub(crate) fn telling(detail: Detail) -> Self {
        Self {
            audience: Audience::of(detail),
            is_shown: AtomicBool::new(false),
        }
    }

    /// Shows what is going on now.
    pub(crate) fn activity(&self, what: &str) {
        self.activity_over(what, &[]);
    }

    /// Shows what is going on now, and below it the last lines of what it prints.
    pub(crate) fn activity_over(&self, what: &str, below: &[String]) {
        if self.audience == Audience::Watcher {
            self.is_shown.store(true, Ordering::Relaxed);
            let mut shown = shown();
            let status = shown.get_or_insert_with(|| Status::new(what));
            status.set(what, below);
        }
    }

    /// Shows nothing until the next activity, so that the terminal is free for other text.
    pub(crate) fn hide(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            *shown() = None;
        }
    }

    /// Says that a step is done, to whoever watches.
    pub(crate) fn done(&self, what: &str) {
        self.audience.hear_done(what);
    }

    /// Says something in a style of its own, to whoever watches. What is in it is harmless, and its lines fit.
    pub(crate) fn show(&self, text: &str) {
        if self.audience != Audience::Log {
            print(text);
        }
    }

    /// Tells whether somebody reads more than warnings.
    pub(crate) fn is_read(&self) -> bool {
        self.audience != Audience::Log
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Shows nothing any more, for a process that ends at once: one that is writing at this very moment is not waited for.
pub(crate) fn end() {
    if let Ok(mut shown) = SHOWN.try_lock() {
        *shown = None;
    }
}

/// Says that a step is done, to whoever watches.
pub(crate) fn done(what: &str) {
    Audience::of(Detail::Usual).hear_done(what);
}

/// Says something that everybody should know.
pub(crate) fn warn(what: &str) {
    const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    let what = one_line(&without_secrets(what));
    tell(&format!("{WARNING}warning{WARNING:#}: {what}"));
}

/// Says something that everybody should know before it begins.
pub(crate) fn notice(what: &str) {
    const NOTICE: Style = AnsiColor::Cyan.on_default().bold();
    let what = one_line(&without_secrets(what));
    tell(&format!("{NOTICE}note{NOTICE:#}: {what}"));
}

/// Writes a line, broken between words where a terminal shows it.
fn tell(line: &str) {
    let line = match terminal::error_columns() {
        Some(columns) => broken(line, columns, MARGIN),
        None => line.to_owned(),
    };
    print(&format!("{line}\n"));
}

fn print(text: &str) {
    // Nobody is there to be told that standard error cannot be written.
    let print = || drop(write!(anstream::stderr(), "{text}"));
    match &*shown() {
        Some(status) => status.above(print),
        None => print(),
    }
}

fn shown() -> MutexGuard<'static, Option<Status>> {
    // What is kept here is whole, whoever panicked meanwhile.
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_nothing_takes_nothing_away_that_others_show() {
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
