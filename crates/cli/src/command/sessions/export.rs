//! `neuraxis sessions export`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use neuraxis::SessionId;
use neuraxis::engine::export_session;
use neuraxis::ports::{SessionFilter, SessionStore};

use crate::command::lookup;
use crate::error::CommandError;
use crate::output::Output;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions export trip > trip.jsonl
  neuraxis sessions export --all --output backup.jsonl
  neuraxis sessions export trip | jq -c 'select(.type == \"record\").record'";

/// Write sessions as JSON Lines
///
/// One line describes the session, one line stands for each record, and one ends it; each holds where the hash chain
/// stands, so that `neuraxis sessions import` notices what was changed. docs/sessions.md describes every line.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Export {
    /// The sessions, or the beginnings of their ids
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,

    /// Export every session
    #[arg(long, conflicts_with = "ids")]
    all: bool,

    /// Write to this new file, which only you may read, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub(super) async fn run(self, store: &dyn SessionStore) -> Result<(), CommandError> {
        let mut sessions = Vec::new();
        for id in &self.ids {
            sessions.push(lookup::session(store, id).await?);
        }
        let Some(path) = &self.output else {
            return print(store, &sessions).await;
        };
        let mut out = BufWriter::new(create(path)?);
        let written = write(store, &sessions, &mut out, Onto::File(path)).await;
        let flushed =
            |out: &mut BufWriter<File>| out.flush().and_then(|()| out.get_ref().sync_all());
        let finished = match written {
            Ok(count) => flushed(&mut out)
                .map(|()| count)
                .map_err(|error| Onto::File(path).failed(error)),
            Err(error) => Err(error),
        };
        match finished {
            Ok(count) => tell(count),
            Err(error) => {
                // A file that ends in the middle is good for nothing.
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }
}

/// Writes to standard output: harmless where a terminal shows it, to the byte elsewhere.
async fn print(store: &dyn SessionStore, sessions: &[SessionId]) -> Result<(), CommandError> {
    let mut output = Output::new();
    if output.is_terminal() {
        let mut text = Vec::new();
        let count = write(store, sessions, &mut text, Onto::Output).await?;
        output.text(&String::from_utf8_lossy(&text))?;
        return tell(count);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let count = write(store, sessions, &mut out, Onto::Output).await?;
    out.flush()?;
    tell(count)
}

/// Where it goes.
#[derive(Debug, Clone, Copy)]
enum Onto<'a> {
    Output,
    File(&'a Path),
}

impl Onto<'_> {
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

/// Writes the sessions that are named, or else all of them.
async fn write(
    store: &dyn SessionStore,
    named: &[SessionId],
    out: &mut impl Write,
    onto: Onto<'_>,
) -> Result<usize, CommandError> {
    let mut count = 0;
    for session in named {
        one(store, session, out, onto).await?;
        count += 1;
    }
    if !named.is_empty() {
        return Ok(count);
    }
    let mut filter = SessionFilter::default();
    loop {
        let page = store.sessions(&filter).await?;
        let Some(last) = page.last() else {
            return Ok(count);
        };
        filter = filter.after(last);
        for session in &page {
            one(store, &session.id, out, onto).await?;
            count += 1;
        }
    }
}

async fn one(
    store: &dyn SessionStore,
    session: &SessionId,
    out: &mut impl Write,
    onto: Onto<'_>,
) -> Result<(), CommandError> {
    let exported = export_session(store, session, out).await;
    exported.map_err(|error| onto.failed(error))??;
    let runs = store.runs(session).await?;
    if let Some(open) = runs.iter().find(|run| !run.status.is_ended()) {
        let run = open.run_id;
        Progress::new().warn(&format!(
            "run {run} has not ended: the file holds it as far as it has come"
        ));
    }
    Ok(())
}

fn create(path: &Path) -> Result<File, CommandError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path);
    let file = file.with_context(|| format!("cannot make {}", path.display()));
    file.map_err(|error| {
        CommandError::usage(error).hint("name a new file in a folder that is there")
    })
}

fn tell(count: usize) -> Result<(), CommandError> {
    match count {
        0 => Err(CommandError::failed(anyhow!("there are no sessions"))),
        1 => Ok(()),
        count => {
            Progress::new().done(&format!("{count} sessions"));
            Ok(())
        }
    }
}
