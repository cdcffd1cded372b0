//! A client that resends its request, with the same key, to any running server.

use neuraxis::core::RunId;
use neuraxis::ports::SessionIndex as _;
use reqwest::StatusCode;
use serde_json::Value;

use crate::approvals::asks_first;
use crate::model::Hold;
use crate::points::{A_MOMENT, two_turns};
use crate::server::Server;
use crate::world::{Kept, Program, World};

pub(crate) const KEY: &str = "booking-17";

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    is_repeat: bool,
    pub(crate) body: Value,
}

/// Takes the clients' turn, with the key.
pub(crate) async fn again(server: &Server, session: &str, message: &str) -> Answer {
    let request = server.request(session, message);
    let response = request.header("idempotency-key", KEY).send().await.unwrap();
    let header = |name: &str| {
        let value = response.headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    Answer {
        status: response.status().as_u16(),
        retry_after: header("retry-after"),
        is_repeat: header("idempotency-replayed").as_deref() == Some("true"),
        body: serde_json::from_str(&response.text().await.unwrap()).unwrap(),
    }
}

impl Answer {
    fn assert_elsewhere(&self, run: RunId) {
        assert_eq!(self.status, StatusCode::CONFLICT, "{}", self.body);
        assert_eq!(self.body["type"], "/errors/at-work-elsewhere");
        assert_eq!(self.body["run_id"], run.to_string());
        let follow = format!("or follow it at /api/v1/runs/{run}/events");
        let detail = self.body["detail"].as_str().unwrap();
        assert!(detail.ends_with(&follow), "{detail}");
        assert_eq!(self.retry_after.as_deref(), Some("5"));
    }

    fn assert_other_message(&self) {
        assert_eq!(
            self.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{}",
            self.body
        );
        assert_eq!(self.body["differs"], serde_json::json!(["message"]));
    }

    pub(crate) fn assert_whole(&self, run: RunId) {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        assert!(self.is_repeat);
        assert_eq!(self.body["run_id"], run.to_string());
        assert_eq!(self.body["reply"], "All is done.");
    }
}

async fn runs(world: &World, session: &str) -> usize {
    let session = session.parse().unwrap();
    world.store.runs(&session).await.unwrap().len()
}

async fn the_server_dies_and_the_request_is_sent_again(kept: Kept) {
    let world = World::new(Program::WithTools, kept, two_turns).await;
    let server = world.start().await;
    world.model.hold(3, Hold::Before);
    let client = server.ask_keyed(KEY);
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    server.kill().await;
    let received = client.received().await;

    let server = world.start().await;
    // No server can know yet that the one that had it is dead.
    again(&server, "s", "go").await.assert_elsewhere(run);
    again(&server, "s", "stop").await.assert_other_message();
    world.model.let_go();
    world.leases_run_out().await;
    again(&server, "s", "go").await.assert_whole(run);
    server.kill().await;

    // From its log, by a server that never drove it.
    let asked = world.model.asked(5);
    let server = world.start().await;
    again(&server, "s", "go").await.assert_whole(run);
    again(&server, "s", "stop").await.assert_other_message();
    let listener = server.ask_keyed(KEY);
    listener.wait_for("final").await;
    server.kill().await;
    let also_received = listener.received().await;
    let records = world.records(run).await;
    let records: Vec<_> = records.iter().map(|record| record.to_json()).collect();
    assert_eq!(also_received, records);
    assert_eq!((runs(&world, "s").await, world.model.asked(5)), (1, asked));
    world.check(run, &received).await;
}

async fn the_server_dies_before_it_began(kept: Kept) {
    let world = World::new(Program::WithTools, kept, two_turns).await;
    let server = world.start().await;
    let locked = world.lock().await;
    let client = server.ask_keyed(KEY);
    tokio::time::sleep(A_MOMENT).await;
    server.kill().await;
    locked.open().await;
    assert!(client.received().await.is_empty());
    world.leases_run_out().await;
    let server = world.start().await;
    let begun = again(&server, "s", "go").await;
    assert_eq!((begun.status, begun.is_repeat), (200, false));
    let run = world.run().await.unwrap();
    again(&server, "s", "go").await.assert_whole(run);
    server.kill().await;
    assert_eq!(runs(&world, "s").await, 1);
    world.check(run, &[]).await;
}

async fn a_waiting_run_waits_after_a_death(kept: Kept) {
    let world = World::new(Program::WithTools, kept, asks_first).await;
    let server = world.start().await;
    let first = again(&server, "s", "go").await;
    assert_eq!(first.body["status"], "waiting");
    let same = again(&server, "s", "go").await;
    assert_eq!(same.body, first.body);
    server.kill().await;
    world.leases_run_out().await;
    let server = world.start().await;
    let later = again(&server, "s", "go").await;
    assert_eq!((later.status, later.is_repeat), (200, true));
    for what in ["run_id", "status", "reply"] {
        assert_eq!(later.body[what], first.body[what]);
    }
    let call = |answer: &Answer| answer.body["pending"][0]["tool_call_id"].clone();
    assert_eq!(call(&later), call(&first));
    assert!(call(&first).is_string());
    server.kill().await;
    assert_eq!(runs(&world, "s").await, 1);
    assert_eq!(world.effects("begun", "pay_asked"), []);
}

async fn two_servers_are_sent_the_same(kept: Kept) {
    let world = World::new(Program::WithTools, kept, two_turns).await;
    let (first, second) = (world.start().await, world.start().await);
    world.model.hold(3, Hold::Before);
    let client = first.ask_keyed(KEY);
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    again(&second, "s", "go").await.assert_elsewhere(run);
    again(&second, "s", "stop").await.assert_other_message();
    world.model.let_go();
    world.ended(run).await;
    again(&second, "s", "go").await.assert_whole(run);
    client.wait_for("final").await;

    // At the same moment: the later one may be refused at first, and succeeds shortly after.
    let (one, other) = tokio::join!(again(&first, "t", "go"), again(&second, "t", "go"));
    for answer in [&one, &other] {
        assert!([200, 409].contains(&answer.status), "{}", answer.body);
    }
    let [one, other] = [
        again(&first, "t", "go").await,
        again(&second, "t", "go").await,
    ];
    let begun = serde_json::from_value(one.body["run_id"].clone()).unwrap();
    one.assert_whole(begun);
    other.assert_whole(begun);
    assert_eq!((runs(&world, "s").await, runs(&world, "t").await), (1, 1));
    first.kill().await;
    second.kill().await;
    world.check(run, &client.received().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_after_a_crash_returns_its_run_on_sqlite() {
    the_server_dies_and_the_request_is_sent_again(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_repeated_request_after_a_crash_returns_its_run_on_postgres() {
    the_server_dies_and_the_request_is_sent_again(Kept::OnServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_starts_a_run_that_never_started_on_sqlite() {
    the_server_dies_before_it_began(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_repeated_request_starts_a_run_that_never_started_on_postgres() {
    the_server_dies_before_it_began(Kept::OnServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_returns_its_waiting_run_after_a_crash_on_sqlite() {
    a_waiting_run_waits_after_a_death(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_repeated_request_returns_its_waiting_run_after_a_crash_on_postgres() {
    a_waiting_run_waits_after_a_death(Kept::OnServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_to_two_servers_starts_one_run_on_sqlite() {
    two_servers_are_sent_the_same(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn the_same_request_to_two_servers_starts_one_run_on_postgres() {
    two_servers_are_sent_the_same(Kept::OnServer).await;
}
