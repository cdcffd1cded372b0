//! What the runtime costs: the engine against a hand-written loop that does the same exchanges with the same server.
//!
//! `cargo xtask bench`. A loopback model server runs in a process of its own, so that its work is not counted. Both sides
//! take turns, pair by pair, so that a machine whose speed drifts drifts for both; what is printed is the median of the
//! pairs' ratios. Governance, validation of arguments and the in-memory log of records are on, as in production; the
//! allocator is that of our programs, for both sides.
//!
//! `overhead WORKLOAD…` measures only the named workloads (or `memory`), by their short names, and keeps no table;
//! `overhead --side by-hand|by-neuraxis WORKLOAD` does one side's part only, for a profiler to look at.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints what it measured"
)]

mod by_hand;
mod by_neuraxis;
#[path = "../loop/engine.rs"]
mod engine;
mod measure;
mod model_server;
mod report;
mod workload;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::measure::{memory_per_run, pairs};
use crate::model_server::ModelServer;
use crate::workload::Workload;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many pairs each workload is measured in.
const PAIRS: usize = 21;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo says that this is a benchmark, which is no news.
    let arguments = arguments.iter().filter(|argument| *argument != "--bench");
    let arguments: Vec<&str> = arguments.map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [model_server::SERVE] => model_server::serve(),
        [measure::MEMORY, side, url] => measure::print_memory(side, url),
        [measure::SIDE, side, workload] => one_side(side, workload),
        [] => bench(),
        names => some(names),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What measures memory, where workloads are named.
const MEMORY_NAME: &str = "memory";

fn workload(name: &str) -> Result<Workload> {
    let mut all = Workload::ALL.into_iter();
    all.find(|workload| workload.short_name() == name)
        .with_context(|| format!("there is no workload {name}"))
}

fn one_side(side: &str, name: &str) -> Result<()> {
    let server = ModelServer::start()?;
    measure::one_side(&server, side, workload(name)?, PAIRS)
}

fn some(names: &[&str]) -> Result<()> {
    let workloads = names.iter().filter(|name| **name != MEMORY_NAME);
    let workloads: Vec<Workload> = workloads
        .map(|name| workload(name))
        .collect::<Result<_>>()?;
    let server = ModelServer::start()?;
    let mut table = measured(&server, &workloads)?;
    if names.contains(&MEMORY_NAME) {
        table.memory(memory_per_run(&server)?);
    }
    println!("{table}");
    Ok(())
}

fn measured(server: &ModelServer, workloads: &[Workload]) -> Result<report::Table> {
    let mut table = report::Table::default();
    for &workload in workloads {
        eprintln!("{} …", workload.name());
        table.add(workload, pairs(server, workload, PAIRS)?);
    }
    Ok(table)
}

fn bench() -> Result<()> {
    let server = ModelServer::start()?;
    let mut table = measured(&server, &Workload::ALL)?;
    eprintln!("memory per waiting run …");
    table.memory(memory_per_run(&server)?);
    let text = table.to_string();
    println!("{text}");
    report::keep(&text)
}
