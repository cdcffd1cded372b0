//! What the runtime costs: the engine against a hand-written loop that does the same exchanges with the same server.
//!
//! `cargo xtask bench`. A loopback model server runs in a process of its own, so that its work is not counted. Both sides
//! take turns, pair by pair, so that a machine whose speed drifts drifts for both; what is printed is the median of the
//! pairs' ratios. Governance, validation of arguments and the in-memory log of records are on, as in production.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints what it measured"
)]

mod by_hand;
mod by_neuraxis;
mod measure;
mod model_server;
mod report;
mod workload;

use std::process::ExitCode;

use anyhow::Result;

use crate::measure::{memory_per_run, pairs};
use crate::model_server::ModelServer;
use crate::workload::Workload;

/// How many pairs each workload is measured in.
const PAIRS: usize = 9;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [model_server::SERVE] => model_server::serve(),
        [measure::MEMORY, side, url] => measure::print_memory(side, url),
        _ => bench(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<()> {
    let server = ModelServer::start()?;
    let mut table = report::Table::default();
    for workload in Workload::ALL {
        eprintln!("{} …", workload.name());
        table.add(workload, pairs(&server, workload, PAIRS)?);
    }
    eprintln!("memory per waiting run …");
    table.memory(memory_per_run(&server)?);
    let text = table.to_string();
    println!("{text}");
    report::keep(&text)
}
