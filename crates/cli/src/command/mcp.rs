//! `neuraxis mcp`: the MCP servers whose tools are used, and this program as a server; one subcommand per file.

mod add;
mod edit;
mod list;
mod remove;
mod serve;
mod shown;
mod test;
mod trust;

use clap::{Args, Subcommand};

pub(super) use edit::Edited;

use crate::error::CommandError;
use crate::setup::Setup;

/// Use MCP servers, or be one: list, add, remove, test, trust, serve
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Add(Box<add::Add>),
    Remove(remove::Remove),
    Test(test::Test),
    Trust(trust::Trust),
    Serve(serve::Serve),
}

impl Mcp {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Command::List(list) => list.run(setup),
            Command::Add(add) => add.run(setup),
            Command::Remove(remove) => remove.run(setup),
            Command::Test(test) => test.run(setup).await,
            Command::Trust(trust) => trust.run(setup).await,
            Command::Serve(serve) => serve.run(setup).await,
        }
    }
}
