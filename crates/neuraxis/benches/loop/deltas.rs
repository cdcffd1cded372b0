//! The cost of a delta on its way from the model to a listener.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cpu_time::ProcessTime;
use futures_util::StreamExt;
use neuraxis::core::LiveBody;
use neuraxis::{Event, Events, Orchestrator, RunStatus};
use tokio::runtime::Builder;

use crate::engine::{orchestrator, request};
use crate::median::median;
use crate::models::{Pace, Streaming, WORD};

const DELTAS: usize = 10_000;
const ROUNDS: usize = 15;

/// The receiver of the deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// This benchmark calls the model directly, without an engine.
    WithoutEngine,
    Nobody,
    Client,
}

/// Processor time of the deltas, one row per combination.
#[derive(Debug)]
pub(crate) struct Deltas(Vec<(Pace, Listener, Duration, usize)>);

impl fmt::Display for Deltas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| {DELTAS} deltas, streamed | heard by | processor time of one | text events heard |"
        )?;
        writeln!(f, "| --- | --- | ---: | ---: |")?;
        for (pace, listener, time, events) in &self.0 {
            let pace = match pace {
                Pace::Burst => "all at once",
                Pace::Slow => "2 ms apart, on a virtual clock",
            };
            let listener = match listener {
                Listener::WithoutEngine => "the model alone, no engine",
                Listener::Nobody => "nobody",
                Listener::Client => "a listener",
            };
            let nanos = time.as_nanos() as f64 / DELTAS as f64;
            writeln!(f, "| {pace} | {listener} | {nanos:.0} ns | {events} |")?;
        }
        Ok(())
    }
}

pub(crate) fn measure() -> Result<Deltas> {
    let mut rows = Vec::new();
    for pace in [Pace::Slow, Pace::Burst] {
        for listener in [Listener::WithoutEngine, Listener::Nobody, Listener::Client] {
            let (time, events) = measured(pace, listener)?;
            rows.push((pace, listener, time, events));
        }
    }
    Ok(Deltas(rows))
}

fn measured(pace: Pace, listener: Listener) -> Result<(Duration, usize)> {
    let model = Arc::new(Streaming {
        deltas: DELTAS,
        pace,
    });
    let orchestrator = orchestrator(Arc::clone(&model) as _)?;
    // The clock is virtual: it jumps to the next delta instead of waiting.
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let mut times = Vec::new();
    let mut events = Vec::new();
    // The first round is a warm-up and is not counted.
    for round in 0..=ROUNDS {
        let started = ProcessTime::now();
        let total = runtime.block_on(async {
            match listener {
                Listener::WithoutEngine => {
                    let deltas = model.stream().count().await;
                    ensure!(deltas == DELTAS + 1, "the stream was cut");
                    Ok(0)
                }
                Listener::Nobody => run_without_listener(&orchestrator, round).await,
                Listener::Client => run_with_listener(&orchestrator, round).await,
            }
        })?;
        if round > 0 {
            times.push(started.elapsed());
            events.push(total);
        }
    }
    Ok((median(times), median(events)))
}

async fn run_without_listener(orchestrator: &Orchestrator, round: usize) -> Result<usize> {
    let (handle, events) = orchestrator.stream(request(round)?).await?;
    drop(events);
    let result = handle.result().await.context("the run crashed")?;
    ensure!(
        result.status == RunStatus::Done && result.reply.len() == DELTAS * WORD.len(),
        "the reply was cut"
    );
    Ok(0)
}

async fn run_with_listener(orchestrator: &Orchestrator, round: usize) -> Result<usize> {
    let (_, events) = orchestrator.stream(request(round)?).await?;
    let (pieces, bytes) = count_text(events).await;
    ensure!(bytes == DELTAS * WORD.len(), "text was lost");
    Ok(pieces)
}

/// Returns the number of text pieces, and their total length in bytes.
async fn count_text(mut events: Events) -> (usize, usize) {
    let (mut pieces, mut bytes) = (0, 0);
    while let Some(event) = events.next().await {
        let Event::Live(live) = event else { continue };
        if let LiveBody::TextDelta { text } = live.body {
            pieces += 1;
            bytes += text.len();
        }
    }
    (pieces, bytes)
}
