//! `cargo xtask ci`: everything that has to pass before a change may land.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::cargo::{cargo, program, succeeds};
use crate::stages::Stages;
use crate::{layers, test};

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave out the tests, where `cargo xtask test` has just run them.
    #[arg(long)]
    skip_tests: bool,
}

/// Runs the subcommand. The quick checks come first; all run, whatever an earlier one found.
pub(crate) fn run(options: &Options) -> ExitCode {
    let mut stages = Stages::default();
    stages.command("format", cargo("fmt --all --check"));
    stages.run("layers", layers::check);
    if options.skip_tests {
        stages.skip("tests", "--skip-tests");
    } else {
        test::add_stages(&mut stages);
    }
    stages.command(
        "clippy",
        cargo("clippy --workspace --all-targets -- -D warnings"),
    );
    stages.command("docs", documentation());
    optional(
        &mut stages,
        "deny",
        cargo("deny --version"),
        cargo("deny check --hide-inclusion-graph licenses bans sources"),
    );
    optional(
        &mut stages,
        "machete",
        cargo("machete --version"),
        cargo("machete"),
    );
    optional(
        &mut stages,
        "typos",
        program("typos", "--version"),
        program("typos", ""),
    );
    stages.close()
}

fn documentation() -> Command {
    let mut command = cargo("doc --workspace --no-deps");
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Adds a stage for a program that a machine may lack.
fn optional(stages: &mut Stages, name: &'static str, probe: Command, command: Command) {
    if succeeds(probe) {
        stages.command(name, command);
    } else {
        stages.skip(name, "not installed");
    }
}
