//! Automation of this repository: `cargo xtask test`, `cargo xtask ci` and the checks it is made of, `cargo xtask bench`,
//! `cargo xtask fuzz`, `cargo xtask semver`, and what helps in trying things by hand, `cargo xtask env` and `cargo xtask serve-llama`.
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
    /// Provisions what the tests need and runs them all, the examples in the documentation included.
    Test,
    /// Checks that no crate depends on one that its layer must not know.
    Layers,
    /// Finds comments that only fill a line, and files too small to hold a thought.
    Words,
    /// Writes the README of each crate from the front page of its documentation.
    Readmes,
    /// Writes how many lines the programs of docs/embedding take into docs/comparison.md.
    Comparison,
    /// Checks that each crate could be published as it is.
    Packages,
    /// Tells which changes of public interfaces would break other programs; needs cargo-semver-checks, and minutes.
    Semver(semver::Options),
    /// Runs everything that has to pass before a change may land.
    Ci(ci::Options),
    /// Measures what the runtime costs against a hand-written loop, and keeps the table in `target/bench.md`.
    Bench(bench::Options),
    /// Fuzzes the parsers of what comes from outside; needs nightly and cargo-fuzz.
    Fuzz(fuzz::Options),
    /// Prints the variables through which tests find what was provisioned: `eval "$(cargo xtask env)"`.
    Env,
    /// Starts a real llama-server with the model that the tests use, whose replies are scripted.
    ServeLlama(serve_llama::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        // These say themselves how it went.
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
