//! Runs that a server hands over and workers drive, with a real Restate and a real Postgres: whatever is killed, each
//! run ends once, and everything that holds for locally driven runs holds for them.

use std::time::Duration;

use crate::approvals::{approval, asks_first};
use crate::fleet::Fleet;
use crate::model::Hold;
use crate::points::{A_MOMENT, one_reading, two_turns};
use crate::random::mixed;
use crate::server::Server;
use crate::world::{Kept, Program, World, until};

/// The points at which a worker is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boundary {
    WhileTheModelIsAsked(usize),
    WhileTheModelAnswers(usize),
    AfterAReplyBeforeItsCommit(usize),
    WhileAToolRuns(&'static str),
    AfterAToolBeforeItsCommit(&'static str),
}

const BOUNDARIES: [Boundary; 10] = [
    Boundary::WhileTheModelIsAsked(0),
    Boundary::AfterAReplyBeforeItsCommit(0),
    Boundary::WhileAToolRuns("look"),
    Boundary::WhileAToolRuns("note"),
    Boundary::WhileAToolRuns("pay"),
    Boundary::AfterAToolBeforeItsCommit("look"),
    Boundary::AfterAToolBeforeItsCommit("note"),
    Boundary::AfterAToolBeforeItsCommit("pay"),
    Boundary::WhileTheModelIsAsked(3),
    Boundary::WhileTheModelAnswers(5),
];

/// Kills a worker once its run has reached a point.
async fn killed_at(world: &World, boundary: Boundary, worker: Server) {
    let model = &world.model;
    match boundary {
        Boundary::WhileTheModelIsAsked(results) | Boundary::WhileTheModelAnswers(results) => {
            model.was_asked(results).await;
            worker.kill().await;
        }
        Boundary::AfterAReplyBeforeItsCommit(results) => {
            model.was_asked(results).await;
            let locked = world.lock().await;
            model.let_go();
            model.has_given(1).await;
            tokio::time::sleep(A_MOMENT).await;
            worker.kill().await;
            locked.open().await;
        }
        Boundary::WhileAToolRuns(tool) => {
            let begun = async || !world.effects("begun", tool).is_empty();
            until("the tool begins", begun).await;
            worker.kill().await;
        }
        Boundary::AfterAToolBeforeItsCommit(tool) => {
            let begun = async || !world.effects("begun", tool).is_empty();
            until("the tool begins", begun).await;
            let locked = world.lock().await;
            world.let_tools_go();
            let done = async || !world.effects("done", tool).is_empty();
            until("the tool is done", done).await;
            tokio::time::sleep(A_MOMENT).await;
            worker.kill().await;
            locked.open().await;
        }
    }
    model.let_go();
    world.let_tools_go();
}

async fn a_worker_dies_at(boundary: Boundary) {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    match boundary {
        Boundary::WhileTheModelIsAsked(results) => world.model.hold(results, Hold::Before),
        Boundary::WhileTheModelAnswers(results) => world.model.hold(results, Hold::Amid),
        Boundary::AfterAReplyBeforeItsCommit(results) => world.model.hold(results, Hold::Before),
        Boundary::WhileAToolRuns(tool) | Boundary::AfterAToolBeforeItsCommit(tool) => {
            world.hold_tool(tool);
        }
    }
    let client = server.ask();
    killed_at(world, boundary, worker).await;
    let next = world.start_worker().await;
    let run = fleet.run().await;
    fleet.ends(run, client, [server, next]).await;
    let count = |name| world.effects("begun", name).len();
    let again = match boundary {
        Boundary::WhileAToolRuns(tool) | Boundary::AfterAToolBeforeItsCommit(tool) => tool,
        _ => "none",
    };
    // Restate repeats the step; the tool's class decides whether that repeats the call.
    assert_eq!(
        count("look"),
        2 + usize::from(again == "look"),
        "{boundary:?}"
    );
    assert_eq!(
        count("note"),
        1 + usize::from(again == "note"),
        "{boundary:?}"
    );
    assert_eq!(count("pay"), 2, "{boundary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_handed_to_a_worker_has_the_same_records_as_a_local_one() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = server.ask();
    let run = fleet.run().await;
    fleet.ends(run, client, [server, worker]).await;
    let kinds = |records: Vec<std::sync::Arc<neuraxis::core::Record>>| -> Vec<&'static str> {
        records.iter().map(|record| record.body.kind()).collect()
    };
    let handed_over = kinds(world.records(run).await);

    let local = World::new(Program::WithTools, Kept::InFile, two_turns).await;
    let server = local.start().await;
    let client = server.ask();
    client.wait_for("final").await;
    server.kill().await;
    let run = local.run().await.unwrap();
    assert_eq!(handed_over, kinds(local.records(run).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_whose_worker_is_killed_at_a_boundary_ends_once() {
    for boundary in BOUNDARIES {
        println!("{boundary:?}");
        a_worker_dies_at(boundary).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_call_approved_while_no_worker_is_running_runs_once_one_starts() {
    let fleet = Fleet::new(Program::WithTools, asks_first).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = server.ask();
    client.wait_for("waiting").await;
    let run = fleet.run().await;
    world.put_aside(run).await;
    worker.kill().await;
    let asked = approval(world, run, "unused").await;
    let decided = server.decide(run, &asked).await;
    assert!(decided.is_success(), "{decided}");
    assert_eq!(world.effects("begun", "pay_asked"), []);

    let next = world.start_worker().await;
    world.ended(run).await;
    server.kill().await;
    next.kill().await;
    world.check(run, &client.received().await).await;
    assert_eq!(world.effects("begun", "pay_asked").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_survives_the_death_of_restate_and_of_the_server_that_started_it() {
    let mut fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.hold_tool("note");
    let client = server.ask();
    let begun = async || !world.effects("begun", "note").is_empty();
    until("the tool begins", begun).await;
    server.kill().await;
    let received = client.received().await;
    fleet.restate.kill();
    fleet.world.let_tools_go();
    fleet.restate.restart();
    let world = &fleet.world;
    let run = fleet.run().await;
    world.ended(run).await;
    worker.kill().await;
    world.check(run, &received).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_turn_accepted_while_restate_is_down_is_driven_once_it_is_back() {
    let mut fleet = Fleet::new(Program::WithTools, two_turns).await;
    let (worker, server) = (fleet.world.start_worker().await, fleet.world.start().await);
    fleet.restate.kill();
    let client = server.ask();
    client.wait_for("run_started").await;
    fleet.restate.restart();
    let run = fleet.run().await;
    fleet.ends(run, client, [server, worker]).await;
}

/// `NEURAXIS_KILL_SEED` sets the first seed, `NEURAXIS_KILL_ROUNDS` the number of rounds. Each round uses a separate
/// session of the same fleet: two servers, and a worker that is killed twice per round and replaced at the same
/// address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_whose_worker_is_killed_at_random_ends_once() {
    let number = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| text.parse().unwrap())
    };
    let first = number("NEURAXIS_KILL_SEED", 1);
    let rounds = number("NEURAXIS_KILL_ROUNDS", 3);
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let servers = [world.start().await, world.start().await];
    let mut worker = world.start_worker().await;
    let mut paid = 0;
    let mut ended = Vec::new();
    for (place, seed) in (first..first + rounds).enumerate() {
        println!("NEURAXIS_KILL_SEED={seed} NEURAXIS_KILL_ROUNDS=1");
        let session = format!("s{seed}");
        let client = servers[place % 2].ask_in(&session);
        for draw in 0..2 {
            let micros = mixed(seed * 2 + draw) % 200_000;
            tokio::time::sleep(Duration::from_micros(micros)).await;
            worker.kill().await;
            worker = world.start_worker().await;
        }
        let run = fleet.run_of(&session).await;
        world.ended(run).await;
        client.wait_for("final").await;
        ended.push((session, run, client.ended().await));
        let paid_before = std::mem::replace(&mut paid, world.effects("begun", "pay").len());
        assert!(paid - paid_before <= 2, "seed {seed}");
    }
    fleet.is_over().await;
    worker.kill().await;
    for server in servers {
        server.kill().await;
    }
    for (session, run, received) in ended {
        world.check_in(&session, run, &received).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn the_real_program_drives_runs_handed_over_by_the_real_program() {
    let fleet = Fleet::new(Program::Real, one_reading).await;
    let world = &fleet.world;
    let (mut worker, server) = (world.start_worker().await, world.start().await);
    world.model.hold(1, Hold::Before);
    let client = server.ask();
    world.model.was_asked(1).await;
    // It is told to stop, and leaves its run to the next worker.
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.process.wait().await.unwrap().code(), Some(0));
    let next = world.start_worker().await;
    world.model.let_go();
    let run = fleet.run().await;
    fleet.ends(run, client, [server, next]).await;
}
