//! `neuraxis sessions delete`.

use clap::Args;
use neuraxis::SessionId;
use neuraxis::ports::{SessionStore, StoreError};

use crate::command::{held, lookup};
use crate::confirm::{Unattended, confirm};
use crate::error::CommandError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions delete trip
  neuraxis sessions delete --yes 0199f3a1 0199f3a2";

/// Delete sessions with everything that belongs to them
///
/// Their runs and records are overwritten, not just forgotten. A session with a run that has not ended stays. At a terminal
/// you are asked first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Delete {
    /// The sessions, or the beginnings of their ids
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub(super) async fn run(self, store: &dyn SessionStore) -> Result<(), CommandError> {
        // All are found before the first one goes.
        let mut sessions = Vec::new();
        for id in &self.ids {
            sessions.push(lookup::session(store, id).await?);
        }
        sessions.sort();
        sessions.dedup();
        if !self.yes {
            let names: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
            let question = format!("Delete {} with all its runs?", names.join(", "));
            confirm(&question, Unattended::GoOn)?;
        }
        let mut output = Output::new();
        for session in &sessions {
            match store.delete_session(session).await {
                Err(StoreError::SessionBusy { run, .. }) => {
                    return Err(held::busy(store, run).await);
                }
                deleted => deleted?,
            }
            output.line(&format!("deleted {session}"))?;
        }
        Ok(())
    }
}
