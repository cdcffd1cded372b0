//! `neuraxis sessions`: the stored conversations.

mod about;
mod delete;
mod export;
mod import;
mod list;
mod prune;
mod rename;
mod show;
mod verify;

use clap::{Args, Subcommand};

pub(super) use about::{about, question_of};
pub(super) use list::{MIDDLE, item};
pub(super) use prune::age;
pub(super) use rename::valid_title;
pub(super) use show::{FailedCalls, conversation, used};

use crate::error::CommandError;
use crate::setup::{Setup, with_store};

/// List, show, name, move, check and delete stored conversations
///
/// Sessions are stored where store.url says: by default in a file in your data folder. An id may be given by its
/// beginning or end, and last stands for the session of the last run.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Rename(rename::Rename),
    Delete(delete::Delete),
    Export(export::Export),
    Import(import::Import),
    Verify(verify::Verify),
    Prune(prune::Prune),
}

impl Sessions {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let keep = loaded.config.store().keep;
        let open = loaded.store().await?;
        with_store(open, async |sessions| match self.command {
            Command::List(list) => list.run(sessions).await,
            Command::Show(show) => show.run(sessions).await,
            Command::Rename(rename) => rename.run(sessions).await,
            Command::Delete(delete) => delete.run(sessions).await,
            Command::Export(export) => export.run(sessions).await,
            Command::Import(import) => import.run(sessions, keep).await,
            Command::Verify(verify) => verify.run(sessions).await,
            Command::Prune(prune) => prune.run(sessions).await,
        })
        .await
    }
}
