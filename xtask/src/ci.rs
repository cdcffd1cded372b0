//! `cargo xtask ci`: every check that must pass before a change may be merged.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::cargo::{cargo, program, succeeds};
use crate::stages::Stages;
use crate::{comparison, fuzz, layers, packages, readmes, test, words};

/// How long each parser is fuzzed.
const FUZZED_SECONDS: u32 = 60;

/// What to run in addition, and what to leave out.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave out the tests, because `cargo xtask test` has already run them.
    #[arg(long)]
    skip_tests: bool,
    /// Also fuzz each parser for a minute, if a nightly toolchain and cargo-fuzz are installed.
    #[arg(long)]
    fuzz: bool,
}

/// Runs the subcommand. Quick checks come first. All run, even if an earlier one fails.
pub(crate) fn run(options: &Options) -> ExitCode {
    let mut stages = Stages::default();
    stages.command("format", cargo("fmt --all --check"));
    stages.run("layers", layers::check);
    stages.run("words", words::check);
    stages.run("readmes", readmes::check);
    stages.run("comparison", comparison::check);
    stages.run("packages", packages::check);
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
    fuzz_each(&mut stages, options);
    stages.close()
}

/// Adds the fuzz targets. They are optional, because their first build takes minutes, and the tests make the same
/// checks with the same inputs anyway.
fn fuzz_each(stages: &mut Stages, options: &Options) {
    if !options.fuzz {
        stages.skip("fuzz", "without --fuzz; tests make the same checks");
    } else if let Some(missing) = fuzz::missing() {
        let why = format!("it needs {missing}; tests make the same checks");
        stages.skip("fuzz", why);
    } else {
        stages.run("fuzz", || fuzz::fuzz(&fuzz::Options::all(FUZZED_SECONDS)));
    }
}

fn documentation() -> Command {
    let mut command = cargo("doc --workspace --no-deps");
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Adds a stage for a program that may not be installed.
fn optional(stages: &mut Stages, name: &'static str, probe: Command, command: Command) {
    if succeeds(probe) {
        stages.command(name, command);
    } else {
        stages.skip(name, "not installed");
    }
}
