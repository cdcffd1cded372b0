//! `neuraxis mcp`: the Model Context Protocol.

mod serve;

use clap::{Args, Subcommand};

use crate::error::CommandError;
use crate::setup::Setup;

/// Work with other programs over the Model Context Protocol
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
}

impl Mcp {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Command::Serve(serve) => serve.run(setup).await,
        }
    }
}
