//! `neuraxis tools`: lists and calls tools, without a model.

mod call;
mod list;

pub(crate) use call::unknown_tool;
use clap::{Args, Subcommand};
pub(crate) use list::in_text;

use crate::error::CommandError;
use crate::setup::Setup;

/// List the tools, or call one
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Tools {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Call(call::Call),
}

impl Tools {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Command::List(list) => list.run(setup).await,
            Command::Call(call) => call.run(setup).await,
        }
    }
}
