//! Measures both sides, pair by pair.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use cpu_time::ProcessTime;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Runtime;

use crate::by_hand::ByHand;
use crate::by_neuraxis::ByNeuraxis;
use crate::model_server::ModelServer;
use crate::workload::Workload;

/// The argument that makes this program measure one side's memory.
pub(crate) const MEMORY: &str = "--memory";

/// The argument that makes this program run only one side of a workload.
pub(crate) const SIDE: &str = "--side";

const BY_HAND: &str = "by-hand";
const BY_NEURAXIS: &str = "by-neuraxis";

/// The number of concurrently waiting runs when their memory is measured.
const WAITING_RUNS: usize = 1_000;

/// The processor time of one run on each side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) by_hand: Duration,
    pub(crate) by_neuraxis: Duration,
}

/// The resident memory of one waiting run on each side, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) by_hand: u64,
    pub(crate) by_neuraxis: u64,
}

/// Both sides, ready to run one workload.
struct Sides {
    runtime: Runtime,
    workload: Workload,
    by_hand: Arc<ByHand>,
    by_neuraxis: Arc<ByNeuraxis>,
}

impl Sides {
    fn new(server: &ModelServer, workload: Workload) -> Result<Self> {
        let url = server.url(workload.path());
        Ok(Self {
            runtime: runtime()?,
            workload,
            by_hand: Arc::new(ByHand::new(&url)?),
            by_neuraxis: Arc::new(ByNeuraxis::new(&url)?),
        })
    }

    fn by_hand(&self, round: usize) -> Result<Duration> {
        let workload = self.workload;
        timed(&self.runtime, workload, round, |_| {
            let side = Arc::clone(&self.by_hand);
            async move {
                if workload.is_streamed() {
                    side.stream().await.map(drop)
                } else {
                    side.run().await.map(drop)
                }
            }
        })
    }

    fn by_neuraxis(&self, round: usize) -> Result<Duration> {
        let workload = self.workload;
        timed(&self.runtime, workload, round, |number| {
            let side = Arc::clone(&self.by_neuraxis);
            async move {
                if workload.is_streamed() {
                    side.stream(number).await.map(drop)
                } else {
                    side.run(number).await.map(drop)
                }
            }
        })
    }
}

pub(crate) fn pairs(server: &ModelServer, workload: Workload, count: usize) -> Result<Vec<Pair>> {
    let sides = Sides::new(server, workload)?;
    let mut pairs = Vec::new();
    // The first pair warms up connections and caches and is not counted.
    for round in 0..=count {
        let by_hand = sides.by_hand(round)?;
        let by_neuraxis = sides.by_neuraxis(round)?;
        if round > 0 {
            pairs.push(Pair {
                by_hand,
                by_neuraxis,
            });
        }
    }
    Ok(pairs)
}

/// Runs one side of a workload, for as long as a profiler needs.
pub(crate) fn one_side(
    server: &ModelServer,
    side: &str,
    workload: Workload,
    rounds: usize,
) -> Result<()> {
    let sides = Sides::new(server, workload)?;
    for round in 0..4 * rounds {
        if side == BY_HAND {
            sides.by_hand(round)?;
        } else {
            sides.by_neuraxis(round)?;
        }
    }
    Ok(())
}

fn timed<Run>(
    runtime: &Runtime,
    workload: Workload,
    round: usize,
    one: impl Fn(usize) -> Run,
) -> Result<Duration>
where
    Run: Future<Output = Result<()>> + Send + 'static,
{
    let first = round * workload.runs();
    let started = ProcessTime::now();
    runtime.block_on(async {
        let runs =
            stream::iter((first..first + workload.runs()).map(|number| tokio::spawn(one(number))));
        let runs = runs.map(|run| async move { run.await? });
        runs.buffer_unordered(workload.at_once())
            .try_collect::<Vec<()>>()
            .await
    })?;
    let runs = u32::try_from(workload.runs()).unwrap_or(u32::MAX);
    Ok(started.elapsed() / runs)
}

/// Makes many runs wait for a model that never answers, and measures the memory per run. Each side is measured in a
/// separate process, so that neither uses memory that the other freed.
pub(crate) fn memory_per_run(server: &ModelServer) -> Result<Memory> {
    let url = server.url("wait/0/0");
    Ok(Memory {
        by_hand: memory_of(BY_HAND, &url)?,
        by_neuraxis: memory_of(BY_NEURAXIS, &url)?,
    })
}

fn memory_of(side: &str, url: &str) -> Result<u64> {
    let program = std::env::current_exe()?;
    let output = Command::new(program)
        .args([MEMORY, side, url])
        .stderr(Stdio::inherit())
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "measuring the memory of {side} failed"
    );
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Prints the memory of one waiting run of the given side.
pub(crate) fn print_memory(side: &str, url: &str) -> Result<()> {
    let bytes = if side == BY_HAND {
        let by_hand = Arc::new(ByHand::new(url)?);
        grown(move |_| {
            let side = Arc::clone(&by_hand);
            async move { side.run().await.map(drop) }
        })?
    } else {
        let by_neuraxis = Arc::new(ByNeuraxis::new(url)?);
        grown(move |number| {
            let side = Arc::clone(&by_neuraxis);
            async move { side.run(number).await.map(drop) }
        })?
    };
    println!("{bytes}");
    Ok(())
}

fn grown<Run>(one: impl Fn(usize) -> Run) -> Result<u64>
where
    Run: Future<Output = Result<()>> + Send + 'static,
{
    let runtime = runtime()?;
    // Some runs first, so that one-time allocations are not counted.
    let settle = Duration::from_millis(1_500);
    let begin = |numbers: std::ops::Range<usize>| {
        numbers
            .map(|number| runtime.spawn(one(number)))
            .collect::<Vec<_>>()
    };
    let warm = begin(0..WAITING_RUNS / 10);
    runtime.block_on(async { tokio::time::sleep(settle).await });
    let before = resident()?;
    let waiting = begin(WAITING_RUNS / 10..WAITING_RUNS / 10 + WAITING_RUNS);
    runtime.block_on(async { tokio::time::sleep(settle).await });
    let after = resident()?;
    for run in warm.into_iter().chain(waiting) {
        anyhow::ensure!(!run.is_finished(), "a run did not wait");
        run.abort();
    }
    runtime.shutdown_background();
    Ok(after.saturating_sub(before) / u64::try_from(WAITING_RUNS)?)
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

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}
