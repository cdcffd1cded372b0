//! Points of a run outside its calls: a worker is killed while code inspects a call, after a user has decided, after a
//! client has sent a result, after the run was cancelled, and while it resumes the run; and Restate itself stalls.

use std::sync::Arc;
use std::time::Duration;

use neuraxis::Orchestrator;
use neuraxis::core::{RecordBody, Role, RunStatus};
use neuraxis::ports::SessionIndex as _;
use neuraxis_testkit::ScriptedModel;

use crate::approvals::{approval, asks_first};
use crate::child::{LOOKING, LOOKS};
use crate::fleet::Fleet;
use crate::model::{Hold, Said};
use crate::points::{A_MOMENT, two_turns};
use crate::world::{Program, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn an_approved_call_is_not_repeated_when_its_worker_is_killed() {
    let fleet = Fleet::new(Program::WithTools, asks_first).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.hold_tool("pay_asked");
    let client = server.ask();
    client.wait_for("waiting").await;
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
    world.check(run, &client.received().await).await;
    assert_eq!(world.effects("begun", "pay_asked").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_decision_takes_effect_although_the_worker_is_killed_before_it_arrives() {
    let fleet = Fleet::new(Program::WithTools, asks_first).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = server.ask();
    client.wait_for("waiting").await;
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
    world.check_end(run, &client.received().await).await;
    assert!(world.effects("begun", "pay_asked").len() <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_turn_is_driven_after_a_waiting_run_that_was_closed_without_a_worker() {
    let fleet = Fleet::new(Program::WithTools, asks_first).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = server.ask();
    client.wait_for("waiting").await;
    let run = fleet.run().await;
    world.put_aside(run).await;
    // Like a command, which drives runs itself.
    let command = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(ScriptedModel::new()))
        .store(Arc::new(world.store.clone()));
    let command = command.build().unwrap().runs();
    command.close(run, "somebody ended it").await.unwrap();
    let later = server.ask();
    later.wait_for("final").await;
    fleet.is_over().await;
    for process in [server, worker] {
        process.kill().await;
    }
    let runs = world.store.runs(&"s".parse().unwrap()).await.unwrap();
    let statuses: Vec<_> = runs.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Interrupted, RunStatus::Done]);
    for client in [client, later] {
        client.received().await;
    }
}

/// A worker is killed while its hook inspects the first calls, or afterward, when nothing can be committed.
async fn dies_with_a_look(is_done: bool) {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let looks = [(LOOKS, "1")];
    let (worker, server) = (world.start_worker_with(&looks).await, world.start().await);
    world.hold_tool(LOOKING);
    let client = server.ask();
    let looked = async || world.inspections("pay") > 0 || world.inspections("look") > 0;
    until("a call is looked at", looked).await;
    if is_done {
        let locked = world.lock().await;
        world.let_tools_go();
        let all = async || world.inspections("pay") > 0;
        until("all calls are looked at", all).await;
        tokio::time::sleep(A_MOMENT).await;
        assert_eq!(world.effects("begun", "pay"), [], "before its commit");
        worker.kill().await;
        locked.open().await;
    } else {
        worker.kill().await;
        world.let_tools_go();
    }
    let next = world.start_worker_with(&looks).await;
    let run = fleet.run().await;
    fleet.ends(run, client, [server, next]).await;
    let count = |name| world.effects("begun", name).len();
    assert_eq!([count("look"), count("note"), count("pay")], [2, 1, 2]);
    assert!(world.inspections("pay") >= 2, "each call was looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_call_runs_once_although_the_worker_inspecting_it_is_killed() {
    for is_done in [false, true] {
        dies_with_a_look(is_done).await;
    }
}

fn asks_the_client(results: usize) -> Said {
    match results {
        0 => Said::Calls(&[("look", "{\"n\":1}"), ("weather", "{}")]),
        2 => Said::Text("All is done."),
        other => panic!("a conversation with {other} results"),
    }
}

/// A client sends a result while no worker is running, or to a worker that is killed immediately.
async fn brings_a_result(while_none_lives: bool) {
    let fleet = Fleet::new(Program::WithTools, asks_the_client).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = server.ask_with_tool("weather");
    client.wait_for("waiting").await;
    let run = fleet.run().await;
    let pending = server.pending(run).await;
    let call = pending[0]["tool_call_id"].as_str().unwrap();
    if while_none_lives {
        worker.kill().await;
        assert_eq!(server.submit_result(run, call, "mild").await, 202);
        // It arrived, but the client received no confirmation.
        let again = server.submit_result(run, call, "mild").await;
        assert!([202, 409].contains(&again), "{again}");
    } else {
        let status = server.submit_result(run, call, "mild").await;
        worker.kill().await;
        assert_eq!(status, 202);
    }
    let next = world.start_worker().await;
    world.ended(run).await;
    for process in [server, next] {
        process.kill().await;
    }
    world.check(run, &client.received().await).await;
    let records = world.records(run).await;
    let results = records.iter().filter(|record| match &record.body {
        RecordBody::ToolResult(result) => format!("{result:?}").contains("mild"),
        _ => false,
    });
    assert_eq!(results.count(), 1);
    assert_eq!(world.effects("begun", "look").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_client_result_is_used_once_whatever_happens_to_the_workers() {
    for while_none_lives in [false, true] {
        brings_a_result(while_none_lives).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_cancelled_run_ends_as_cancelled_although_its_worker_is_killed() {
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
    let received = client.ended().await;
    for process in [server, next] {
        process.kill().await;
    }
    world.check_end(run, &received).await;
    let status = world.store.run(run).await.unwrap().status;
    assert_eq!(status, RunStatus::Interrupted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_is_resumed_although_the_workers_resuming_it_are_killed_repeatedly() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (mut worker, server) = (world.start_worker().await, world.start().await);
    world.model.hold(0, Hold::Before);
    let client = server.ask();
    world.model.was_asked(0).await;
    for _ in 0..2 {
        worker.kill().await;
        // Nothing can be written, so the next worker can only start to resume it.
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
async fn a_run_survives_a_stalled_restate() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.hold_tool("note");
    let client = server.ask();
    let begun = async || !world.effects("begun", "note").is_empty();
    until("the tool begins", begun).await;
    fleet.restate.stall();
    world.let_tools_go();
    // A request that arrives meanwhile is accepted, and waits.
    let later = server.ask_in("later");
    later.wait_for("run_started").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    fleet.restate.go_on();
    let run = fleet.run().await;
    let second = fleet.run_of("later").await;
    world.ended(second).await;
    later.wait_for("final").await;
    fleet.ends(run, client, [server, worker]).await;
    world
        .check_in("later", second, &later.received().await)
        .await;
}
