//! Results in files: written while the cases run, so that what there is stays, and read to be compared with.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use neuraxis::cassette::Redactor;
use neuraxis::evals::{Comparison, Report};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::time::Instant;

use super::junit;
use crate::error::CommandError;

/// How long results are not written again while cases run: what a killed process loses at the most.
const PAUSE: Duration = Duration::from_secs(1);

/// Where results go. No secret that is known here goes with them.
#[derive(Debug)]
pub(super) struct Results {
    secrets: Redactor,
    out: Option<PathBuf>,
    junit: Option<PathBuf>,
    /// When they were written last.
    written: Option<Instant>,
}

impl Results {
    /// Looks whether the files can be written, before anything is run.
    pub(super) fn begin(
        secrets: Redactor,
        out: Option<PathBuf>,
        junit: Option<PathBuf>,
    ) -> Result<Self, CommandError> {
        for file in out.iter().chain(&junit) {
            let why = match file.is_dir() {
                true => Err(anyhow!("it is a folder")),
                // What else an error says names a file that nobody asked for.
                false => beside(file)
                    .map(drop)
                    .map_err(|error| anyhow!(error.kind())),
            };
            why.with_context(|| format!("cannot write {}", file.display()))
                .map_err(|error| {
                    CommandError::usage(error).hint("name a file in a folder that is there")
                })?;
        }
        Ok(Self {
            secrets,
            out,
            junit,
            written: None,
        })
    }

    /// Writes what there is so far, if that was not done just now. Whoever reads the file finds all of it.
    pub(super) fn keep(&mut self, report: &Report) -> Result<(), CommandError> {
        let written = self.written.as_ref();
        if written.is_some_and(|written| written.elapsed() < PAUSE) {
            return Ok(());
        }
        self.written = Some(Instant::now());
        self.write(report)
    }

    fn write(&self, report: &Report) -> Result<(), CommandError> {
        match &self.out {
            Some(file) => replace(
                file,
                &self.without_secrets(&format!("{}\n", report.to_json())),
            ),
            None => Ok(()),
        }
    }

    /// Writes all files.
    pub(super) fn finish(&self, cases: &Path, report: &Report) -> Result<(), CommandError> {
        self.write(report)?;
        let Some(file) = &self.junit else {
            return Ok(());
        };
        let xml = junit::of(&cases.display().to_string(), &self.clean(report));
        let xml = xml.context("the results cannot be written as JUnit XML")?;
        replace(file, &self.without_keys(&xml))
    }

    /// Returns the results as one JSON object.
    pub(super) fn in_json(&self, report: &Report, comparison: Option<&Comparison>) -> String {
        let mut value = json!(report);
        if let (Value::Object(value), Some(comparison)) = (&mut value, comparison) {
            value.insert("comparison".to_owned(), json!(comparison));
        }
        self.without_secrets(&format!("{value:#}"))
    }

    /// Returns the results without secrets, for a form in which a pattern would not end where a text does.
    pub(super) fn clean(&self, report: &Report) -> Report {
        let mut value = json!(report);
        each_text(&mut value, &|text: &str| self.without_secrets(text));
        // What is not read back had a pattern match its words: whoever writes it takes them out there.
        serde_json::from_value(value).unwrap_or_else(|_| report.clone())
    }

    /// Returns a text whose parts are clean without what only shows in the whole.
    pub(super) fn without_keys(&self, text: &str) -> String {
        let keys = self.secrets.clone().without_patterns();
        keys.text(text).into_owned()
    }

    fn without_secrets(&self, text: &str) -> String {
        self.secrets.text(text).into_owned()
    }
}

/// Replaces each text of a value.
fn each_text(value: &mut Value, by: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = by(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, by)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, by)),
        _ => {}
    }
}

/// Makes a file in the folder of another, which it is to replace.
fn beside(file: &Path) -> std::io::Result<NamedTempFile> {
    match file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        Some(folder) => NamedTempFile::new_in(folder),
        None => NamedTempFile::new_in("."),
    }
}

/// Replaces a file, or leaves it as it is: nobody ever reads half of it.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), CommandError> {
    let write = || {
        let mut new = beside(file)?;
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        readable(new.as_file())?;
        new.persist(file).map_err(|error| error.error)?;
        std::io::Result::Ok(())
    };
    let written = write().with_context(|| format!("cannot write {}", file.display()));
    written.map_err(|error| CommandError::failed(error).hint("name another file"))
}

/// Lets others read a file as they could if it had been made in the usual way: what collects results may be somebody else.
#[cfg(unix)]
fn readable(file: &fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_file: &fs::File) -> std::io::Result<()> {
    Ok(())
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
