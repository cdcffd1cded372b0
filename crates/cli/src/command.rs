//! The commands, one a file.

mod agents;
mod approvals;
mod ask;
mod chat;
mod config;
mod doctor;
mod lease_progress;
mod lookup;
mod mcp;
pub(crate) mod models;
mod policy;
mod runs;
mod sessions;
mod stats;
mod tools;
mod trust;

use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

const COMPLETIONS: &str = "\
Examples:
  neuraxis completions bash > ~/.local/share/bash-completion/completions/neuraxis
  neuraxis completions fish > ~/.config/fish/completions/neuraxis.fish";

/// What the program is asked to do: a subcommand with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ask(ask::Ask),
    Chat(chat::Chat),
    Approvals(approvals::Approvals),
    Sessions(sessions::Sessions),
    Runs(runs::Runs),
    Stats(stats::Stats),
    Tools(tools::Tools),
    Agents(agents::Agents),
    Mcp(mcp::Mcp),
    Policy(policy::Policy),
    Models(models::Models),
    Doctor(doctor::Doctor),
    Config(config::Config),
    Trust(trust::Trust),
    Completions(Completions),
}

/// Does what the user wants.
pub(crate) async fn run(arguments: Arguments) -> Result<(), CommandError> {
    let setup = Setup::new(arguments.configuration);
    match arguments.command {
        Command::Ask(ask) => ask.run(&setup).await,
        Command::Chat(chat) => chat.run(&setup).await,
        Command::Approvals(approvals) => approvals.run(&setup).await,
        Command::Sessions(sessions) => sessions.run(&setup).await,
        Command::Runs(runs) => runs.run(&setup).await,
        Command::Stats(stats) => stats.run(&setup).await,
        Command::Agents(agents) => agents.run(&setup),
        Command::Tools(tools) => tools.run(&setup).await,
        Command::Mcp(mcp) => mcp.run(&setup).await,
        Command::Policy(policy) => policy.run(&setup).await,
        Command::Models(models) => models.run(&setup).await,
        Command::Doctor(doctor) => doctor.run(&setup).await,
        Command::Config(config) => config.run(&setup),
        Command::Trust(trust) => trust.run(&setup),
        Command::Completions(completions) => completions.run(),
    }
}

/// Print what a shell needs to complete commands and flags
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    fn run(self) -> Result<(), CommandError> {
        let mut script = Vec::new();
        let mut command = Arguments::command();
        clap_complete::generate(self.shell, &mut command, "neuraxis", &mut script);
        Output::new().text(&String::from_utf8_lossy(&script))?;
        Ok(())
    }
}
