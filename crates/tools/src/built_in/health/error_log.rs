//! The section `errors`: the last lines of the system's error log. Only Linux has a log that can be read quickly.
//!
//! The journal is tried first; if there is none, the log files are read. Any program may have written the lines, so
//! they are cleaned and cut.

mod files;
mod journal;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use super::probe::blocking;
use super::report::Findings;
use crate::summary::{MAX_QUOTED_CHARS, count, one_line};

/// The maximum number of lines that are shown, the latest last.
const ERROR_LOG_MAX_LINES: usize = 20;
/// The maximum length of a line that is shown in full, in characters.
const ERROR_LOG_MAX_LINE_CHARS: usize = 500;

/// Where errors are logged.
#[derive(Debug, Clone)]
pub(super) struct ErrorLog {
    journal_program: OsString,
    files: Vec<PathBuf>,
}

impl Default for ErrorLog {
    fn default() -> Self {
        Self {
            journal_program: journal_program().into(),
            files: vec!["/var/log/syslog".into(), "/var/log/messages".into()],
        }
    }
}

/// Returns the path of the journal's program, or its usual path. Relative elements of the search path are ignored, so
/// that a program of that name in the current folder is not run.
fn journal_program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut places = folders.map(|folder| folder.join("journalctl"));
    let there = places.find(|place| place.exists());
    there.unwrap_or_else(|| "/usr/bin/journalctl".into())
}

impl ErrorLog {
    /// Reads the latest lines, or returns why there is nothing to read.
    pub(super) async fn read(self) -> Result<ErrorLines, String> {
        if !cfg!(target_os = "linux") {
            let viewer = if cfg!(windows) {
                "the Event Viewer"
            } else {
                "the Console app"
            };
            return Err(format!(
                "the error log is only read on Linux; use {viewer} instead"
            ));
        }
        match journal::read(&self.journal_program).await {
            Ok(text) => Ok(ErrorLines::new("the system journal".to_owned(), &text)),
            Err(no_journal) => {
                let files = self.files;
                blocking(move || files::read(&files))
                    .await
                    .map_err(|no_files| format!("{no_journal}; {no_files}"))
            }
        }
    }
}

/// The latest lines of the error log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ErrorLines {
    source: String,
    lines: Vec<String>,
}

impl ErrorLines {
    /// Keeps the last lines of a text.
    fn new(source: String, text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let mut latest: Vec<_> = lines
            .rev()
            .take(ERROR_LOG_MAX_LINES)
            .map(|line| one_line(line, ERROR_LOG_MAX_LINE_CHARS))
            .collect();
        latest.reverse();
        Self {
            source,
            lines: latest,
        }
    }
}

impl Findings for ErrorLines {
    fn summary(&self) -> String {
        match self.lines.last() {
            None => format!("no errors in {}", self.source),
            Some(latest) => {
                let lines = count(self.lines.len() as u64, "error line", "error lines");
                format!(
                    "{lines} in {}, the latest: {}",
                    self.source,
                    one_line(latest, MAX_QUOTED_CHARS)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
