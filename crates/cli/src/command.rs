//! The commands, one a file.

mod approvals;
mod ask;
mod chat;
mod completions;
mod config;
mod doctor;
mod held;
mod lookup;
pub(crate) mod models;
mod policy;
mod runs;
mod sessions;
mod tools;
mod trust;

use clap::Subcommand;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::setup::Setup;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ask(ask::Ask),
    Chat(chat::Chat),
    Approvals(approvals::Approvals),
    Sessions(sessions::Sessions),
    Runs(runs::Runs),
    Tools(tools::Tools),
    Policy(policy::Policy),
    Models(models::Models),
    Doctor(doctor::Doctor),
    Config(config::Config),
    Trust(trust::Trust),
    Completions(completions::Completions),
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
        Command::Tools(tools) => tools.run(&setup).await,
        Command::Policy(policy) => policy.run(&setup).await,
        Command::Models(models) => models.run(&setup).await,
        Command::Doctor(doctor) => doctor.run(&setup).await,
        Command::Config(config) => config.run(&setup),
        Command::Trust(trust) => trust.run(&setup),
        Command::Completions(completions) => completions.run(),
    }
}
