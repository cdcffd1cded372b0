//! `neuraxis sessions export`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::SessionId;
use neuraxis::core::log::describe::counted;
use neuraxis::engine::{ExportError, Exported, Sessions};
use neuraxis::ports::{SessionFilter, StoreError};

use crate::command::lookup;
use crate::completion;
use crate::destination::create_new;
use crate::error::CommandError;
use crate::output::Output;
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions export trip > trip.jsonl
  neuraxis sessions export --all --output backup.jsonl
  neuraxis sessions export trip | jq -c 'select(.type == \"record\").record'";

/// Write sessions as JSON Lines
///
/// One line describes the session, one line stands for each record, and one ends the session. Each contains the state
/// of the hash chain, so that `neuraxis sessions import` detects changes. `neuraxis help sessions` describes every
/// line. Long results of tools are in it only as models read them: `neuraxis runs output` prints them whole.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Export {
    /// The sessions, or the beginnings of their ids
    #[arg(value_name = "ID", required_unless_present_any = ["all", "owner"], add = ArgValueCompleter::new(completion::sessions))]
    ids: Vec<String>,

    /// Export every session
    #[arg(long, conflicts_with = "ids")]
    all: bool,

    /// Export every session of this owner
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    owner: Option<String>,

    /// Write to this new file, readable only by you, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let mut named = Vec::new();
        for id in &self.ids {
            named.push(lookup::session(sessions, id).await?);
        }
        let others = SessionFilter::default();
        let others = match self.owner {
            Some(owner) => others.owned_by(owner),
            None => others,
        };
        let Some(path) = &self.output else {
            return print(sessions, &named, others).await?.report();
        };
        let mut out = BufWriter::new(create(path)?);
        let written = write(sessions, &named, others, &mut out, ExportTarget::File(path)).await;
        let flushed =
            |out: &mut BufWriter<File>| out.flush().and_then(|()| out.get_ref().sync_all());
        let finished = match written {
            Ok(written) => flushed(&mut out)
                .map(|()| written)
                .map_err(|error| ExportTarget::File(path).failed(error)),
            Err(error) => Err(error),
        };
        match finished {
            Ok(written) => {
                if written.count > 0 {
                    let sessions = counted(written.count, "session");
                    progress::notice(&format!("wrote {sessions} to {}", path.display()));
                } else {
                    // An empty file could be mistaken for a backup.
                    let _ = fs::remove_file(path);
                }
                written.report()
            }
            Err(error) => {
                // A truncated file is useless.
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }
}

/// Writes to standard output: harmless text on a terminal, and unchanged bytes elsewhere.
async fn print(
    sessions: &Sessions,
    named: &[SessionId],
    others: SessionFilter,
) -> Result<ExportCount, CommandError> {
    let mut output = Output::new();
    if output.is_terminal() {
        let mut text = Vec::new();
        let written = write(sessions, named, others, &mut text, ExportTarget::Output).await?;
        output.text(&String::from_utf8_lossy(&text))?;
        return Ok(written);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(sessions, named, others, &mut out, ExportTarget::Output).await?;
    out.flush()?;
    Ok(written)
}

/// The destination of an archive.
#[derive(Debug, Clone, Copy)]
enum ExportTarget<'a> {
    Output,
    File(&'a Path),
}

impl ExportTarget<'_> {
    fn refused(self, error: ExportError) -> CommandError {
        match error {
            ExportError::Output(error) => self.failed(error),
            ExportError::Store(error) => error.into(),
            error => CommandError::failed(error),
        }
    }

    fn failed(self, error: io::Error) -> CommandError {
        match self {
            Self::Output => error.into(),
            Self::File(path) => {
                let error = anyhow::Error::new(error);
                CommandError::failed(error.context(format!("cannot write {}", path.display())))
            }
        }
    }
}

/// The number of sessions written.
#[derive(Debug, Default)]
struct ExportCount {
    count: u64,
    /// The number of long results of tools that are not written whole.
    shortened: u64,
    /// The number of sessions left out because they are damaged.
    damaged: u64,
}

impl ExportCount {
    fn add(&mut self, exported: Exported) {
        self.count += 1;
        self.shortened = self.shortened.saturating_add(exported.shortened);
    }

    fn report(&self) -> Result<(), CommandError> {
        if self.shortened > 0 {
            let results = counted(self.shortened, "long result");
            let are = if self.shortened == 1 { "is" } else { "are" };
            progress::warn(&format!(
                "{results} of tools {are} exported only as models read them: `neuraxis runs output RUN` lists and prints them whole"
            ));
        }
        match (self.count, self.damaged) {
            (0, 0) => Err(CommandError::failed(anyhow!("there are no sessions"))),
            (1, 0) => Ok(()),
            (count, 0) => {
                progress::done(&format!("{count} sessions"));
                Ok(())
            }
            (count, damaged) => {
                let all = count.saturating_add(damaged);
                let sessions = if all == 1 { "session" } else { "sessions" };
                let what = match damaged {
                    1 => "is damaged and was not written",
                    _ => "are damaged and were not written",
                };
                let error = anyhow!("{damaged} of {all} {sessions} {what}");
                Err(CommandError::failed(error)
                    .hint("`neuraxis doctor --offline` checks the file itself"))
            }
        }
    }
}

/// Writes the named sessions, or else all `others` except damaged ones, which are reported.
async fn write(
    sessions: &Sessions,
    named: &[SessionId],
    others: SessionFilter,
    out: &mut impl Write,
    target: ExportTarget<'_>,
) -> Result<ExportCount, CommandError> {
    let mut written = ExportCount::default();
    for session in named {
        let exported = sessions.export(session, out).await;
        let exported = exported.map_err(|error| target.refused(error))?;
        warn_unfinished(exported);
        written.add(exported);
    }
    if !named.is_empty() {
        return Ok(written);
    }
    let mut each = sessions.each(others);
    while let Some(session) = each.next().await? {
        // Buffered until it is complete, so that a session deleted meanwhile is left out.
        let mut text = Vec::new();
        let exported = match sessions.export(&session.id, &mut text).await {
            Ok(exported) => exported,
            Err(ExportError::Store(StoreError::NoSuchSession(_))) => continue,
            // A damaged session does not prevent a backup of the others.
            Err(ExportError::Store(StoreError::Damaged(why))) => {
                let id = &session.id;
                progress::warn(&format!(
                    "session {id} is damaged and was not written: {why}"
                ));
                written.damaged += 1;
                continue;
            }
            Err(error) => return Err(target.refused(error)),
        };
        warn_unfinished(exported);
        out.write_all(&text).map_err(|error| target.failed(error))?;
        written.add(exported);
    }
    Ok(written)
}

/// Prints a notice about a session with an unfinished run.
fn warn_unfinished(exported: Exported) {
    if let Some(run) = exported.unfinished {
        progress::warn(&format!(
            "run {run} has not ended: the file holds only its records so far"
        ));
    }
}

fn create(path: &Path) -> Result<File, CommandError> {
    let file = create_new(path);
    let file = file.with_context(|| format!("cannot create {}", path.display()));
    file.map_err(|error| CommandError::usage(error).hint("name a new file in an existing folder"))
}
