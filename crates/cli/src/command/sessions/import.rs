//! `neuraxis sessions import`.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Seek};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use neuraxis::core::log::describe::counted;
use neuraxis::engine::{
    ArchiveError, ArchivedSession, HeldRun, ImportError, ImportedSession, Sessions, SystemClock,
    UnfinishedRuns,
};
use neuraxis::ports::Clock;

use crate::arguments::open_file;
use crate::command::lease_progress::LeaseProgress;
use crate::error::CommandError;
use crate::output::Output;
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions import trip.jsonl
  ssh other neuraxis sessions export --all | neuraxis sessions import -";

/// Store sessions that were exported
///
/// The whole file is checked first, line by line, and nothing of a damaged file is stored. Sessions and runs keep their
/// ids. A session that already exists unchanged is skipped, and one whose beginning exists is completed; a different
/// session with the same id is a conflict. So an interrupted import can be repeated.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Import {
    /// The file; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Also accept unfinished runs. They can be resumed here: make sure that they are not resumed anywhere else
    #[arg(long)]
    unfinished: bool,
}

impl Import {
    /// Imports the sessions. Servers keep sessions for `keep`, if that is configured.
    pub(super) async fn run(
        self,
        sessions: &Sessions,
        keep: Option<Duration>,
    ) -> Result<(), CommandError> {
        let unfinished = match self.unfinished {
            true => UnfinishedRuns::Taken,
            false => UnfinishedRuns::Refused,
        };
        let mut progress = LeaseProgress::default();
        let pause = async |held: &HeldRun| progress.pause(held).await.map_err(Failure::Waiting);
        let imported = sessions.import(&mut self.open()?, unfinished, pause).await;
        let imported = imported.map_err(|failure| match failure {
            Failure::Waiting(error) => error,
            Failure::Import(error) => self.failed(error),
        })?;
        // The status would be where the output goes.
        drop(progress);
        let mut output = Output::new();
        for ImportedSession {
            session, was_there, ..
        } in &imported
        {
            let ArchivedSession { id, runs, head, .. } = session;
            if *was_there {
                output.line(&format!("{id}: already present and identical"))?;
                continue;
            }
            let (runs, records) = (counted(*runs, "run"), counted(head.records, "record"));
            let hash = head.hash;
            output.line(&format!("{id}: {runs}, {records}, head {hash}"))?;
        }
        match keep {
            Some(keep) => warn_of_old(sessions, &imported, keep).await,
            None => Ok(()),
        }
    }

    /// Returns the error for an import that failed completely or in part.
    fn failed(&self, error: ImportError) -> CommandError {
        match error {
            ImportError::Archive(_) | ImportError::Empty => {
                let name = match self.file.as_os_str() == "-" {
                    true => "standard input".to_owned(),
                    false => self.file.display().to_string(),
                };
                let hint = match &error {
                    ImportError::Archive(ArchiveError { fault, .. }) if fault.may_be_newer() => {
                        "nothing was imported; a newer version of neuraxis may have written it: import it with that \
                         version"
                    }
                    _ => "nothing was imported; export the sessions again",
                };
                let error = anyhow::Error::new(error);
                let error = error.context(format!("cannot import {name}"));
                CommandError::failed(error).hint(hint)
            }
            ImportError::Conflict(ref id) => {
                let hint = format!(
                    "save the existing session with `neuraxis sessions export {id}`, delete it with `neuraxis \
                     sessions delete {id}`, and import again"
                );
                CommandError::failed(error).hint(hint)
            }
            ImportError::Unfinished { .. } => CommandError::failed(error)
                .hint("let it end and export it again, or add --unfinished to resume it here"),
            ImportError::Check(error) => error.into(),
            ImportError::Held(error) => error.into(),
            error => CommandError::failed(error),
        }
    }

    /// Opens the file. Standard input is copied to a temporary file, since it is read twice.
    fn open(&self) -> Result<File, CommandError> {
        if self.file.as_os_str() != "-" {
            return open_file(&self.file);
        }
        let mut aside =
            tempfile::tempfile().context("cannot buffer standard input in a temporary file")?;
        io::copy(&mut io::stdin().lock(), &mut aside).context("cannot read standard input")?;
        aside.rewind().context("cannot read standard input")?;
        Ok(aside)
    }
}

/// Warns of sessions that servers will soon delete: the time of their last activity counts, not that of the import.
async fn warn_of_old(
    sessions: &Sessions,
    imported: &[ImportedSession],
    keep: Duration,
) -> Result<(), CommandError> {
    // The period reaches back beyond the earliest time, so no session is older.
    let Ok(before) = SystemClock.now().checked_sub(keep) else {
        return Ok(());
    };
    let idle = sessions.idle_since(before).await?;
    let idle: HashSet<_> = idle.into_iter().map(|session| session.id).collect();
    let ids = imported.iter().map(|imported| &imported.session.id);
    for id in ids.filter(|id| idle.contains(*id)) {
        progress::warn(&format!(
            "{id} has been idle for longer than store.keep, so a server deletes it within the hour; to keep it, raise \
             or remove store.keep before a server runs"
        ));
    }
    Ok(())
}

/// Why an import ended.
enum Failure {
    /// The import failed.
    Import(ImportError),
    /// The command no longer waits for a run that another process holds.
    Waiting(CommandError),
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::Import(error)
    }
}
