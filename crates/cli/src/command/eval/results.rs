//! Results in files: written while the cases run, so that what there is stays, and read to be compared with.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use neuraxis::cassette::Redactor;
use neuraxis::evals::{Comparison, Report};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::junit;
use crate::destination::{Destination, Readers};
use crate::error::CommandError;

/// How long results are not written again while cases run: what a killed process loses at the most.
const PAUSE: Duration = Duration::from_secs(1);

/// Where results go. No secret that is known here goes with them.
#[derive(Debug)]
pub(super) struct Results {
    secrets: Redactor,
    out: Option<Destination>,
    junit: Option<Destination>,
    /// When they were written last.
    written: Option<Instant>,
    /// Whether there are some that were not written yet.
    is_behind: bool,
}

impl Results {
    /// Looks whether the files can be written, before anything is run. None of them is one that is read, or recorded to: those
    /// are given with what they are.
    pub(super) fn begin(
        secrets: Redactor,
        others: &[(&Path, &str)],
        (out, junit): (Option<&Path>, Option<&Path>),
    ) -> Result<Self, CommandError> {
        let out = out.map(destination).transpose()?;
        let junit = junit.map(destination).transpose()?;
        let is_replaced = |path: &Path| {
            let file = Destination::of(path).ok();
            file.is_some() && (file == out || file == junit)
        };
        let replaced = others.iter().find(|(path, _)| is_replaced(path));
        let wrong = match replaced {
            Some((_, what)) => Some(format!("the results would replace {what}")),
            None if out.is_some() && out == junit => {
                Some("--out and --junit name the same file".to_owned())
            }
            None => None,
        };
        match wrong {
            Some(wrong) => Err(CommandError::usage(anyhow!(wrong)).hint("name another file")),
            None => Ok(Self {
                secrets,
                out,
                junit,
                written: None,
                is_behind: false,
            }),
        }
    }

    /// Takes what there is after an attempt, and writes it if that was not done just now. Whoever reads the file finds all
    /// of it.
    pub(super) fn keep(&mut self, report: &Report) -> Result<(), CommandError> {
        self.is_behind = true;
        let written = self.written.as_ref();
        match written.is_some_and(|written| written.elapsed() < PAUSE) {
            true => Ok(()),
            false => self.catch_up(report),
        }
    }

    /// Writes what there is and was not written yet.
    pub(super) fn catch_up(&mut self, report: &Report) -> Result<(), CommandError> {
        if !std::mem::take(&mut self.is_behind) {
            return Ok(());
        }
        self.written = Some(Instant::now());
        match &self.out {
            // Whatever else it is takes one result.
            Some(file @ Destination::File(_)) => self.write(file, &self.clean(report)),
            _ => Ok(()),
        }
    }

    fn write(&self, file: &Destination, report: &Report) -> Result<(), CommandError> {
        let text = format!("{}\n", report.to_json());
        write(file, &self.without_keys(&text))
    }

    /// Writes all files, of results that are [clean](Self::clean).
    pub(super) fn finish(&self, cases: &Path, report: &Report) -> Result<(), CommandError> {
        if let Some(file) = &self.out {
            self.write(file, report)?;
        }
        let Some(file) = &self.junit else {
            return Ok(());
        };
        let xml = junit::of(&cases.display().to_string(), report);
        let xml = xml.context("the results cannot be written as JUnit XML")?;
        write(file, &self.without_keys(&xml))
    }

    /// Returns results that are [clean](Self::clean) as one JSON object.
    pub(super) fn in_json(&self, report: &Report, comparison: Option<&Comparison>) -> String {
        let mut value = json!(report);
        if let (Value::Object(value), Some(comparison)) = (&mut value, comparison) {
            value.insert("comparison".to_owned(), json!(comparison));
        }
        self.without_keys(&format!("{value:#}"))
    }

    /// Returns the results without secrets: in what the cases, models and tools say. Ids, times and what else programs read
    /// stay as they are, whatever a pattern matches.
    pub(super) fn clean(&self, report: &Report) -> Report {
        let clean = |text: &mut String| *text = self.secrets.text(text).into_owned();
        let mut report = report.clone();
        for case in &mut report.cases {
            clean(&mut case.name);
            for attempt in &mut case.attempts {
                attempt.error.iter_mut().for_each(clean);
                attempt.answer.iter_mut().for_each(clean);
                for check in &mut attempt.checks {
                    clean(&mut check.check);
                    check.message.iter_mut().for_each(clean);
                }
            }
        }
        report
    }

    /// Returns a text whose parts are clean without what only shows in the whole.
    pub(super) fn without_keys(&self, text: &str) -> String {
        let keys = self.secrets.clone().without_patterns();
        keys.text(text).into_owned()
    }
}

/// Finds where a file is to be written, and looks whether it can be.
pub(super) fn destination(file: &Path) -> Result<Destination, CommandError> {
    let found = match file.is_dir() {
        true => Err(anyhow!("it is a folder")),
        // What else an error says names a file that nobody asked for.
        false => Destination::of(file)
            .and_then(|found| found.check().map(|()| found))
            .map_err(|error| anyhow!(error.kind())),
    };
    found
        .with_context(|| format!("cannot write {}", file.display()))
        .map_err(|error| CommandError::usage(error).hint("name a file in a folder that is there"))
}

/// Writes a file, which others may read as far as the umask lets them: what collects results may be somebody else.
pub(super) fn write(file: &Destination, text: &str) -> Result<(), CommandError> {
    let written = file.write(text, Readers::All);
    let written = written.with_context(|| format!("cannot write {}", file.path().display()));
    written.map_err(|error| CommandError::failed(error).hint("name another file"))
}

/// Reads the results that are to be compared with.
pub(super) fn earlier(file: &Path) -> Result<Report, CommandError> {
    let wrong = |error: anyhow::Error| {
        let error = error.context(format!("cannot compare with {}", file.display()));
        CommandError::usage(error).hint("name a file that --out wrote")
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(error.into()))?;
    Report::from_json(&text).map_err(|error| wrong(error.into()))
}
