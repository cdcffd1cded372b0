//! The cost of a run while it waits for its model.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use neuraxis::{Orchestrator, RunHandle};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::engine::{orchestrator, request};
use crate::models::Hanging;
use crate::runtime;

const RUNS: usize = 10_000;

/// The number of runs started before the first measurement, so that one-time allocations are not counted.
const WARM: usize = 100;

/// The cost of a number of waiting runs.
#[derive(Debug)]
pub(crate) struct Waiting {
    resident: u64,
    live: u64,
    begun_in: Duration,
    ended_in: Duration,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |bytes: u64| bytes as f64 / 1_024.0 / RUNS as f64;
        let (resident, live) = (kib(self.resident), kib(self.live));
        writeln!(f, "| {RUNS} runs that wait for their model | |")?;
        writeln!(f, "| --- | ---: |")?;
        writeln!(f, "| resident memory of one | {resident:.1} KiB |")?;
        writeln!(f, "| bytes of it in use | {live:.1} KiB |")?;
        writeln!(
            f,
            "| time to begin all of them | {:.2} s |",
            self.begun_in.as_secs_f64()
        )?;
        writeln!(
            f,
            "| time to cancel and record all of them | {:.2} s |",
            self.ended_in.as_secs_f64()
        )
    }
}

pub(crate) fn measure() -> Result<Waiting> {
    runtime()?.block_on(async {
        let model = Arc::new(Hanging::default());
        let orchestrator = orchestrator(Arc::clone(&model) as _)?;
        let mut handles = Vec::with_capacity(WARM + RUNS);
        begin(&orchestrator, &model, &mut handles, WARM).await?;
        let before = resident()?;
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        let started = Instant::now();
        begin(&orchestrator, &model, &mut handles, WARM + RUNS).await?;
        let begun_in = started.elapsed();
        let change = region.change();
        let after = resident()?;
        let started = Instant::now();
        orchestrator.shutdown().await;
        let ended_in = started.elapsed();
        for handle in &handles {
            ensure!(handle.result().await.is_ok(), "a run crashed");
        }
        Ok(Waiting {
            resident: after.saturating_sub(before),
            live: u64::try_from(
                change
                    .bytes_allocated
                    .saturating_sub(change.bytes_deallocated),
            )?,
            begun_in,
            ended_in,
        })
    })
}

/// Starts runs up to the given number, and waits until each of them waits for its model.
async fn begin(
    orchestrator: &Orchestrator,
    model: &Hanging,
    handles: &mut Vec<RunHandle>,
    total: usize,
) -> Result<()> {
    for number in handles.len()..total {
        let (handle, _) = orchestrator.stream(request(number)?).await?;
        handles.push(handle);
    }
    while model.open() < total {
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn resident() -> Result<u64> {
    let status =
        fs::read_to_string("/proc/self/status").context("memory is measured on Linux only")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1_024)
}
