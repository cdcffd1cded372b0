//! Several servers on one Postgres, of which one is killed in the middle of its runs: each run ends once, its listeners
//! receive the rest from another server, and requests for a run reach it through another server.

use std::collections::HashSet;
use std::time::Duration;

use neuraxis::ports::SessionIndex as _;
use serde_json::{Value, json};

use crate::approvals::{approval, asks_first};
use crate::child::TOKEN;
use crate::model::{Hold, Said};
use crate::points::two_turns;
use crate::server::Server;
use crate::world::{Kept, Program, Terms, World, until};

/// How many sessions have a run when a server dies.
const SESSIONS: usize = 12;

pub(crate) async fn world(script: fn(usize) -> Said) -> World {
    let terms = Terms {
        store: "lease_ms = 1000",
        ..Terms::default()
    };
    World::on(Program::WithTools, Kept::OnServer, script, terms).await
}

/// Returns the number of a received record.
fn seq(record: &str) -> u64 {
    let record: Value = serde_json::from_str(record).unwrap();
    record["seq"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_ends_once_although_the_database_stalls_for_longer_than_its_lease() {
    let world = world(two_turns).await;
    let (first, second) = (world.start().await, world.start().await);
    world.model.hold(3, Hold::Before);
    let client = first.ask();
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    world.database_stalls();
    world.model.let_go();
    tokio::time::sleep(Duration::from_secs(7)).await;
    world.database_goes_on();
    world.ended(run).await;
    let elsewhere = second.follow(run, 0);
    elsewhere.wait_for("final").await;
    first.kill().await;
    second.kill().await;
    world.check(run, &client.received().await).await;
    world.check(run, &elsewhere.received().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_listener_of_a_killed_server_resumes_at_another_without_loss_or_repetition() {
    let world = world(two_turns).await;
    let first = world.start().await;
    let second = world.start().await;
    world.model.hold(3, Hold::Before);
    let client = first.ask();
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    // Another client follows the run on a server that does not drive it.
    let elsewhere = second.follow(run, 0);
    elsewhere.wait_for("tool_result").await;
    first.kill().await;
    world.model.let_go();
    let mut received = client.received().await;
    let last = received.last().map_or(0, |received| seq(received));
    let rest = second.follow(run, last);
    rest.wait_for("final").await;
    elsewhere.wait_for("final").await;
    world.ended(run).await;
    let rest = rest.ended().await;
    assert!(
        rest.iter().all(|received| seq(received) > last),
        "a repeat after {last}"
    );
    received.extend(rest);
    let records = world.records(run).await;
    let records: Vec<String> = records.iter().map(|record| record.to_json()).collect();
    assert_eq!(received, records);
    assert_eq!(elsewhere.ended().await, records);
    second.kill().await;
    world.check(run, &received).await;
    assert_eq!(world.effects("begun", "pay").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_question_of_one_server_can_be_decided_at_another_after_the_first_died() {
    let world = world(asks_first).await;
    let first = world.start().await;
    let second = world.start().await;
    let client = first.ask();
    client.wait_for("waiting").await;
    let run = world.run().await.unwrap();
    world.put_aside(run).await;
    first.kill().await;
    let asked = approval(&world, run, "unused").await;
    let decided = second.decide(run, &asked).await;
    assert!(decided.is_success(), "{decided}");
    world.ended(run).await;
    second.kill().await;
    world.check(run, &client.received().await).await;
    assert_eq!(world.effects("begun", "pay_asked").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn each_of_many_runs_ends_once_although_one_of_three_servers_is_killed() {
    let world = world(two_turns).await;
    let mut servers = vec![
        world.start().await,
        world.start().await,
        world.start().await,
    ];
    world.hold_tool("note");
    let began = (0..SESSIONS).map(|number| {
        let server = &servers[number % servers.len()];
        server.ask_in(&format!("s{number}"))
    });
    let clients: Vec<_> = began.collect();
    until("all runs are at work", async || {
        world.effects("begun", "note").len() == SESSIONS
    })
    .await;
    servers.remove(0).kill().await;
    world.let_tools_go();
    let mut ended = Vec::new();
    for number in 0..SESSIONS {
        let session = format!("s{number}");
        let id = session.parse().unwrap();
        until("the run ends", async || {
            let runs = world.store.runs(&id).await.unwrap();
            runs.len() == 1 && runs[0].ended_at.is_some()
        })
        .await;
        ended.push((session.clone(), world.run_of(&session).await.unwrap()));
    }
    let paid = world.effects("begun", "pay");
    let once: HashSet<_> = paid.iter().collect();
    assert_eq!((paid.len(), once.len()), (2 * SESSIONS, 2 * SESSIONS));
    for server in servers {
        server.kill().await;
    }
    for ((session, run), client) in ended.into_iter().zip(clients) {
        // The clients of the dead server lost their connections; the others received the end.
        world
            .check_in(&session, run, &client.received().await)
            .await;
    }
    assert!(world.store.unfinished().await.unwrap().is_empty());
}

impl Server {
    /// Decides about a call, as a user does who was shown it.
    pub(crate) async fn decide(
        &self,
        run: neuraxis::core::RunId,
        asked: &neuraxis::core::ApprovalDecided,
    ) -> reqwest::StatusCode {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let call = &asked.tool_call_id;
        let pending = self.pending(run).await;
        let is_it = |waiting: &&serde_json::Value| waiting["tool_call_id"] == call.as_str();
        let question = &pending.iter().find(is_it).unwrap()["question"];
        let decision = json!({"decision": "approve", "question": question});
        let decided = http
            .post(format!("{}/api/v1/runs/{run}/approvals/{call}", self.url))
            .header("content-type", "application/json")
            .bearer_auth(TOKEN)
            .body(decision.to_string());
        decided.send().await.unwrap().status()
    }
}
