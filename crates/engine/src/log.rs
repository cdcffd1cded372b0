//! Logs as JSON Lines: writing a log, reading it back, and replaying the run to verify that the log follows from its
//! causes.
//!
//! Not for interpreting a log: `neuraxis_core`'s projections do that from its records.

use std::fmt::Write;
use std::sync::Arc;

use neuraxis_core::{
    AgentId, InputError, LOOP_VERSION, LOOP_VERSIONS, PrefixDigest, Record, RecordBody,
    RestoreError, RunId, RunStatus, RunTree, Seq, Transcript, clip,
};
use serde_json::Value;

/// The maximum number of characters of a value that an error shows.
const MAX_SHOWN: usize = 200;

/// A line that is not a record.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is not a record: {source}")]
#[non_exhaustive]
pub struct LogError {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub source: serde_json::Error,
}

/// The result of a successful replay: the log is exactly what its causes lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// The run.
    pub run_id: RunId,
    /// The run's status at the end of the log.
    pub status: RunStatus,
    /// The number of records that were compared.
    pub records: usize,
    /// The number of steps in which they were created.
    pub steps: usize,
    /// The number of effects that were requested and not answered.
    pub open_effects: usize,
    /// The root agent's conversation at the end.
    pub messages: Transcript,
}

/// Why a log cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There is no record, or the first is not `run_started`.
    #[error("the log does not begin with run_started")]
    NoStart,
    /// A record is missing, or from another run.
    #[error("record {expected} is missing: the log continues with record {found} of run {run}")]
    Gap {
        /// The expected number.
        expected: Seq,
        /// The number that was found.
        found: Seq,
        /// The run that the record is from.
        run: RunId,
    },
    /// The log was written by a loop with other rules: it can be read, but not replayed.
    #[error(
        "the log was written by loop version {found}; this is version {ours}, which may decide differently"
    )]
    OtherVersion {
        /// The log's version.
        found: u32,
        /// This code's version.
        ours: u32,
    },
    /// The given history is not the one that the run began with.
    #[error(
        "the run began with a different history: {} messages with hash {}, not {} with hash {}",
        recorded.count, recorded.hash, given.count, given.hash
    )]
    OtherHistory {
        /// The digest of the history according to the log.
        recorded: PrefixDigest,
        /// The digest of the given history.
        given: PrefixDigest,
    },
    /// From this record on, the log is not what its causes lead to: it was changed, or the loop decides differently.
    #[error(
        "the log diverges at record {seq}, in {place}: replaying gives {expected}, the log has {found}"
    )]
    Diverged {
        /// The first record that differs.
        seq: Seq,
        /// The field that differs, as a JSON pointer; `/` for the whole record.
        place: String,
        /// What replaying gives, cut short.
        expected: String,
        /// What the log has, cut short.
        found: String,
    },
    /// A record that should be a cause is not one, or the machine refuses it.
    #[error("record {seq} cannot have caused anything{}", source.as_ref().map(|source| format!(": {source}")).unwrap_or_default())]
    Impossible {
        /// The record that should be a cause.
        seq: Seq,
        /// The machine's error.
        source: Option<InputError>,
    },
    /// The log cannot be replayed for another reason.
    #[error(transparent)]
    Restore(RestoreError),
}

/// Writes records as JSON Lines.
#[must_use]
pub fn write_log(records: &[Arc<Record>]) -> String {
    let mut text = String::new();
    for record in records {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", record.to_json());
    }
    text
}

/// Reads JSON Lines as [`write_log`] writes them. Empty lines are skipped.
///
/// ```
/// assert!(neuraxis_engine::read_log("\n")?.is_empty());
/// let error = neuraxis_engine::read_log("\n{}").unwrap_err();
/// assert_eq!(error.line, 2);
/// # Ok::<(), neuraxis_engine::LogError>(())
/// ```
///
/// # Errors
///
/// A [`LogError`] that names the first line that is no record this version knows.
pub fn read_log(text: &str) -> Result<Vec<Arc<Record>>, LogError> {
    let lines = text.lines().zip(1..);
    let lines = lines.filter(|(line, _)| !line.trim().is_empty());
    let records = lines.map(|(text, line)| {
        let record = Record::from_json(text).map_err(|source| LogError { line, source });
        record.map(Arc::new)
    });
    records.collect()
}

/// Replays a run from the history it began with and its log: feeds every cause to the machine again, and compares every
/// record with the machine's output. No model or tool is called.
///
/// # Errors
///
/// A [`ReplayError`] that says why the log cannot be replayed, or where it is not what its causes lead to.
pub fn replay(history: &Transcript, records: &[Arc<Record>]) -> Result<ReplayReport, ReplayError> {
    let run_id = check(history, records)?;
    let (tree, open) = RunTree::restore(history.clone(), records).map_err(ReplayError::from)?;
    let steps = records.iter().filter(|record| record.active_ms.is_some());
    Ok(ReplayReport {
        run_id,
        status: tree.status(),
        records: records.len(),
        steps: steps.count(),
        open_effects: open.len(),
        messages: tree.transcript_of(AgentId::ROOT),
    })
}

/// Checks for problems that would make a replay pointless, so they are reported as what they are and not as a
/// divergence.
fn check(history: &Transcript, records: &[Arc<Record>]) -> Result<RunId, ReplayError> {
    let first = records.first().ok_or(ReplayError::NoStart)?;
    let RecordBody::RunStarted(started) = &first.body else {
        return Err(ReplayError::NoStart);
    };
    if !LOOP_VERSIONS.contains(&started.loop_version) {
        return Err(ReplayError::OtherVersion {
            found: started.loop_version,
            ours: LOOP_VERSION,
        });
    }
    let given = history.digest();
    if started.history != given {
        let recorded = started.history;
        return Err(ReplayError::OtherHistory { recorded, given });
    }
    let mut expected = Seq(1);
    for record in records {
        if record.seq != expected || record.run_id != first.run_id {
            return Err(ReplayError::Gap {
                expected,
                found: record.seq,
                run: record.run_id,
            });
        }
        expected = expected.next();
    }
    Ok(first.run_id)
}

impl From<RestoreError> for ReplayError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Diverged {
                seq,
                expected,
                found,
            } => diverged(seq, &expected, &found),
            RestoreError::NoCause(seq) => Self::Impossible { seq, source: None },
            RestoreError::Refused { seq, source } => Self::Impossible {
                seq,
                source: Some(source),
            },
            other => Self::Restore(other),
        }
    }
}

/// Returns an error with the first field in which two records differ.
fn diverged(seq: Seq, expected: &str, found: &str) -> ReplayError {
    let value = |text: &str| -> Value {
        serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
    };
    let mut place = String::new();
    let (expected, found) = (value(expected), value(found));
    let (expected, found) = first_difference(Some(&expected), Some(&found), &mut place);
    ReplayError::Diverged {
        seq,
        place: if place.is_empty() {
            "/".to_owned()
        } else {
            place
        },
        expected: shown(expected),
        found: shown(found),
    }
}

fn first_difference<'a>(
    one: Option<&'a Value>,
    other: Option<&'a Value>,
    place: &mut String,
) -> (Option<&'a Value>, Option<&'a Value>) {
    match (one, other) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            let keys = ours.keys().chain(theirs.keys());
            let differs = |key: &&String| ours.get(*key) != theirs.get(*key);
            if let Some(key) = keys.into_iter().find(differs) {
                let _ = write!(place, "/{key}");
                return first_difference(ours.get(key), theirs.get(key), place);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => {
            let mut places = 0..ours.len().max(theirs.len());
            if let Some(index) = places.find(|index| ours.get(*index) != theirs.get(*index)) {
                let _ = write!(place, "/{index}");
                return first_difference(ours.get(index), theirs.get(index), place);
            }
        }
        _ => {}
    }
    (one, other)
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    clip(&text, MAX_SHOWN)
}
