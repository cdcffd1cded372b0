//! `neuraxis policy`: shows what the policy decides, without acting on it.

mod case;
mod check;
mod explain;
mod table;

use clap::{Args, Subcommand};

use crate::error::CommandError;
use crate::setup::Setup;

/// Explain what the policy decides, and check or test a policy
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(explain::Explain),
    Check(check::Check),
    Test(case::Test),
}

impl Policy {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Command::Explain(explain) => explain.run(setup).await,
            Command::Check(check) => check.run(setup),
            Command::Test(test) => test.run(setup).await,
        }
    }
}
