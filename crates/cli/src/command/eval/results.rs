//! Results in files: written while the cases run, so that partial results are kept, and read for comparison.

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

/// The minimum time between two writes while cases run: the most that is lost if the process is killed.
const PAUSE: Duration = Duration::from_secs(1);

/// The destinations of results. Known secrets are removed.
#[derive(Debug)]
pub(super) struct Results {
    secrets: Redactor,
    out: Option<Destination>,
    junit: Option<Destination>,
    /// When results were last written.
    written: Option<Instant>,
    /// Whether some results have not been written yet.
    is_behind: bool,
}

impl Results {
    /// Checks whether the files can be written, before anything runs. They must not be files that are read or recorded
    /// to: `others` lists these with what they are.
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

    /// Handles the results after an attempt: writes them, unless that was done a moment ago. Readers of the file always
    /// see complete results.
    pub(super) fn update(&mut self, report: &Report) -> Result<(), CommandError> {
        self.is_behind = true;
        let written = self.written.as_ref();
        match written.is_some_and(|written| written.elapsed() < PAUSE) {
            true => Ok(()),
            false => self.flush(report),
        }
    }

    /// Writes results that have not been written yet.
    pub(super) fn flush(&mut self, report: &Report) -> Result<(), CommandError> {
        if !std::mem::take(&mut self.is_behind) {
            return Ok(());
        }
        self.written = Some(Instant::now());
        match &self.out {
            // Anything other than a file is written only once, at the end.
            Some(file @ Destination::File(_)) => self.write(file, &self.clean(report)),
            _ => Ok(()),
        }
    }

    fn write(&self, file: &Destination, report: &Report) -> Result<(), CommandError> {
        let text = format!("{}\n", report.to_json());
        write(file, &self.without_keys(&text))
    }

    /// Writes all files. The results must be [clean](Self::clean).
    pub(super) fn finish(&self, cases: &Path, report: &Report) -> Result<(), CommandError> {
        if let Some(file) = &self.out {
            self.write(file, report)?;
        }
        let Some(file) = &self.junit else {
            return Ok(());
        };
        let xml = junit::of(&cases.display().to_string(), report);
        let xml = xml.context("cannot write the results as JUnit XML")?;
        write(file, &self.without_keys(&xml))
    }

    /// Returns results as one JSON object. They must be [clean](Self::clean).
    pub(super) fn in_json(&self, report: &Report, comparison: Option<&Comparison>) -> String {
        let mut value = json!(report);
        if let (Value::Object(value), Some(comparison)) = (&mut value, comparison) {
            value.insert("comparison".to_owned(), json!(comparison));
        }
        self.without_keys(&format!("{value:#}"))
    }

    /// Returns the results with secrets removed from the text of cases, models and tools. Ids, times and other data for
    /// programs stay unchanged, even if a pattern matches them.
    pub(super) fn clean(&self, report: &Report) -> Report {
        let clean = |text: &mut String| *text = self.secrets.text(text).into_owned();
        let mut report = report.clone();
        for case in &mut report.cases {
            clean(&mut case.name);
            for attempt in &mut case.attempts {
                attempt.error.iter_mut().for_each(clean);
                attempt.answer.iter_mut().for_each(clean);
                attempt.models.iter_mut().for_each(clean);
                for check in &mut attempt.checks {
                    clean(&mut check.check);
                    check.message.iter_mut().for_each(clean);
                }
            }
        }
        report
    }

    /// Removes known secrets that are only visible in the whole text, after its parts were cleaned.
    pub(super) fn without_keys(&self, text: &str) -> String {
        let keys = self.secrets.clone().without_patterns();
        keys.text(text).into_owned()
    }
}

/// Resolves the path of an output file, and checks whether it can be written.
pub(super) fn destination(file: &Path) -> Result<Destination, CommandError> {
    let found = match file.is_dir() {
        true => Err(anyhow!("it is a folder")),
        // The full error names a temporary file that the user does not know.
        false => Destination::of(file)
            .and_then(|found| found.check().map(|()| found))
            .map_err(|error| anyhow!(error.kind())),
    };
    found
        .with_context(|| format!("cannot write {}", file.display()))
        .map_err(|error| CommandError::usage(error).hint("name a file in an existing folder"))
}

/// Writes a file that others may read, as the umask allows: results may be collected by another user.
pub(super) fn write(file: &Destination, text: &str) -> Result<(), CommandError> {
    let written = file.write(text, Readers::All);
    let written = written.with_context(|| format!("cannot write {}", file.path().display()));
    written.map_err(|error| CommandError::failed(error).hint("name another file"))
}

/// Reads earlier results; `purpose` says what for, as in `cannot compare with now.json`.
pub(super) fn earlier(file: &Path, purpose: &str) -> Result<Report, CommandError> {
    let wrong = |error: anyhow::Error| {
        let error = error.context(format!("cannot {purpose} {}", file.display()));
        CommandError::usage(error).hint("name a file that --out wrote")
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(error.into()))?;
    Report::from_json(&text).map_err(|error| wrong(error.into()))
}
