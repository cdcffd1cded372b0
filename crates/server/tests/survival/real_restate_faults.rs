//! Faults of workers, Restate and Postgres while runs are driven, and user actions on these runs meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use neuraxis::core::{InboxEntry, InboxInput, RunStatus};
use neuraxis::ports::{RunLog as _, SessionIndex as _};
use rustix::process::Signal;
use serde_json::json;

use crate::approvals::{approval, asks_first};
use crate::fleet::{Balancer, Fleet};
use crate::model::Hold;
use crate::points::two_turns;
use crate::server::{Client, Server};
use crate::world::{Program, until};

/// How long a database is unavailable: `patience_ms` is 5,000.
const LONGER_THAN_A_STATEMENT: Duration = Duration::from_secs(7);

/// Starts a worker whose tools use another folder, and a server whose runs may read the files of its folder.
async fn of_other_folders(fleet: &Fleet, elsewhere: &Path) -> (Server, Server) {
    let root = elsewhere.to_str().unwrap();
    let variables = [("NEURAXIS_TOOLS__ROOT", root)];
    let worker = fleet.world.start_worker_with(&variables).await;
    let mut server = fleet.world.start().await;
    server.channel = "code_task";
    (worker, server)
}

/// Makes a run reach a tool that is held up.
async fn held(fleet: &Fleet, server: &Server, tool: &'static str) -> Client {
    fleet.world.hold_tool(tool);
    let client = server.ask();
    let begun = async || !fleet.world.effects("begun", tool).is_empty();
    until("the tool begins", begun).await;
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_with_a_stalled_worker_continues_elsewhere_and_that_worker_writes_no_more() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let balancer = Balancer::start().await;
    let (stalled, server) = (balancer.start_worker(world).await, world.start().await);
    let client = held(&fleet, &server, "note").await;
    stalled.signal(Signal::STOP);
    let began = Instant::now();
    let next = balancer.start_worker(world).await;
    world.let_tools_go();
    let run = fleet.run().await;
    world.ended(run).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    stalled.signal(Signal::CONT);
    fleet.ends(run, client, [server, next, stalled]).await;
    assert_eq!(world.effects("begun", "pay").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn cancelling_an_invocation_ends_the_call_in_progress() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    // It is held until the test ends.
    let client = held(&fleet, &server, "note").await;
    let run = fleet.run().await;
    let query = "SELECT id FROM sys_invocation WHERE target_handler_name = 'drive'";
    let invocation = fleet.query(query).await.remove(0);
    let id = invocation["id"].as_str().unwrap().to_owned();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/invocations/{id}/cancel", fleet.restate.admin());
    let answer = http.patch(url).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    let began = Instant::now();
    world.ended(run).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert_eq!(
        world.store.run(run).await.unwrap().status,
        RunStatus::Interrupted
    );
    fleet.is_over().await;
    let received = client.ended().await;
    for process in [server, worker] {
        process.kill().await;
    }
    world.check_end(run, &received).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_worker_learns_of_a_cancellation_long_before_it_renews_its_lease() {
    // If this depended on renewing the lease, the run would notice nothing for a third of this time.
    let fleet = Fleet::on(Program::WithTools, two_turns, "lease_ms = 60000", "").await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = held(&fleet, &server, "note").await;
    let run = fleet.run().await;
    let began = Instant::now();
    server.cancel(run).await;
    world.ended(run).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    let received = client.ended().await;
    for process in [server, worker] {
        process.kill().await;
    }
    world.check_end(run, &received).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_refused_by_every_worker_ends_and_its_client_receives_the_reason() {
    let fleet = Fleet::with(Program::WithTools, two_turns, "refuse_ms = 1000").await;
    let world = &fleet.world;
    let elsewhere = tempfile::tempdir().unwrap();
    let (worker, server) = of_other_folders(&fleet, elsewhere.path()).await;
    let client = server.ask();
    let run = fleet.run().await;
    world.ended(run).await;
    let received = client.ended().await;
    let last = received.last().unwrap();
    assert!(last.contains("no worker can resume it"), "{last}");
    fleet.is_over().await;
    for process in [server, worker] {
        process.kill().await;
    }
    world.check_end(run, &received).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_refused_by_one_worker_is_resumed_by_another() {
    let fleet = Fleet::with(Program::WithTools, two_turns, "refuse_ms = 60000").await;
    let world = &fleet.world;
    let elsewhere = tempfile::tempdir().unwrap();
    let (other, server) = of_other_folders(&fleet, elsewhere.path()).await;
    let client = server.ask();
    let run = fleet.run().await;
    until("it is refused", async || {
        fleet
            .invocations()
            .await
            .iter()
            .any(|it| it == "backing-off")
    })
    .await;
    other.kill().await;
    let worker = world.start_worker().await;
    fleet.ends(run, client, [server, worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_step_that_exceeds_its_time_is_abandoned_and_its_call_is_not_repeated() {
    let times = "inactivity_ms = 500\nabort_ms = 500";
    let fleet = Fleet::with(Program::WithTools, two_turns, times).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = held(&fleet, &server, "pay").await;
    let run = fleet.run().await;
    until("the step is given up", async || {
        let records = world.records(run).await;
        records.iter().any(|record| record.body.kind() == "resumed")
    })
    .await;
    world.let_tools_go();
    fleet.ends(run, client, [server, worker]).await;
    assert_eq!(world.effects("begun", "pay").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_survives_a_crash_of_its_database() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.model.hold(3, Hold::Before);
    let client = server.ask();
    world.model.was_asked(3).await;
    let run = fleet.run().await;
    world.database_crashes();
    world.model.let_go();
    fleet.ends(run, client, [server, worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_survives_a_database_stall_longer_than_any_timeout() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.model.hold(3, Hold::Before);
    let client = server.ask();
    world.model.was_asked(3).await;
    let run = fleet.run().await;
    world.database_stalls();
    world.model.let_go();
    tokio::time::sleep(LONGER_THAN_A_STATEMENT).await;
    world.database_goes_on();
    fleet.ends(run, client, [server, worker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_call_approved_while_everything_is_down_runs_once_everything_is_back() {
    let mut fleet = Fleet::new(Program::WithTools, asks_first).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = server.ask();
    client.wait_for("waiting").await;
    let run = fleet.run().await;
    world.put_aside(run).await;
    worker.kill().await;
    server.kill().await;
    let received = client.received().await;
    fleet.restate.kill();
    let world = &fleet.world;
    let approved = world.sign(run, approval(world, run, "approved").await);
    let entry = InboxEntry::new(InboxInput::ApprovalDecided(approved));
    world.store.post(run, &entry).await.unwrap();
    fleet.restate.restart();
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    world.ended(run).await;
    fleet.is_over().await;
    for process in [server, worker] {
        process.kill().await;
    }
    world.check(run, &received).await;
    assert_eq!(world.effects("begun", "pay_asked").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn a_run_handed_over_again_and_woken_needlessly_ends_once() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let (worker, server) = (world.start_worker().await, world.start().await);
    let client = held(&fleet, &server, "note").await;
    let run = fleet.run().await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let send = async |session: &str, handler: &str, key: &str, body: serde_json::Value| {
        let ingress = fleet.restate.ingress();
        let url = format!("{ingress}/restate/send/NeuraxisSession/{session}/{handler}");
        let asked = http
            .post(url)
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        let answer = asked.body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    };
    // Twice with its own session, whose object handles them in sequence, and once with another session.
    send("s", "drive", "other", json!({ "run": run })).await;
    send("elsewhere", "drive", "another", json!({ "run": run })).await;
    let query = "SELECT id FROM sys_invocation WHERE target_service_key = 's'";
    for invocation in fleet.query(query).await {
        let woken = json!({ "invocation": invocation["id"] });
        send("s", "wake", &invocation["id"].to_string(), woken).await;
    }
    world.let_tools_go();
    fleet.ends(run, client, [server, worker]).await;
    assert_eq!(world.effects("begun", "pay").len(), 2);
    assert_eq!(world.effects("begun", "note").len(), 1);
}
