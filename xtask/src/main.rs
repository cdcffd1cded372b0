//! Automation of this repository: `cargo xtask test`, `cargo xtask layers`, `cargo xtask ci`.
//!
//! Not for anything that a user of Neuraxis needs: this crate is never published and nothing depends on it.
#![expect(
    clippy::print_stdout,
    reason = "saying what it does and how it went is what a build task is for"
)]

mod cargo;
mod ci;
mod layers;
mod stages;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Automation of this repository.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Provisions what the tests need and runs them all, the examples in the documentation included.
    Test,
    /// Checks that no crate depends on one that its layer must not know.
    Layers,
    /// Runs everything that has to pass before a change may land.
    Ci(ci::Options),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Test => test::run(),
        Command::Layers => layers::run(),
        Command::Ci(options) => ci::run(&options),
    }
}
