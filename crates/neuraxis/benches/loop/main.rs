//! The cost of the turn loop itself: a step of the pure machine, a delta on its way to a listener, a run that waits for
//! its model, and a long run compared to one of half its length.
//!
//! Run it with `cargo xtask bench --loop`. Everything happens in this process and in memory: models are simulated here,
//! and no sockets or disks are used. The cost of the runtime compared to a hand-written loop over HTTP is measured by
//! `overhead`.
//!
//! The allocator is the system's, with counting; our programs use a different one.
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
    // First, so that it does not reuse memory freed by another measurement.
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

/// A single thread, so that processor time is spent on the run and not by threads looking for work.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
