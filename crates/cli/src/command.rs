//! The commands, one per file.

mod agents;
mod approvals;
mod ask;
mod chat;
mod choice;
mod config;
mod doctor;
mod eval;
mod help;
mod last_run;
mod lease_progress;
mod lookup;
mod mcp;
pub(crate) mod models;
mod policy;
mod project;
mod prompts;
mod runs;
mod sessions;
mod setup;
mod stats;
mod tools;
mod trust;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::completion;
use crate::error::CommandError;
use crate::glyphs::Stream;
use crate::output::Output;
use crate::setup::Setup;

const COMPLETIONS: &str = "\
Examples:
  neuraxis completions bash > ~/.local/share/bash-completion/completions/neuraxis
  neuraxis completions fish > ~/.config/fish/completions/neuraxis.fish";

/// The subcommand to run, with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ask(ask::Ask),
    Chat(chat::Chat),
    #[command(name = "setup")]
    SetUp(setup::SetUp),
    Approvals(approvals::Approvals),
    Sessions(sessions::Sessions),
    Runs(runs::Runs),
    Stats(stats::Stats),
    Tools(tools::Tools),
    Agents(agents::Agents),
    Mcp(mcp::Mcp),
    Policy(policy::Policy),
    Eval(eval::Eval),
    Models(models::Models),
    Doctor(doctor::Doctor),
    Config(config::Config),
    Trust(trust::Trust),
    Help(help::Help),
    Completions(Completions),
}

impl Command {
    /// Returns the stream on which the command draws.
    pub(crate) const fn stream(&self) -> Stream {
        match self {
            Self::Ask(_) | Self::Chat(_) | Self::SetUp(_) => Stream::Errors,
            _ => Stream::Output,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<(), CommandError> {
    let setup = Setup::new(arguments.configuration);
    match arguments.command {
        Command::Ask(ask) => ask.run(&setup).await,
        Command::Chat(chat) => chat.run(&setup).await,
        Command::SetUp(set_up) => set_up.run(&setup).await,
        Command::Approvals(approvals) => approvals.run(&setup).await,
        Command::Sessions(sessions) => sessions.run(&setup).await,
        Command::Runs(runs) => runs.run(&setup).await,
        Command::Stats(stats) => stats.run(&setup).await,
        Command::Agents(agents) => agents.run(&setup),
        Command::Tools(tools) => tools.run(&setup).await,
        Command::Mcp(mcp) => mcp.run(&setup).await,
        Command::Policy(policy) => policy.run(&setup).await,
        Command::Eval(eval) => eval.run(&setup).await,
        Command::Models(models) => models.run(&setup).await,
        Command::Doctor(doctor) => doctor.run(&setup).await,
        Command::Config(config) => config.run(&setup),
        Command::Trust(trust) => trust.run(&setup),
        Command::Help(help) => help.run(),
        Command::Completions(completions) => completions.run(),
    }
}

/// Print the script that lets a shell complete commands, flags and values such as session ids
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    fn run(self) -> Result<(), CommandError> {
        let script = completion::registration(self.shell);
        let script = script.ok_or_else(|| {
            CommandError::usage(anyhow!("there is no completion script for {}", self.shell))
        })?;
        Ok(Output::new().text(&String::from_utf8_lossy(&script))?)
    }
}
