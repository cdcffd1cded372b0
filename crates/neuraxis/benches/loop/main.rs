//! What the turn loop itself takes: a step of the pure machine, a delta on its way to a listener, a run that waits for
//! its model, and a long run against one of half its length.
//!
//! `cargo xtask bench --loop`. Everything happens in this process and in memory: models are made here, there is no
//! socket and no disk. What the runtime costs against a hand-written loop over HTTP is measured by `overhead`.
//!
//! The allocator is the system's, counted; our programs use another one.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints what it measured"
)]

mod deltas;
mod engine;
mod median;
mod models;
mod run_length;
mod steps;
mod waiting;

use std::alloc::System;
use std::process::ExitCode;

use anyhow::Result;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<()> {
    // First, so that no memory that another measurement freed is taken up again.
    eprintln!("runs that wait …");
    let waiting = waiting::measure()?;
    eprintln!("steps …");
    println!("{}", steps::measure()?);
    eprintln!("deltas …");
    println!("{}", deltas::measure()?);
    println!("{waiting}");
    eprintln!("long runs …");
    println!("{}", run_length::measure()?);
    Ok(())
}

/// One thread, so that processor time is the work of the run and not of threads that look for some.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
