//! Random points of a run. `NEURAXIS_KILL_SEED` sets the first seed, `NEURAXIS_KILL_ROUNDS` the number of rounds.

use std::path::Path;
use std::time::Duration;

use crate::child;
use crate::points::two_turns;
use crate::world::{Kept, Program, World};

/// The default number of runs that are killed.
const ROUNDS: u64 = 8;

/// The longest time until a kill, in microseconds: about the duration of a run.
const LONGEST: u64 = 120_000;

/// Returns a number by SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Starts a server, takes a turn, and kills it; restarts it, and kills it again while it resumes; then leaves it
/// running.
async fn killed_at_random(seed: u64, kept: Kept) {
    let world = World::new(Program::WithTools, kept, two_turns).await;
    let server = world.start().await;
    let client = server.ask();
    let after = |draw: u64| Duration::from_micros(mixed(seed * 2 + draw) % LONGEST);
    tokio::time::sleep(after(0)).await;
    server.kill().await;
    let received = client.received().await;
    world.leases_run_out().await;
    let server = world.start().await;
    tokio::time::sleep(after(1) / 2).await;
    server.kill().await;
    world.leases_run_out().await;
    let server = world.start().await;
    if world.run().await.is_none() {
        assert!(received.is_empty(), "seed {seed}: {received:?}");
        server.ask().wait_for("final").await;
    }
    let run = world.run().await.unwrap();
    world.ended(run).await;
    server.kill().await;
    world.check(run, &received).await;
    let count = |name| world.effects("begun", name).len();
    assert!(count("look") >= 2 && count("note") >= 1, "seed {seed}");
    assert!(count("pay") <= 2, "seed {seed}");
}

async fn at_random_points(kept: Kept) {
    let number = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| text.parse().unwrap())
    };
    let first = number("NEURAXIS_KILL_SEED", 1);
    for seed in first..first + number("NEURAXIS_KILL_ROUNDS", ROUNDS) {
        // A failure shows the last one.
        println!("NEURAXIS_KILL_SEED={seed} NEURAXIS_KILL_ROUNDS=1");
        killed_at_random(seed, kept).await;
    }
}

#[test]
fn a_run_survives_kills_at_random_points_on_sqlite() {
    if let Some(folder) = std::env::var_os(child::FOLDER) {
        child::serve(Path::new(&folder));
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(at_random_points(Kept::InFile));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_survives_kills_at_random_points_on_postgres() {
    at_random_points(Kept::OnServer).await;
}
