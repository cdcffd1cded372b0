//! A run that cannot be recorded, or that another server has taken over, has not failed: no client is told so, and
//! nothing more is done on its behalf.

use std::time::{Duration, Instant};

use neuraxis::core::RunId;
use neuraxis::ports::SessionIndex as _;
use rustix::process::Signal;

use crate::idempotency::{Answer, KEY, again};
use crate::model::Hold;
use crate::points::two_turns;
use crate::server::Server;
use crate::world::{Kept, Program, Terms, World, until};

/// The shortest possible lease.
const SHORT: &str = "lease_ms = 1000\npatience_ms = 300";

async fn on(kept: Kept) -> World {
    let terms = Terms {
        store: SHORT,
        ..Terms::default()
    };
    World::on(Program::WithTools, kept, two_turns, terms).await
}

/// Takes a turn for which the client wants only the result.
fn asked(server: &Server) -> tokio::task::JoinHandle<reqwest::Response> {
    let request = server.request("s", "go").header("idempotency-key", KEY);
    tokio::spawn(async move { request.send().await.unwrap() })
}

/// Checks that the client learns that the run continues, and nothing about where it is stored.
async fn is_told_that_it_goes_on(world: &World, response: reqwest::Response, run: RunId) {
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "5");
    let text = response.text().await.unwrap();
    let body: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(body["type"], "/errors/run-unrecorded", "{text}");
    assert_eq!(body["run_id"], run.to_string());
    assert_eq!(body["session_id"], "s");
    let folder = world.folder().display().to_string();
    for secret in [&*folder, "sessions.db", "postgres"] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// Resends the request until the run has ended.
async fn comes_to_its_end(server: &Server) -> Answer {
    let began = Instant::now();
    loop {
        let answer = again(server, "s", "go").await;
        if answer.status == 200 {
            return answer;
        }
        assert_eq!(answer.body["type"], "/errors/at-work-elsewhere");
        assert!(began.elapsed() < Duration::from_secs(30), "in vain");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A server is suspended while a tool runs, until another one has ended its run.
async fn a_stalled_server(kept: Kept) {
    let world = on(kept).await;
    let stalled = world.start().await;
    world.hold_tool("pay");
    let client = asked(&stalled);
    until("the tool begins", async || {
        !world.effects("begun", "pay").is_empty()
    })
    .await;
    let run = world.run().await.unwrap();
    stalled.signal(Signal::STOP);
    // So the other one does not reach the next call of the tool, which would be held up too.
    world.model.hold(3, Hold::Before);
    let other = world.start().await;
    until("the run is taken over", async || world.model.asked(3) > 0).await;
    let records = world.records(run).await;
    stalled.signal(Signal::CONT);
    let answer = tokio::time::timeout(Duration::from_secs(20), client).await;
    is_told_that_it_goes_on(&world, answer.unwrap().unwrap(), run).await;
    assert_eq!(world.records(run).await, records);
    world.let_tools_go();
    world.model.let_go();
    // Anything that the stalled server had started would be done now.
    let (status, _) = stalled.turn("another", "go").await;
    assert_eq!(status, 200);
    let of_run = &world.effects("begun", "pay")[0];
    assert!(!world.effects("done", "pay").contains(of_run));
    comes_to_its_end(&stalled).await.assert_whole(run);
    stalled.kill().await;
    other.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_server_stops_its_work_and_reports_that_the_run_continues_on_sqlite() {
    a_stalled_server(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_stalled_server_stops_its_work_and_reports_that_the_run_continues_on_postgres() {
    a_stalled_server(Kept::OnServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_disk_is_not_reported_to_the_client_as_a_failed_run() {
    let world = World::new(Program::WithTools, Kept::InFile, two_turns).await;
    let server = world.start_with_blocks(2_000).await;
    world.model.hold(3, Hold::Before);
    let client = asked(&server);
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    world.fill(2_000_000).await;
    world.model.let_go();
    is_told_that_it_goes_on(&world, client.await.unwrap(), run).await;
    is_ready(&server, 503).await;
    server.kill().await;
    world.leases_run_out().await;
    let server = world.start().await;
    comes_to_its_end(&server).await.assert_whole(run);
    server.kill().await;
    world.check(run, &[]).await;
    assert_eq!(world.effects("begun", "").len(), 5);
}

/// Two servers are running, and one of them works for longer than its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_lease_is_held_by_a_living_server() {
    let world = on(Kept::InFile).await;
    let (first, second) = (world.start().await, world.start().await);
    world.hold_tool("look");
    let client = first.ask();
    until("the tool begins", async || {
        !world.effects("begun", "look").is_empty()
    })
    .await;
    let run = world.run().await.unwrap();
    let began = Instant::now();
    until("the lease is over more than once", async || {
        assert!(world.store.unfinished().await.unwrap().is_empty());
        began.elapsed() > Duration::from_millis(2_500)
    })
    .await;
    world.let_tools_go();
    world.ended(run).await;
    client.wait_for("final").await;
    first.kill().await;
    second.kill().await;
    world.check(run, &client.received().await).await;
    let records = world.records(run).await;
    let kinds = records.iter().map(|record| record.body.kind());
    assert!(!kinds.collect::<Vec<_>>().contains(&"resumed"));
}

async fn is_ready(server: &Server, status: u16) {
    let url = format!("{}/readyz", server.url);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut answer = String::new();
    until("the server says so", async || {
        let response = http.get(&url).send().await.unwrap();
        let found = response.status();
        answer = response.text().await.unwrap();
        found == status
    })
    .await;
    let expected = match status {
        200 => "\"status\":\"ok\"",
        _ => "/errors/store-unavailable",
    };
    assert!(answer.contains(expected), "{answer}");
}

async fn a_server_is_ready_while_its_store_is(kept: Kept) {
    let world = on(kept).await;
    let server = world.start().await;
    is_ready(&server, 200).await;
    let locked = world.lock().await;
    is_ready(&server, 503).await;
    locked.open().await;
    is_ready(&server, 200).await;
    server.kill().await;
    let log = std::fs::read_to_string(world.folder().join("log")).unwrap();
    let reports = log.matches("not ready: the store accepts no records");
    assert_eq!(reports.count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_ready_only_while_its_file_accepts_records() {
    a_server_is_ready_while_its_store_is(Kept::InFile).await;
}
