//! `neuraxis sessions delete`.

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::SessionId;
use neuraxis::core::log::describe::counted;
use neuraxis::engine::Sessions;
use neuraxis::ports::{SessionFilter, StoreError};

use crate::command::lease_progress;
use crate::command::lookup;
use crate::completion;
use crate::confirm::{can_ask_user, confirm, require_user};
use crate::error::CommandError;
use crate::output::Output;
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions delete trip
  neuraxis sessions delete --yes trip health
  neuraxis sessions delete --owner ada";

/// Delete sessions with everything that belongs to them
///
/// In a SQLite file their runs and records are overwritten, not only unlinked; PostgreSQL overwrites them eventually,
/// after a VACUUM. Copies of the log, traces and archives keep what they contain. A session with an unfinished run is
/// not deleted. At a terminal you are asked first. Elsewhere, and with `--yes`, ids must be complete, and `--owner`
/// needs `--yes`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Delete {
    /// The sessions; at a terminal, the beginnings of their ids are enough
    #[arg(value_name = "ID", required_unless_present = "owner", add = ArgValueCompleter::new(completion::sessions))]
    ids: Vec<String>,

    /// Delete every session of this owner; those with an unfinished run stay and are named
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    owner: Option<String>,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        if let Some(owner) = &self.owner {
            return self.run_for(owner, sessions).await;
        }
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

    /// Deletes the sessions of an owner. One with an unfinished run does not keep the others.
    async fn run_for(&self, owner: &str, sessions: &Sessions) -> Result<(), CommandError> {
        // All are found before the first one is deleted, so that the question says how many there are.
        let mut found = Vec::new();
        let mut each = sessions.each(SessionFilter::default().owned_by(owner));
        while let Some(session) = each.next().await? {
            found.push(session.id);
        }
        if found.is_empty() {
            return Err(CommandError::failed(anyhow!("{owner:?} owns no session")));
        }
        if !self.yes {
            require_user("add --yes; `neuraxis sessions list --owner NAME` shows what it deletes")?;
            let (count, whose) = match found.len() {
                1 => ("the session".to_owned(), "its"),
                count => (format!("all {count} sessions"), "their"),
            };
            confirm(&format!(
                "Delete {count} of {owner:?} with all {whose} runs?"
            ))?;
        }
        let mut output = Output::new();
        let mut left = 0_u64;
        for session in &found {
            let deleted = match sessions.get(session).await {
                // It was deleted while the user was asked, and another owner has the id now.
                Ok(now) if now.owner.as_deref() != Some(owner) => continue,
                Ok(_) => sessions.delete(session).await,
                Err(error) => Err(error),
            };
            match deleted {
                Ok(()) => output.line(&format!("deleted {session}"))?,
                // Another process deleted it meanwhile.
                Err(StoreError::NoSuchSession(_)) => {}
                Err(StoreError::SessionBusy { run, .. }) => {
                    progress::warn(&format!(
                        "session {session} was not deleted, because its run {run} has not ended"
                    ));
                    left += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        match left {
            0 => Ok(()),
            left => {
                let sessions = counted(left, "session");
                let error = anyhow!("{sessions} of {owner:?} could not be deleted");
                Err(CommandError::failed(error).hint(
                    "`neuraxis runs resume RUN --cancel` ends a run; then repeat the command",
                ))
            }
        }
    }
}
