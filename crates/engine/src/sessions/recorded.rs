//! Runs for replay: from the store, or from a file with an export or a stream of events.
//!
//! Not for detecting that an exported file was altered, which importing does: an altered log may be exactly what a user
//! wants to replay.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use neuraxis_core::{
    LOOP_VERSION, LOOP_VERSIONS, Record, RunId, SessionId, Transcript, continued_history,
};
use neuraxis_ports::StoreError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Sessions;
use super::archive::{ARCHIVE_FORMAT, MAX_LINE_BYTES};
use crate::log::{ReplayError, ReplayReport, replay};

/// The records of a run, and the messages that it continued from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedRun {
    /// All of its records, in order.
    pub records: Vec<Arc<Record>>,
    /// The messages that the run continued from when it began; or why they are unknown.
    pub history: Result<Transcript, String>,
}

/// Why a replay did not reproduce the log of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayFailure {
    /// The run cannot be replayed, whatever its log holds. The text says why.
    #[error("{0}")]
    Impossible(String),
    /// Replaying the causes gives a different result.
    #[error(transparent)]
    Differs(ReplayError),
}

impl RecordedRun {
    /// Returns the run's id; `None` if it has no records.
    #[must_use]
    pub fn run_id(&self) -> Option<RunId> {
        self.records.first().map(|first| first.run_id)
    }

    /// Passes every recorded cause to the loop again, and compares every record with the one that the loop creates. No
    /// model is called and no tool is run.
    ///
    /// # Errors
    ///
    /// A [`ReplayFailure`] with the first difference, or the reason why the run cannot be replayed.
    pub fn replay(&self) -> Result<ReplayReport, ReplayFailure> {
        if let Some(why) = cannot_be_replayed(&self.records) {
            return Err(ReplayFailure::Impossible(why));
        }
        let history = match &self.history {
            Ok(history) => history,
            Err(why) => return Err(ReplayFailure::Impossible(why.clone())),
        };
        replay(history, &self.records).map_err(|error| match error {
            ReplayError::OtherVersion { .. } | ReplayError::OtherHistory { .. } => {
                ReplayFailure::Impossible(error.to_string())
            }
            error => ReplayFailure::Differs(error),
        })
    }
}

impl Sessions {
    /// Returns a run and the messages that it continued from.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::Damaged`] if its records cannot be read.
    pub async fn recorded_run(&self, run: RunId) -> Result<RecordedRun, StoreError> {
        let records = self.records(run).await?;
        // If content is withheld, the history does not lead to the recorded one either.
        let history = match cannot_be_replayed(&records) {
            Some(why) => Err(why),
            None => {
                let history = self.history_before(run).await;
                history.map_err(|error| error.to_string())
            }
        };
        Ok(RecordedRun { records, history })
    }
}

/// Returns why a log cannot be replayed whatever it holds; `None` if it can.
fn cannot_be_replayed(records: &[Arc<Record>]) -> Option<String> {
    let started = records.first()?.run_started()?;
    if !LOOP_VERSIONS.contains(&started.loop_version) {
        let found = started.loop_version;
        return Some(format!(
            "it was recorded by loop version {found}; this is version {LOOP_VERSION}, which may decide differently"
        ));
    }
    let withheld = started.spec.withheld()?;
    Some(format!(
        "the data policy withheld {withheld}: the log contains only hashes instead, which cannot be replayed"
    ))
}

/// Why no logs could be read from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogFileError {
    /// The file cannot be read.
    #[error("line {line} cannot be read")]
    Io {
        /// The line number, starting at 1.
        line: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// A line is not one that such a file may contain.
    #[error("line {line} is not a record")]
    Line {
        /// The line number, starting at 1.
        line: u64,
        /// The parse error.
        source: serde_json::Error,
    },
    /// The file was exported by a version with a different format.
    #[error("it is written in format {found}; this program reads format {ARCHIVE_FORMAT}")]
    OtherFormat {
        /// The number of the line that says so, starting at 1.
        line: u64,
        /// The format of the file.
        found: u32,
    },
    /// The file ends in the middle of a session.
    #[error("the session is cut off: its end is missing")]
    CutOff,
    /// The file contains no record.
    #[error("it contains no records")]
    Empty,
}

/// The possible content of a line.
#[derive(Debug, Deserialize)]
struct LogLine {
    #[serde(rename = "type")]
    kind: String,
    /// In a line of an exported session: its record.
    record: Option<Box<RawValue>>,
    /// In a session line: the messages that the session begins with.
    seed: Option<Transcript>,
    id: Option<SessionId>,
    /// In a session line: the format of its lines.
    format: Option<u32>,
    /// In a live event: the record that it came after.
    after: Option<u64>,
}

/// Reads the runs of a file, in the order in which they begin. The file holds exported sessions, or records and live
/// events as they were streamed. All of it is read into memory.
///
/// # Errors
///
/// A [`LogFileError`] that names the first line that cannot be read.
pub fn read_log_file(mut file: impl BufRead) -> Result<Vec<RecordedRun>, LogFileError> {
    let mut logs = Logs::default();
    for number in 1_u64.. {
        let mut line = String::new();
        let mut bounded = (&mut file).take(MAX_LINE_BYTES);
        let read = bounded.read_line(&mut line);
        let read = read.map_err(|source| LogFileError::Io {
            line: number,
            source,
        })?;
        if read == 0 {
            break;
        }
        if !line.trim().is_empty() {
            logs.add(&line, number)?;
        }
    }
    if logs.open.is_some() {
        return Err(LogFileError::CutOff);
    }
    if logs.runs.is_empty() {
        return Err(LogFileError::Empty);
    }
    Ok(logs.finish())
}

#[derive(Debug, Default)]
struct Logs {
    seeds: BTreeMap<SessionId, Transcript>,
    /// The runs, in the order in which they begin.
    runs: Vec<Vec<Arc<Record>>>,
    /// The exported session whose end has not been read yet.
    open: Option<SessionId>,
}

impl Logs {
    fn add(&mut self, text: &str, number: u64) -> Result<(), LogFileError> {
        let failed = |source| LogFileError::Line {
            line: number,
            source,
        };
        let line: LogLine = serde_json::from_str(text).map_err(failed)?;
        match (line.kind.as_str(), &line.record) {
            ("session", None) => {
                let found = line.format.unwrap_or_default();
                if found != ARCHIVE_FORMAT {
                    let line = number;
                    return Err(LogFileError::OtherFormat { line, found });
                }
                let seed = line.seed.unwrap_or_default();
                self.open.clone_from(&line.id);
                self.seeds.extend(line.id.map(|id| (id, seed)));
                Ok(())
            }
            ("session_end", None) => {
                self.open = None;
                Ok(())
            }
            ("record", Some(record)) => self.record(record.get()).map_err(failed),
            _ if line.after.is_some() => Ok(()),
            _ => self.record(text).map_err(failed),
        }
    }

    fn record(&mut self, text: &str) -> Result<(), serde_json::Error> {
        let record = Record::from_json(text)?;
        let is_same = |run: &&mut Vec<Arc<Record>>| {
            run.first()
                .is_some_and(|first| first.run_id == record.run_id)
        };
        match self.runs.iter_mut().rev().find(is_same) {
            Some(run) => run.push(Arc::new(record)),
            None => self.runs.push(vec![Arc::new(record)]),
        }
        Ok(())
    }

    /// Determines what each run continues from: the earlier runs of its session.
    fn finish(self) -> Vec<RecordedRun> {
        let mut histories = self.seeds;
        let runs = self.runs.into_iter().map(|records| {
            let Some(started) = records.first().and_then(|first| first.run_started()) else {
                let history = Ok(Transcript::default());
                return RecordedRun { records, history };
            };
            let session = started.session_id.clone();
            let before = session.as_ref().and_then(|session| histories.get(session));
            let before = before.cloned().unwrap_or_default();
            let history = match before.digest() == started.history {
                true => Ok(before.clone()),
                false => Err(format!(
                    "it continues from {} messages that the file does not contain in their original form",
                    started.history.count
                )),
            };
            if let Some(session) = session {
                histories.insert(session, continued_history(&before, &records));
            }
            RecordedRun { records, history }
        });
        runs.collect()
    }
}
