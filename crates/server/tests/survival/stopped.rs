//! A server that is told to stop while a run is in progress that does not end in time.

use std::time::{Duration, Instant};

use neuraxis::ports::SessionIndex as _;
use rustix::process::Signal;

use crate::model::Hold;
use crate::points::one_reading;
use crate::world::{Kept, Program, World};

/// The earliest time after which the supervisor kills a server that it told to stop.
const PATIENCE: Duration = Duration::from_secs(10);

async fn the_next_server_goes_on(kept: Kept) {
    let world = World::new(Program::Real, kept, one_reading).await;
    let mut server = world.start().await;
    world.model.hold(1, Hold::Before);
    let client = server.ask_keyed("k");
    world.model.was_asked(1).await;
    let run = world.run().await.unwrap();
    let before = world.records(run).await;
    let began = Instant::now();
    server.signal(Signal::TERM);
    let status = server.process.wait().await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    let received = client.received().await;
    assert_eq!(
        world.records(run).await,
        before,
        "nothing is recorded of it"
    );
    let left = world.store.unfinished().await.unwrap();
    assert_eq!(left.len(), 1, "its lease need not run out: {left:?}");

    world.model.let_go();
    let next = world.start().await;
    let client = next.ask_keyed("k");
    client.wait_for("final").await;
    world.ended(run).await;
    next.kill().await;
    let received_again = client.received().await;
    world.check(run, &received).await;
    world.check(run, &received_again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_server_resumes_a_run_of_a_stopped_one_at_once_on_sqlite() {
    the_next_server_goes_on(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn the_next_server_resumes_a_run_of_a_stopped_one_at_once_on_postgres() {
    the_next_server_goes_on(Kept::OnServer).await;
}
