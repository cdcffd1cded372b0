//! `neuraxis sessions`: the conversations that are kept.

mod delete;
mod export;
mod import;
mod list;
mod prune;
mod show;
mod verify;

use clap::{Args, Subcommand};

pub(super) use show::used;

use crate::error::CommandError;
use crate::setup::Setup;

/// List, show, move, check and delete the conversations that are kept
///
/// Sessions are kept where store.url says: by default in a file in your data folder. Wherever an id is asked for, the
/// beginning of it will do.
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
    Delete(delete::Delete),
    Export(export::Export),
    Import(import::Import),
    Verify(verify::Verify),
    Prune(prune::Prune),
}

impl Sessions {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let open = setup.store().await?;
        let store = open.sessions();
        let store = store.as_ref();
        let done = match self.command {
            Command::List(list) => list.run(store).await,
            Command::Show(show) => show.run(store).await,
            Command::Delete(delete) => delete.run(store).await,
            Command::Export(export) => export.run(store).await,
            Command::Import(import) => import.run(store).await,
            Command::Verify(verify) => verify.run(store).await,
            Command::Prune(prune) => prune.run(store).await,
        };
        open.close().await;
        done
    }
}
