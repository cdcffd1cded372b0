//! `cargo xtask bench`: what the runtime costs against a hand-written loop. The table is kept in `target/bench.md`.
//! With `--store`: what a database adds to the store in memory. With `--loop`: what the turn loop itself takes. With
//! `--wire`: what reading a streamed reply costs, and how late it is heard.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::cargo::{cargo, succeed};
use crate::provision;

/// What to measure: the facade against a loop by hand, unless an option names something else.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Measure the stores instead: SQLite, and Postgres where `cargo xtask test` has provisioned it.
    #[arg(long)]
    store: bool,
    /// Measure the turn loop instead: a step, a delta, a waiting run, a long run.
    #[arg(long = "loop", conflicts_with = "store")]
    turn_loop: bool,
    /// Measure streamed replies instead: what reading one costs beyond reading its bytes, and how late it is heard.
    #[arg(long, conflicts_with_all = ["store", "turn_loop"])]
    wire: bool,
}

impl Options {
    fn command(&self) -> Command {
        if self.turn_loop {
            return cargo("bench --package neuraxis --bench loop");
        }
        if self.wire {
            return cargo("bench --package neuraxis --bench stream");
        }
        if !self.store {
            return cargo("bench --package neuraxis --bench overhead");
        }
        let mut command = cargo("bench --package neuraxis-sql --bench store");
        let there = provision::variables().into_iter();
        command.envs(there.filter(|(_, path)| path.exists()));
        command
    }
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> ExitCode {
    match succeed(options.command()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
