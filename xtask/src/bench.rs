//! `cargo xtask bench`: what the runtime costs against a hand-written loop. The table is kept in `target/bench.md`.

use std::process::ExitCode;

use crate::cargo::{cargo, succeed};

/// Runs the subcommand.
pub(crate) fn run() -> ExitCode {
    match succeed(cargo("bench --package neuraxis --bench overhead")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
