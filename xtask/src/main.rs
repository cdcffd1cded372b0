//! Automation of this repository: `cargo xtask test`, `cargo xtask ci` and its individual checks, `cargo xtask bench`,
//! `cargo xtask fuzz`, `cargo xtask semver`, and helpers for manual testing, `cargo xtask env` and `cargo xtask
//! serve-llama`.
//!
//! Not for anything that a user of Neuraxis needs: this crate is never published and nothing depends on it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "saying what it does and how it went is what a build task is for"
)]

mod bench;
mod cargo;
mod ci;
mod comparison;
mod fuzz;
mod layers;
mod packages;
mod provision;
mod readmes;
mod semver;
mod serve_llama;
mod stages;
mod test;
mod words;

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
    /// Provisions what the tests need and runs them all, including the examples in the documentation.
    Test,
    /// Checks that no crate depends on one that its layer must not know.
    Layers,
    /// Finds comments that say nothing, and files that are too small.
    Words,
    /// Writes the README of each crate from the front page of its documentation.
    Readmes,
    /// Writes the line counts of the programs in docs/embedding into docs/comparison.md.
    Comparison,
    /// Checks that each crate could be published as it is.
    Packages,
    /// Reports which changes of public interfaces would break other programs; needs cargo-semver-checks, and takes
    /// minutes.
    Semver(semver::Options),
    /// Runs every check that must pass before a change may be merged.
    Ci(ci::Options),
    /// Measures what the runtime costs compared to a hand-written loop, and stores the table in `target/bench.md`.
    Bench(bench::Options),
    /// Fuzzes the parsers of external input; needs nightly and cargo-fuzz.
    Fuzz(fuzz::Options),
    /// Prints the variables through which tests find what was provisioned: `eval "$(cargo xtask env)"`.
    Env,
    /// Starts a real llama-server with the scripted model that the tests use.
    ServeLlama(serve_llama::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        // These report their own outcome.
        Command::Test => return test::run(),
        Command::Ci(options) => return ci::run(&options),
        Command::Env => return provision::print_variables(),
        Command::Layers => layers::check(),
        Command::Words => words::check(),
        Command::Readmes => readmes::write(),
        Command::Comparison => comparison::write(),
        Command::Packages => packages::check(),
        Command::Semver(options) => semver::compare(&options),
        Command::Bench(options) => bench::measure(&options),
        Command::Fuzz(options) => fuzz::fuzz(&options),
        Command::ServeLlama(options) => serve_llama::serve(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
