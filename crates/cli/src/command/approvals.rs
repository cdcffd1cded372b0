//! `neuraxis approvals`: decides about calls of runs that wait for approval.

mod decide;
mod list;
mod show;
mod waiting;

use clap::{Args, Subcommand};

use crate::error::CommandError;
use crate::setup::Setup;

pub(in crate::command) use waiting::in_text;

/// List the calls that wait for your approval, and decide about them
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Approve(decide::Approve),
    Deny(decide::Deny),
}

impl Approvals {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Command::List(list) => list.run(setup).await,
            Command::Show(show) => show.run(setup).await,
            Command::Approve(approve) => approve.run(setup).await,
            Command::Deny(deny) => deny.run(setup).await,
        }
    }
}
