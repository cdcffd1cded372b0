//! `neuraxis sessions import`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use neuraxis::SessionId;
use neuraxis::engine::{
    ArchiveEntry, ArchiveReader, ArchivedSession, ImportError, check_archive, import_archive,
};
use neuraxis::ports::{ChainHead, SessionStore, StoreError};

use crate::command::held::Patience;
use crate::error::CommandError;
use crate::files::open_file;
use crate::output::Output;
use crate::wording::counted;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions import trip.jsonl
  ssh other neuraxis sessions export --all | neuraxis sessions import -";

/// Keep sessions that were exported
///
/// The whole file is checked first, line by line; nothing is kept of one that is damaged. Sessions and runs keep their
/// ids. One that is here already, just the same, is left alone, and one of which the beginning is here is completed;
/// another one under the same id is a conflict. So an import that was cut off is just made again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Import {
    /// The file; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Take runs that have not ended, too. They can be taken up here: make sure that nobody else goes on with them
    #[arg(long)]
    unfinished: bool,
}

impl Import {
    pub(super) async fn run(self, store: &dyn SessionStore) -> Result<(), CommandError> {
        let name = match self.file.as_os_str() == "-" {
            true => "standard input".to_owned(),
            false => self.file.display().to_string(),
        };
        let damaged = |error: anyhow::Error| {
            let error = error.context(format!("{name} cannot be imported"));
            CommandError::failed(error).hint("nothing was kept; export the sessions once more")
        };
        let mut file = self.open()?;
        let sessions = check_archive(ArchiveReader::new(BufReader::new(&file)));
        let sessions = sessions.map_err(|error| damaged(error.into()))?;
        if sessions.is_empty() {
            return Err(damaged(anyhow!("it holds no session")));
        }
        let Here { known, parts } = self.check(store, &sessions).await?;
        file.rewind().context("cannot read the file again")?;
        if let Some(other) = parts_of_others(&file, parts) {
            return Err(conflict(&other));
        }
        let mut patience = Patience::default();
        loop {
            file.rewind().context("cannot read the file again")?;
            let archive = ArchiveReader::new(BufReader::new(&file));
            match import_archive(store, archive, |id| !known.contains(id)).await {
                Err(ImportError::Store {
                    source: StoreError::SessionBusy { run, .. },
                    ..
                }) => patience.wait(store, run).await?,
                imported => break imported.map_err(CommandError::failed)?,
            }
        }
        let mut output = Output::new();
        for session in &sessions {
            let ArchivedSession { id, runs, head, .. } = session;
            if known.contains(id) {
                output.line(&format!("{id}: here already, just the same"))?;
                continue;
            }
            store.verify(id, Some(head.hash)).await?;
            let (runs, records) = (counted(*runs, "run"), counted(head.records, "record"));
            let hash = head.hash;
            output.line(&format!("{id}: {runs}, {records}, head {hash}"))?;
        }
        Ok(())
    }

    /// Opens the file. What comes from standard input is kept aside, since it is read twice.
    fn open(&self) -> Result<File, CommandError> {
        if self.file.as_os_str() != "-" {
            return open_file(&self.file);
        }
        let mut aside = tempfile::tempfile().context("cannot keep standard input aside")?;
        io::copy(&mut io::stdin().lock(), &mut aside).context("cannot read standard input")?;
        aside.rewind().context("cannot read standard input")?;
        Ok(aside)
    }

    /// Makes sure that the store can take the sessions, and returns those that it has, whole or in part.
    async fn check(
        &self,
        store: &dyn SessionStore,
        sessions: &[ArchivedSession],
    ) -> Result<Here, CommandError> {
        let mut here = Here::default();
        let mut seen = BTreeSet::new();
        for session in sessions {
            let id = &session.id;
            if !seen.insert(id) {
                let error = anyhow!("the file holds session {id} twice");
                return Err(CommandError::failed(error));
            }
            match store.verify(id, None).await {
                Err(StoreError::NoSuchSession(_)) => {}
                Ok(head) if head == session.head => {
                    here.known.insert(id.clone());
                    continue;
                }
                Ok(head) if head.records < session.head.records => {
                    here.parts.insert(id.clone(), head);
                }
                Ok(_) | Err(StoreError::Damaged(_)) => return Err(conflict(id)),
                Err(error) => return Err(error.into()),
            }
            if let (Some(run), false) = (session.unfinished, self.unfinished) {
                let error = anyhow!("run {run} of session {id} has not ended");
                return Err(CommandError::failed(error).hint(
                    "let it end and export it again, or add --unfinished to go on with it here",
                ));
            }
        }
        Ok(here)
    }
}

/// What the store has of the sessions of a file.
#[derive(Debug, Default)]
struct Here {
    /// Those that it has just the same.
    known: BTreeSet<SessionId>,
    /// Where those end that may be the beginning of what the file holds.
    parts: BTreeMap<SessionId, ChainHead>,
}

/// Returns a session that is not the beginning of what the file holds under its id, if there is one.
fn parts_of_others(file: &File, mut parts: BTreeMap<SessionId, ChainHead>) -> Option<SessionId> {
    let mut archive = ArchiveReader::new(BufReader::new(file));
    let mut session = None;
    // The file was read to its end before.
    while let (false, Ok(Some(entry))) = (parts.is_empty(), archive.next_entry()) {
        if let ArchiveEntry::Session(begun) = &entry {
            session = Some(begun.id.clone());
        }
        if let Some(id) = &session
            && archive.head().is_some()
            && parts.get(id) == archive.head().as_ref()
        {
            parts.remove(id);
        }
    }
    parts.into_keys().next()
}

fn conflict(id: &SessionId) -> CommandError {
    let error = anyhow!("another session {id} is here: nothing was imported");
    CommandError::failed(error).hint(format!(
        "keep that one with `neuraxis sessions export {id}`, remove it with `neuraxis sessions delete {id}`, and import again"
    ))
}
