//! Standard error: what is going on, for whoever watches, and what everybody should know.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};

use crate::harmless::one_line;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// Tells about the work: with a spinner and a line for each step done where somebody watches, otherwise only warnings.
#[derive(Debug)]
pub(crate) struct Progress {
    audience: Audience,
    spinner: Option<ProgressBar>,
}

/// Who reads standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Somebody at a terminal.
    Watcher,
    /// A log, or nobody.
    Log,
}

impl Progress {
    /// Tells as much as whoever reads standard error wants to know.
    pub(crate) fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let audience = if io::stderr().is_terminal() && !is_dumb {
            Audience::Watcher
        } else {
            Audience::Log
        };
        Self {
            audience,
            spinner: None,
        }
    }

    /// Shows what is going on now.
    pub(crate) fn activity(&mut self, what: &str) {
        if self.audience == Audience::Watcher {
            let spinner = self.spinner.get_or_insert_with(spinner);
            spinner.set_message(one_line(what));
        }
    }

    /// Shows nothing until the next activity, so that the terminal is free for other text.
    pub(crate) fn hide(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    /// Says that a step is done, to whoever watches.
    pub(crate) fn done(&self, what: &str) {
        const DIM: Style = Style::new().dimmed();
        if self.audience == Audience::Watcher {
            self.print(&format!("{DIM}{}{DIM:#}", one_line(what)));
        }
    }

    /// Says something that everybody should know.
    pub(crate) fn warn(&self, what: &str) {
        const WARNING: Style = AnsiColor::Yellow.on_default().bold();
        self.print(&format!("{WARNING}warning{WARNING:#}: {}", one_line(what)));
    }

    /// Says something that everybody should know before it begins.
    pub(crate) fn notice(&self, what: &str) {
        const NOTICE: Style = AnsiColor::Cyan.on_default().bold();
        self.print(&format!("{NOTICE}note{NOTICE:#}: {}", one_line(what)));
    }

    fn print(&self, line: &str) {
        // Nobody is there to be told that standard error cannot be written.
        let print = || drop(writeln!(anstream::stderr(), "{line}"));
        match &self.spinner {
            Some(spinner) => spinner.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(TICK);
    spinner
}
