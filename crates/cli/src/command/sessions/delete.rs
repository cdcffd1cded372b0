//! `neuraxis sessions delete`.

use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::SessionId;
use neuraxis::engine::Sessions;
use neuraxis::ports::StoreError;

use crate::command::lease_progress;
use crate::command::lookup;
use crate::completion;
use crate::confirm::{can_ask_user, confirm};
use crate::error::CommandError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions delete trip
  neuraxis sessions delete --yes trip health";

/// Delete sessions with everything that belongs to them
///
/// In a SQLite file their runs and records are overwritten, not only unlinked; PostgreSQL overwrites them eventually,
/// after a VACUUM. Copies of the log, traces and archives keep what they contain. A session with an unfinished run is
/// not deleted. At a terminal you are asked first. Elsewhere, and with `--yes`, ids must be complete.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Delete {
    /// The sessions; at a terminal, the beginnings of their ids are enough
    #[arg(value_name = "ID", required = true, add = ArgValueCompleter::new(completion::sessions))]
    ids: Vec<String>,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let is_asked = !self.yes && can_ask_user();
        // All are looked up before the first one is deleted.
        let mut found = Vec::new();
        for id in &self.ids {
            found.push(match is_asked {
                true => lookup::session(sessions, id).await?,
                false => lookup::named_session(sessions, id).await?,
            });
        }
        found.sort();
        found.dedup();
        if is_asked {
            let names: Vec<&str> = found.iter().map(SessionId::as_str).collect();
            let whose = if names.len() == 1 { "its" } else { "their" };
            let question = format!("Delete {} with all {whose} runs?", names.join(", "));
            confirm(&question)?;
        }
        let mut output = Output::new();
        for session in &found {
            match sessions.delete(session).await {
                Err(StoreError::SessionBusy { run, .. }) => {
                    return Err(lease_progress::busy(sessions, run).await);
                }
                deleted => deleted?,
            }
            output.line(&format!("deleted {session}"))?;
        }
        Ok(())
    }
}
