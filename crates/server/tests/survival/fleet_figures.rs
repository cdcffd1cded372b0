//! How long runs take to resume after a kill: measured and printed, for `docs/scale.md`. Runs only when requested by
//! name: `cargo xtask bench fleet --kills`.

use std::time::{Duration, Instant};

use neuraxis::ports::SessionIndex as _;

use crate::fleet::Fleet;
use crate::points::two_turns;
use crate::server::Server;
use crate::world::{Kept, Program, Terms, World, until};

/// How many runs are in progress when a process dies.
const RUNS: usize = 100;

/// The setting that `docs/scale.md` recommends.
const STORE: &str = "lease_ms = 6000";

/// Starts runs and waits until each is in a tool that is held up.
async fn at_work(world: &World, servers: &[Server]) -> Instant {
    world.hold_tool("note");
    let began = Instant::now();
    let turns = (0..RUNS).map(|number| {
        let server = &servers[number % servers.len()];
        tokio::spawn(server.request(&format!("s{number}"), "go").send())
    });
    let turns: Vec<_> = turns.collect();
    until("all are at work", async || {
        world.effects("begun", "note").len() >= RUNS
    })
    .await;
    // Most of them end without a listener.
    drop(turns);
    began
}

/// Waits until all runs have ended, and prints how long that took since a given time.
async fn all_end(world: &World, what: &str, since: Instant) {
    let mut first = None;
    let mut done = Duration::ZERO;
    let mut left: Vec<String> = (0..RUNS).map(|number| format!("s{number}")).collect();
    while !left.is_empty() {
        let mut still = Vec::new();
        for session in left {
            let runs = world.store.runs(&session.parse().unwrap()).await.unwrap();
            match runs.iter().all(|run| run.ended_at.is_some()) {
                true => {
                    first.get_or_insert(since.elapsed());
                    done = since.elapsed();
                }
                false => still.push(session),
            }
        }
        left = still;
        assert!(
            since.elapsed() < Duration::from_secs(90),
            "{} are left",
            left.len()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let first = first.unwrap_or_default();
    println!(
        "| {what} | {:.1} | {:.1} |",
        first.as_secs_f64(),
        done.as_secs_f64()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, for docs/scale.md"]
async fn figures() {
    println!(
        "| killed, with {RUNS} runs at work | first run ended after, s | all ended after, s |"
    );
    println!("| --- | ---: | ---: |");
    let terms = Terms {
        store: STORE,
        ..Terms::default()
    };
    let world = World::on(Program::WithTools, Kept::OnServer, two_turns, terms).await;
    let mut servers = vec![
        world.start().await,
        world.start().await,
        world.start().await,
    ];
    at_work(&world, &servers).await;
    servers.remove(0).kill().await;
    let killed = Instant::now();
    world.let_tools_go();
    all_end(&world, "one of three servers on Postgres", killed).await;

    let mut fleet = Fleet::on(Program::WithTools, two_turns, STORE, "").await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let servers = [server];
    at_work(world, &servers).await;
    worker.kill().await;
    let killed = Instant::now();
    let _next = world.start_worker().await;
    world.let_tools_go();
    all_end(world, "a worker of Restate", killed).await;

    let fresh = Fleet::on(Program::WithTools, two_turns, STORE, "").await;
    fleet = fresh;
    let world = &fleet.world;
    let (_worker, server) = (world.start_worker().await, world.start().await);
    let servers = [server];
    at_work(world, &servers).await;
    fleet.restate.kill();
    let killed = Instant::now();
    fleet.restate.restart();
    let world = &fleet.world;
    world.let_tools_go();
    all_end(world, "Restate", killed).await;
}
