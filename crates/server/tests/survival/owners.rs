//! Two servers on one database, and a database that is temporarily unavailable.

use std::time::{Duration, Instant};

use neuraxis::core::Seq;
use neuraxis::ports::{RunLog as _, SessionIndex as _};
use rustix::process::Signal;

use crate::model::{Hold, Said};
use crate::points::two_turns;
use crate::world::{Kept, Program, World};

/// How long to watch a server that must not write.
const A_WHILE: Duration = Duration::from_millis(300);

async fn a_stalled_server_writes_nothing(kept: Kept) {
    let world = World::new(Program::WithTools, kept, two_turns).await;
    let stalled = world.start().await;
    world.model.hold(3, Hold::Before);
    let client = stalled.ask();
    world.model.was_asked(3).await;
    stalled.signal(Signal::STOP);
    world.model.let_go();
    world.leases_run_out().await;
    let other = world.start().await;
    let run = world.run().await.unwrap();
    world.ended(run).await;
    let records = world.records(run).await;
    stalled.signal(Signal::CONT);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.records(run).await, records);
    // It continues to serve.
    let (status, _) = stalled.turn("another", "go").await;
    assert_eq!(status, 200);
    stalled.kill().await;
    other.kill().await;
    let received = client.received().await;
    world.check(run, &received).await;
}

async fn two_servers_share_a_database(kept: Kept) {
    let world = World::new(Program::WithTools, kept, two_turns).await;
    let first = world.start().await;
    world.model.hold(3, Hold::Before);
    let client = first.ask();
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    let before = world.records(run).await.len();
    let second = world.start().await;
    let (status, text) = second.turn("s", "go").await;
    assert_eq!(status, 409, "{text}");
    assert!(text.contains(&run.to_string()), "{text}");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.records(run).await.len(),
        before,
        "somebody took it over"
    );
    world.model.let_go();
    let (status, _) = second.turn("another", "go").await;
    assert_eq!(status, 200);
    world.ended(run).await;
    client.wait_for("final").await;
    first.kill().await;
    second.kill().await;
    world.check(run, &client.received().await).await;
    assert!(world.store.unfinished().await.unwrap().is_empty());
}

fn at_once(results: usize) -> Said {
    assert_eq!(results, 0);
    Said::Text("All is done.")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_server_writes_nothing_after_it_continues_on_sqlite() {
    a_stalled_server_writes_nothing(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_stalled_server_writes_nothing_after_it_continues_on_postgres() {
    a_stalled_server_writes_nothing(Kept::OnServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_does_not_take_over_live_runs_of_the_first_on_sqlite() {
    two_servers_share_a_database(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_second_server_does_not_take_over_live_runs_of_the_first_on_postgres() {
    two_servers_share_a_database(Kept::OnServer).await;
}

/// The server waits for the store's patience, five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_a_file_that_remains_locked_returns_503_in_time() {
    let world = World::new(Program::Real, Kept::InFile, at_once).await;
    let server = world.start().await;
    let locked = world.lock().await;
    let began = Instant::now();
    let (status, text) = server.turn("new", "go").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("store-unavailable"), "{text}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    locked.open().await;
    let session = "new".parse().unwrap();
    assert!(
        world.store.session(&session).await.is_err(),
        "it was half made"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_continues_after_a_crash_of_the_database_server() {
    let world = World::new(Program::WithTools, Kept::OnServer, two_turns).await;
    let server = world.start().await;
    world.model.hold(3, Hold::Before);
    let client = server.ask();
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    world.database_crashes();
    world.model.let_go();
    client.wait_for("final").await;
    server.kill().await;
    world.check(run, &client.received().await).await;
    let records = world.store.records(run, Seq(0)).await.unwrap();
    let replies = records
        .iter()
        .filter(|record| record.body.kind() == "llm_call");
    assert_eq!(replies.count(), 3);
    assert_eq!(world.effects("begun", "").len(), 5);
}
