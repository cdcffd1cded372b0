//! Text received word by word through Postgres by a process other than the one that drives its run: at each of several
//! servers, at a server whose runs are driven by Restate workers, and while the process that drives a run dies.

use std::sync::{Arc, Mutex};

use neuraxis::core::RunId;
use reqwest::RequestBuilder;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::fleet::Fleet;
use crate::model::{Hold, Said};
use crate::points::{one_reading, two_turns};
use crate::server::Server;
use crate::world::{Kept, Program, Terms, World, until};

/// The first words of the model's answer, after which it is held up.
const FIRST: &str = "All is";

const ANSWER: &str = "All is done.";

/// A listener to all events of a run, including live ones.
struct Listener {
    received: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Listener {
    fn of(request: RequestBuilder) -> Self {
        let received = Arc::<Mutex<Vec<Value>>>::default();
        let writer = Arc::clone(&received);
        let task = tokio::spawn(async move {
            let sent = request.header("accept", "text/event-stream").send();
            let mut response = sent.await.unwrap();
            assert_eq!(response.status(), 200);
            let mut buffer = Vec::new();
            while let Ok(Some(chunk)) = response.chunk().await {
                buffer.extend_from_slice(&chunk);
                while let Some(end) = buffer.windows(2).position(|it| it == b"\n\n") {
                    let frame: Vec<u8> = buffer.drain(..end + 2).collect();
                    let frame = String::from_utf8(frame).unwrap();
                    let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
                    let data = data.map(|data| serde_json::from_str(data).unwrap());
                    writer.lock().unwrap().extend(data);
                }
            }
        });
        Self { received, task }
    }

    /// Follows a run from its first record on.
    fn following(server: &Server, run: RunId) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self::of(http.get(format!("{}/api/v1/runs/{run}/events", server.url)))
    }

    /// Returns the current text.
    fn text(&self) -> String {
        text_of(&self.received.lock().unwrap())
    }

    /// Waits until the text is this.
    async fn wait_for(&self, text: &str) {
        until(text, async || self.text() == text).await;
    }

    /// Returns all events, once the stream has ended.
    async fn ended(self) -> Vec<Value> {
        self.task.await.unwrap();
        Arc::into_inner(self.received)
            .unwrap()
            .into_inner()
            .unwrap()
    }
}

/// Joins the pieces of text as a client does that does not interpret records.
fn text_of(events: &[Value]) -> String {
    let mut text = String::new();
    for event in events {
        match event["type"].as_str() {
            Some("text_delta") => text.push_str(event["text"].as_str().unwrap()),
            Some("text_retracted") => text.clear(),
            _ => {}
        }
    }
    text
}

/// Checks that text came once and before the record that settles it, and that no record is missing.
fn check(events: &[Value]) {
    let is_settled =
        |event: &Value| event["type"] == "llm_call" && event["reply"].to_string().contains(ANSWER);
    let settled = events.iter().position(is_settled).unwrap();
    assert_eq!(text_of(&events[..settled]), ANSWER, "{events:?}");
    assert_eq!(text_of(events), ANSWER, "{events:?}");
    let numbers: Vec<u64> = events.iter().filter_map(|it| it["seq"].as_u64()).collect();
    let expected: Vec<u64> = (1..=numbers.len().try_into().unwrap()).collect();
    assert_eq!(numbers, expected);
    assert_eq!(events.last().unwrap()["type"], "final");
}

async fn world(program: Program, script: fn(usize) -> Said, store: &str) -> World {
    let terms = Terms {
        store,
        ..Terms::default()
    };
    World::on(program, Kept::OnServer, script, terms).await
}

/// Replies with the answer only.
fn at_once(_: usize) -> Said {
    Said::Text(ANSWER)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn live_text_arrives_in_pieces_at_each_server() {
    let world = world(Program::Real, one_reading, "").await;
    let (driving, other) = (world.start().await, world.start().await);
    world.model.hold(1, Hold::Amid);
    let client = Listener::of(driving.request("s", "go"));
    world.model.was_asked(1).await;
    let run = world.run().await.unwrap();
    let listeners = [
        Listener::following(&other, run),
        Listener::following(&other, run),
        Listener::following(&driving, run),
    ];
    // The model has not said the rest yet.
    client.wait_for(FIRST).await;
    for listener in &listeners {
        listener.wait_for(FIRST).await;
    }
    // A late subscriber receives what was said before.
    let late = Listener::following(&other, run);
    late.wait_for(FIRST).await;
    world.model.let_go();
    for listener in listeners.into_iter().chain([client, late]) {
        check(&listener.ended().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn without_live_text_another_server_streams_only_records() {
    let world = world(Program::Real, one_reading, "live = false").await;
    let (driving, other) = (world.start().await, world.start().await);
    world.model.hold(1, Hold::Amid);
    let client = Listener::of(driving.request("s", "go"));
    client.wait_for(FIRST).await;
    let run = world.run().await.unwrap();
    let listener = Listener::following(&other, run);
    world.model.let_go();
    check(&client.ended().await);
    let events = listener.ended().await;
    assert_eq!(text_of(&events), "");
    assert_eq!(events.last().unwrap()["content"], ANSWER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn text_of_a_killed_server_is_retracted_and_repeated_by_the_one_that_resumes() {
    let world = world(Program::WithTools, at_once, "lease_ms = 1000").await;
    let (first, second) = (world.start().await, world.start().await);
    world.model.hold(0, Hold::Amid);
    let client = Listener::of(first.request("s", "go"));
    client.wait_for(FIRST).await;
    let run = world.run().await.unwrap();
    let listener = Listener::following(&second, run);
    listener.wait_for(FIRST).await;
    first.kill().await;
    world.model.let_go();
    let events = listener.ended().await;
    assert!(events.iter().any(|event| event["type"] == "text_retracted"));
    check(&events);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn text_between_calls_arrives_in_order_at_another_server() {
    let world = world(Program::WithTools, two_turns, "lease_ms = 1000").await;
    let (driving, other) = (world.start().await, world.start().await);
    world.model.hold(0, Hold::Amid);
    let client = driving.ask();
    world.model.was_asked(0).await;
    until("there is a run", async || world.run().await.is_some()).await;
    let run = world.run().await.unwrap();
    let listener = Listener::following(&other, run);
    listener.wait_for("I look. ").await;
    world.model.let_go();
    world.ended(run).await;
    let events = listener.ended().await;
    let kinds: Vec<&str> = events.iter().filter_map(|it| it["type"].as_str()).collect();
    let first = |kind: &str| kinds.iter().position(|it| *it == kind).unwrap();
    assert!(first("run_started") < first("text_delta"));
    assert!(first("text_delta") < first("llm_call"), "{kinds:?}");
    assert!(first("llm_call") < first("tool_call"));
    client.wait_for("final").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn live_text_of_a_worker_arrives_in_pieces_at_each_server() {
    let fleet = Fleet::new(Program::Real, one_reading).await;
    let world = &fleet.world;
    let _worker = world.start_worker().await;
    let (asked, other) = (world.start().await, world.start().await);
    world.model.hold(1, Hold::Amid);
    let client = Listener::of(asked.request("s", "go"));
    let run = fleet.run().await;
    let listener = Listener::following(&other, run);
    client.wait_for(FIRST).await;
    listener.wait_for(FIRST).await;
    world.model.let_go();
    check(&client.ended().await);
    check(&listener.ended().await);
}
