//! The cost of the runtime: the engine compared to a hand-written loop that performs the same exchanges with the same
//! server.
//!
//! Run it with `cargo xtask bench`. A loopback model server runs in a separate process, so that its work is not
//! counted. Both sides alternate in pairs, so that drift in the machine's speed affects both; the printed value is the
//! median of the pairs' ratios. Governance, validation of arguments and the in-memory log of records are on, as in
//! production. Both sides use the allocator of our programs.
//!
//! `overhead WORKLOAD…` measures only the named workloads (or `memory`), by their short names, and stores no table.
//! `overhead --side by-hand|by-neuraxis WORKLOAD` runs only one side, for a profiler.
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

/// The number of pairs measured per workload.
const PAIRS: usize = 21;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes this argument to every benchmark.
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

/// The name that selects the memory measurement instead of a workload.
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
    report::save(&text)
}
