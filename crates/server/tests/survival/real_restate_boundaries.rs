//! Boundaries of a run beside its calls: a worker is killed once a person has decided, once the run was cancelled, and while it
//! takes the run up; and Restate itself stalls.

use std::time::Duration;

use neuraxis::core::RunStatus;
use neuraxis::ports::SessionIndex as _;

use crate::approvals::{approval, asks_first};
use crate::fleet::Fleet;
use crate::model::Hold;
use crate::points::{A_MOMENT, two_turns};
use crate::world::{Program, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_call_that_was_approved_is_not_made_again_when_its_worker_is_killed() {
    let fleet = Fleet::new(Program::WithTools, asks_first).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.hold_tool("pay_asked");
    let client = server.ask();
    client.hears("waiting").await;
    let run = fleet.run().await;
    let asked = approval(world, run, "unused").await;
    let decided = server.decide(run, &asked).await;
    assert!(decided.is_success(), "{decided}");
    let begun = async || !world.effects("begun", "pay_asked").is_empty();
    until("the call begins", begun).await;
    worker.kill().await;
    world.let_tools_go();
    let next = world.start_worker().await;
    world.ended(run).await;
    for process in [server, next] {
        process.kill().await;
    }
    world.check(run, &client.told().await).await;
    assert_eq!(world.effects("begun", "pay_asked").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_decision_counts_though_the_worker_is_killed_before_it_hears_of_it() {
    let fleet = Fleet::new(Program::WithTools, asks_first).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = server.ask();
    client.hears("waiting").await;
    let run = fleet.run().await;
    let asked = approval(world, run, "unused").await;
    let decided = server.decide(run, &asked).await;
    worker.kill().await;
    assert!(decided.is_success(), "{decided}");
    let next = world.start_worker().await;
    world.ended(run).await;
    for process in [server, next] {
        process.kill().await;
    }
    world.check_end(run, &client.told().await).await;
    assert!(world.effects("begun", "pay_asked").len() <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_that_was_cancelled_ends_so_though_its_worker_is_killed() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.hold_tool("note");
    let client = server.ask();
    let begun = async || !world.effects("begun", "note").is_empty();
    until("the tool begins", begun).await;
    let run = fleet.run().await;
    server.cancel(run).await;
    worker.kill().await;
    let next = world.start_worker().await;
    world.ended(run).await;
    let told = client.ended().await;
    for process in [server, next] {
        process.kill().await;
    }
    world.check_end(run, &told).await;
    let status = world.store.run(run).await.unwrap().status;
    assert_eq!(status, RunStatus::Interrupted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_is_taken_up_though_the_worker_that_takes_it_up_is_killed_again_and_again() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (mut worker, server) = (world.start_worker().await, world.start().await);
    world.model.hold(0, Hold::Before);
    let client = server.ask();
    world.model.was_asked(0).await;
    for _ in 0..2 {
        worker.kill().await;
        // Nothing can be written, so that the next one gets no further than to take it up.
        let locked = world.lock().await;
        worker = world.start_worker().await;
        tokio::time::sleep(A_MOMENT).await;
        worker.kill().await;
        locked.open().await;
        worker = world.start_worker().await;
    }
    world.model.let_go();
    let run = fleet.run().await;
    fleet.ends(run, client, [server, worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_outlives_a_restate_that_stalls() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.hold_tool("note");
    let client = server.ask();
    let begun = async || !world.effects("begun", "note").is_empty();
    until("the tool begins", begun).await;
    fleet.restate.stall();
    world.let_tools_go();
    // A request that comes meanwhile is taken, and waits.
    let later = server.ask_in("later");
    later.hears("run_started").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    fleet.restate.go_on();
    let run = fleet.run().await;
    let second = fleet.run_of("later").await;
    world.ended(second).await;
    later.hears("final").await;
    fleet.ends(run, client, [server, worker]).await;
    world.check_in("later", second, &later.told().await).await;
}
