//! Whole sessions with models, tools, users and a store whose behavior a seed determines, in processes that die at
//! random records.
//!
//! `NEURAXIS_SIM_RUNS` sets the number of seeds (300), `NEURAXIS_SIM_SEED` the first one (0). A failure names its seed:
//! `NEURAXIS_SIM_SEED=7 NEURAXIS_SIM_RUNS=1 cargo nextest run -p neuraxis-engine --test simulator` runs only that one.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the simulator fails by panicking"
)]

mod checks;
mod dice;
mod people;
mod store;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Mode, RunId, RunStatus, Seq};
use neuraxis_engine::{Orchestrator, RequestError, ResumeError, RunHandle, UserRequest};
use neuraxis_ports::RunLog as _;
use tokio::runtime::{Builder, Runtime};

use crate::people::Steered;
use crate::world::World;

/// After this many deaths during one run, its processes stay alive.
const MOST_DEATHS: u32 = 6;

#[test]
fn simulated_sessions_keep_every_invariant() {
    let number = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| text.parse().unwrap())
    };
    let first = number("NEURAXIS_SIM_SEED", 0);
    let mut seen = checks::Seen::default();
    for seed in first..first + number("NEURAXIS_SIM_RUNS", 300) {
        let simulated = catch_unwind(AssertUnwindSafe(|| simulate(seed, &mut seen)));
        assert!(
            simulated.is_ok(),
            "seed {seed} failed: NEURAXIS_SIM_SEED={seed} NEURAXIS_SIM_RUNS=1"
        );
    }
    // A simulator in which nothing ever happens would pass every check.
    if number("NEURAXIS_SIM_RUNS", 300) >= 300 {
        seen.assert_varied();
    }
}

/// A process: everything that works in it ends with it.
fn process() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

fn simulate(seed: u64, seen: &mut checks::Seen) {
    // Pauses between attempts have jitter.
    fastrand::seed(seed);
    let world = Arc::new(World::new(seed));
    let mut asked = Vec::new();
    for question in 0..1 + world.dice.below(3) {
        let question = format!("question {question}");
        if let Some(run) = ask(&world, &question) {
            asked.push(question);
            checks::run(&world, run, seen);
        }
    }
    checks::session(&world, &asked);
}

/// The state of a run when its process is done with it.
enum Left {
    Ended,
    Waiting,
    Dead,
}

/// Sends a request, and resumes the run as often as necessary. `None` if there was no run.
fn ask(world: &Arc<World>, question: &str) -> Option<RunId> {
    let request = UserRequest::new(world.session.clone(), question).mode(Mode::EXPLORATORY);
    world.store.may_die(true);
    world.store.forget_begun();
    let begun = process().block_on(world.store.until_death(async {
        let orchestrator = world.orchestrator();
        let (handle, _) = orchestrator.stream(request).await?;
        let left = live(world, &orchestrator, &handle).await;
        Ok::<_, RequestError>((handle.run_id(), left))
    }));
    let (run, mut left) = match begun {
        Some(Ok((run, left))) => (run, left),
        Some(Err(error)) if !matches!(error, RequestError::Store(_)) => panic!("{error}"),
        // The process died, or could not determine what happened to the run's first records.
        Some(Err(_)) | None => (died_in(world)?, Left::Dead),
    };
    let mut deaths = 0;
    loop {
        let answers = match left {
            Left::Ended => return Some(run),
            Left::Waiting => people::answers(world, run),
            Left::Dead => Vec::new(),
        };
        deaths += 1;
        world.store.may_die(deaths < MOST_DEATHS);
        assert!(deaths < 200, "the run never ends");
        let resumed = process().block_on(world.store.until_death(async {
            let orchestrator = world.orchestrator();
            match orchestrator.runs().resume(run, answers).await {
                Ok(handle) => live(world, &orchestrator, &handle).await,
                Err(ResumeError::Store(_)) => Left::Dead,
                // The process died after the run's last record.
                Err(ResumeError::Ended(_)) => Left::Ended,
                // The process died before the run took the answers.
                Err(ResumeError::NothingToDo) => Left::Waiting,
                Err(error) => panic!("{error}"),
            }
        }));
        left = resumed.unwrap_or(Left::Dead);
    }
}

/// Returns the run that exists, if any, after a process died before it reported one.
fn died_in(world: &Arc<World>) -> Option<RunId> {
    world.store.may_die(false);
    let run = world.store.last_begun()?;
    process().block_on(async {
        let records = world.store.records(run, Seq(0)).await.ok()?;
        if !records.is_empty() {
            return Some(run);
        }
        let orchestrator = world.orchestrator();
        orchestrator
            .runs()
            .abandon_unbegun(&world.session, run)
            .await
            .unwrap();
        None
    })
}

/// Follows a run until this process leaves it.
async fn live(world: &World, orchestrator: &Orchestrator, handle: &RunHandle) -> Left {
    let disturbing = people::disturb(world, handle);
    let (result, steered) = tokio::join!(handle.result(), disturbing);
    orchestrator.shutdown().await;
    let kept = world.store.records(handle.run_id(), Seq(0)).await.unwrap();
    match result {
        Ok(result) if result.status == RunStatus::Waiting => return Left::Waiting,
        Ok(_) => assert!(checks::has_ended(&kept), "an end that is not on record"),
        Err(_) if !checks::has_ended(&kept) => return Left::Dead,
        // Only the answer to its last commit was lost.
        Err(_) => {}
    }
    for message in &steered {
        check_steered(message, handle);
    }
    Left::Ended
}

/// Checks that an accepted message is in the log, unless the run's current work was about to end it.
fn check_steered(message: &Steered, handle: &RunHandle) {
    let records = handle.records();
    let since = records.get(message.records_before..).unwrap_or_default();
    let steps = since
        .iter()
        .filter(|record| record.active_ms.is_some())
        .count();
    let is_kept = records.iter().any(|record| {
        matches!(&record.body, neuraxis_core::RecordBody::Steered(kept) if kept.message.text() == message.text)
    });
    assert!(
        is_kept || steps <= 1,
        "{} was taken and lost: {steps} steps",
        message.text
    );
}

/// Returns how long users wait before they act.
fn moment(world: &World) -> Duration {
    Duration::from_millis(u64::from(world.dice.below(30_000)))
}
