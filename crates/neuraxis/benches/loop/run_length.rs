//! The cost of a long run compared to one of half its length.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use cpu_time::ProcessTime;
use neuraxis::engine::Delivery;
use neuraxis::{Orchestrator, RunStatus};
use tokio::runtime::Runtime;

use crate::engine::{orchestrator, request};
use crate::median::median;
use crate::models::Calling;
use crate::runtime;

const SHORT: usize = 100;
const LONG: usize = 200;

/// The two alternate, so that drift in the machine's speed affects both.
const PAIRS: usize = 41;

/// The processor time of a short and a long run.
#[derive(Debug)]
pub(crate) struct RunLength {
    short: Duration,
    long: Duration,
    ratio: f64,
}

impl fmt::Display for RunLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_micros();
        writeln!(
            f,
            "| turns of a run, one call each | processor time | of one turn |"
        )?;
        writeln!(f, "| --- | ---: | ---: |")?;
        for (turns, time) in [(SHORT, self.short), (LONG, self.long)] {
            let one = time.as_secs_f64() * 1e6 / turns as f64;
            writeln!(f, "| {turns} | {} µs | {one:.1} µs |", micros(time))?;
        }
        writeln!(
            f,
            "\n{LONG} turns take {:.2} times what {SHORT} take.",
            self.ratio
        )
    }
}

pub(crate) fn measure() -> Result<RunLength> {
    let runtime = runtime()?;
    let short = orchestrator(Arc::new(Calling { turns: SHORT }))?;
    let long = orchestrator(Arc::new(Calling { turns: LONG }))?;
    let mut pairs = Vec::new();
    // The first pair is a warm-up and is not counted.
    for round in 0..=PAIRS {
        let pair = (
            timed(&runtime, &short, round, SHORT)?,
            timed(&runtime, &long, round, LONG)?,
        );
        if round > 0 {
            pairs.push(pair);
        }
    }
    let mut ratios: Vec<f64> = pairs
        .iter()
        .map(|(short, long)| long.as_secs_f64() / short.as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    Ok(RunLength {
        short: median(pairs.iter().map(|(short, _)| *short).collect()),
        long: median(pairs.iter().map(|(_, long)| *long).collect()),
        ratio: ratios.get(PAIRS / 2).copied().unwrap_or(f64::NAN),
    })
}

fn timed(runtime: &Runtime, side: &Orchestrator, round: usize, turns: usize) -> Result<Duration> {
    let started = ProcessTime::now();
    let result = runtime.block_on(side.handle(request(round)?.delivery(Delivery::Whole)))?;
    let time = started.elapsed();
    ensure!(
        result.status == RunStatus::Done && result.reply == "done",
        "a run of {turns} turns failed: {}",
        result.reply
    );
    // Each turn has a model call and a tool call; the answer is one more model call.
    ensure!(
        result.steps.len() == 2 * turns + 1,
        "a run of {turns} turns took {} steps",
        result.steps.len()
    );
    Ok(time)
}
