//! Logs in files: exported sessions, and records as they are.
//!
//! Not for noticing that an exported file was changed, which importing it does: a changed log is exactly what one may
//! want to replay.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use neuraxis::core::{Record, RecordBody, SessionId, Transcript, continued_history};
use neuraxis::engine::ARCHIVE_FORMAT;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::replay::Log;
use crate::error::CommandError;
use crate::files::open_file;

/// The most bytes of a line.
const MAX_LINE_BYTES: u64 = 100 * 1024 * 1024;

/// The most bytes of a file: a few of the longest runs.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

/// What a line may be.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    /// Of a line of an exported session: its record.
    record: Option<Box<RawValue>>,
    /// Of a session: what it begins with.
    seed: Option<Transcript>,
    id: Option<SessionId>,
    /// Of a session: how its lines are written.
    format: Option<u32>,
    /// Of a live event: the record that it came after.
    after: Option<u64>,
}

/// Reads the logs of a file.
pub(super) fn read(path: &Path) -> Result<Vec<Log>, CommandError> {
    let shown = path.display();
    let file = open_file(path)?;
    let length = file.metadata().map_or(0, |about| about.len());
    if length > MAX_FILE_BYTES {
        let error = anyhow!("{shown} is longer than {MAX_FILE_BYTES} bytes");
        return Err(CommandError::failed(error).hint("import it, and replay one run at a time"));
    }
    let mut logs = Logs::default();
    let mut file = BufReader::new(file);
    for number in 1_u64.. {
        let mut line = String::new();
        let mut bounded = (&mut file).take(MAX_LINE_BYTES);
        let read = bounded.read_line(&mut line);
        let read = read.with_context(|| format!("cannot read line {number} of {shown}"))?;
        if read == 0 {
            break;
        }
        if !line.trim().is_empty() {
            let taken = logs.take(&line);
            let taken = taken.with_context(|| format!("line {number} of {shown} cannot be read"));
            taken.map_err(|error| {
                CommandError::failed(error).hint("`neuraxis sessions export` writes such a file")
            })?;
        }
    }
    if logs.open.is_some() {
        let error = anyhow!("the session is cut off: its end is missing")
            .context(format!("{shown} is not whole"));
        return Err(
            CommandError::failed(error).hint("export it again with `neuraxis sessions export`")
        );
    }
    if logs.runs.is_empty() {
        return Err(CommandError::failed(anyhow!("{shown} holds no records")));
    }
    Ok(logs.finish())
}

#[derive(Debug, Default)]
struct Logs {
    seeds: BTreeMap<SessionId, Transcript>,
    /// In the order in which they begin.
    runs: Vec<Vec<Arc<Record>>>,
    /// The exported session whose end is still to come.
    open: Option<SessionId>,
}

impl Logs {
    fn take(&mut self, text: &str) -> anyhow::Result<()> {
        let line: Line = serde_json::from_str(text)?;
        match (line.kind.as_str(), &line.record) {
            ("session", None) => {
                let format = line.format.unwrap_or_default();
                if format != ARCHIVE_FORMAT {
                    anyhow::bail!(
                        "it is written in format {format}, and this program reads format {ARCHIVE_FORMAT}"
                    );
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
            ("record", Some(record)) => Ok(self.record(record.get())?),
            _ if line.after.is_some() => Ok(()),
            _ => Ok(self.record(text)?),
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

    /// Finds out what each run goes on from: the runs of its session before it.
    fn finish(self) -> Vec<Log> {
        let mut histories = self.seeds;
        let logs = self.runs.into_iter().map(|records| {
            let Some(RecordBody::RunStarted(started)) = records.first().map(|it| &it.body) else {
                let history = Ok(Transcript::default());
                return Log { history, records };
            };
            let session = started.session_id.clone();
            let before = session.as_ref().and_then(|session| histories.get(session));
            let before = before.cloned().unwrap_or_default();
            let history = match before.digest() == started.history {
                true => Ok(before.clone()),
                false => Err(format!(
                    "it goes on from {} messages, which the file does not hold as they were",
                    started.history.count
                )),
            };
            if let Some(session) = session {
                histories.insert(session, continued_history(&before, &records));
            }
            Log { history, records }
        });
        logs.collect()
    }
}
