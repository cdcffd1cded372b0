//! `neuraxis config`: the configuration.

mod init;
mod show;

use clap::{Args, Subcommand};

use crate::error::CommandError;
use crate::setup::Setup;

/// Show the configuration, or create a file for it
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Show),
    Init(init::Init),
}

impl Config {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Command::Show(show) => show.run(setup),
            Command::Init(init) => init.run(setup),
        }
    }
}
