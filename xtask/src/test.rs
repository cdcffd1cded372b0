//! `cargo xtask test`: provisions what the tests need, then runs them all.

mod provision;

use std::process::ExitCode;

use crate::cargo::{cargo, succeeds};
use crate::stages::{Outcome, Stages};

/// Runs the subcommand.
pub(crate) fn run() -> ExitCode {
    let mut stages = Stages::default();
    add_stages(&mut stages);
    stages.close()
}

/// Adds the stages that test the workspace.
pub(crate) fn add_stages(stages: &mut Stages) {
    if stages.run("provision", provision::all) != Outcome::Passed {
        stages.skip("tests", "what they need is not there");
        stages.skip("doc-tests", "what they need is not there");
        return;
    }
    if succeeds(cargo("nextest --version")) {
        stages.command("tests", cargo("nextest run --workspace --no-fail-fast"));
    } else {
        println!("\ncargo-nextest is not installed: the tests run through cargo's own runner.");
        stages.command(
            "tests",
            cargo("test --workspace --lib --bins --tests --examples --no-fail-fast"),
        );
    }
    stages.command("doc-tests", cargo("test --workspace --doc --no-fail-fast"));
}
