//! Each named point of a run with several calls.

use std::time::Duration;

use crate::model::{Hold, Said};
use crate::server::{Client, Server};
use crate::world::{Kept, Program, World, until};

/// Two turns with calls, and an answer.
pub(crate) fn two_turns(results: usize) -> Said {
    match results {
        0 => Said::Calls(&[
            ("look", "{\"n\":1}"),
            ("note", "{\"n\":2}"),
            ("pay", "{\"n\":3}"),
        ]),
        3 => Said::Calls(&[("pay", "{\"n\":4}"), ("look", "{\"n\":5}")]),
        5 => Said::Text("All is done."),
        other => panic!("a conversation with {other} results"),
    }
}

/// What the real program can do: one turn with a read-only tool.
pub(crate) fn one_reading(results: usize) -> Said {
    match results {
        0 => Said::Calls(&[("system_health", "{\"sections\":[\"errors\"]}")]),
        1 => Said::Text("All is done."),
        other => panic!("a conversation with {other} results"),
    }
}

/// How long a server that cannot commit is left running before it is killed, during which it could do something
/// forbidden.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(60);

/// The points at which a run is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    BeforeItsFirstCommit,
    AfterItBegan,
    DuringAModelCall,
    AfterAReplyBeforeItsCommit,
    WhileAToolRuns(&'static str),
    AfterAToolBeforeItsCommit(&'static str),
    BetweenBatches,
    DuringTheLastAnswer,
    AfterTheLastAnswerBeforeItsCommit,
    AfterTheEndBeforeItIsTold,
}

const POINTS: [Point; 14] = [
    Point::BeforeItsFirstCommit,
    Point::AfterItBegan,
    Point::DuringAModelCall,
    Point::AfterAReplyBeforeItsCommit,
    Point::WhileAToolRuns("look"),
    Point::WhileAToolRuns("note"),
    Point::WhileAToolRuns("pay"),
    Point::AfterAToolBeforeItsCommit("look"),
    Point::AfterAToolBeforeItsCommit("note"),
    Point::AfterAToolBeforeItsCommit("pay"),
    Point::BetweenBatches,
    Point::DuringTheLastAnswer,
    Point::AfterTheLastAnswerBeforeItsCommit,
    Point::AfterTheEndBeforeItIsTold,
];

/// Lets the server reach a point, kills it there, and returns what the client received.
async fn killed_at(world: &World, point: Point, server: Server, last: usize) -> Vec<String> {
    let model = &world.model;
    let client = match point {
        Point::BeforeItsFirstCommit => {
            let locked = world.lock().await;
            let client = server.ask();
            tokio::time::sleep(A_MOMENT).await;
            server.kill().await;
            locked.open().await;
            return client.received().await;
        }
        Point::AfterItBegan => {
            model.hold(0, Hold::Before);
            let client = server.ask();
            client.wait_for("run_started").await;
            client
        }
        Point::DuringAModelCall => asked(world, &server, 0, Hold::Amid).await,
        Point::AfterAReplyBeforeItsCommit => {
            return killed_before_commit(world, server, 0, 1).await;
        }
        Point::WhileAToolRuns(tool) => {
            world.hold_tool(tool);
            let client = server.ask();
            until("the tool begins", async || {
                !world.effects("begun", tool).is_empty()
            })
            .await;
            client
        }
        Point::AfterAToolBeforeItsCommit(tool) => {
            world.hold_tool(tool);
            let client = server.ask();
            until("the tool begins", async || {
                !world.effects("begun", tool).is_empty()
            })
            .await;
            let locked = world.lock().await;
            world.let_tools_go();
            until("the tool is done", async || {
                !world.effects("done", tool).is_empty()
            })
            .await;
            tokio::time::sleep(A_MOMENT).await;
            server.kill().await;
            locked.open().await;
            return client.received().await;
        }
        Point::BetweenBatches => asked(world, &server, 3, Hold::Before).await,
        Point::DuringTheLastAnswer => asked(world, &server, last, Hold::Amid).await,
        Point::AfterTheLastAnswerBeforeItsCommit => {
            let replies = if last == 1 { 2 } else { 3 };
            return killed_before_commit(world, server, last, replies).await;
        }
        Point::AfterTheEndBeforeItIsTold => {
            let client = server.ask();
            until("there is a run", async || world.run().await.is_some()).await;
            world.ended(world.run().await.unwrap()).await;
            client
        }
    };
    server.kill().await;
    model.let_go();
    world.let_tools_go();
    client.received().await
}

/// Takes a turn, and waits until the model is called with this many results.
async fn asked(world: &World, server: &Server, results: usize, at: Hold) -> Client {
    world.model.hold(results, at);
    let client = server.ask();
    world.model.was_asked(results).await;
    if at == Hold::Amid {
        // The first words are on their way.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client
}

/// Kills a server that has a reply and cannot commit it.
async fn killed_before_commit(
    world: &World,
    server: Server,
    results: usize,
    replies: usize,
) -> Vec<String> {
    let client = asked(world, &server, results, Hold::Before).await;
    let locked = world.lock().await;
    world.model.let_go();
    world.model.has_given(replies).await;
    tokio::time::sleep(A_MOMENT).await;
    server.kill().await;
    locked.open().await;
    client.received().await
}

async fn dies_at(point: Point, kept: Kept) {
    let world = World::new(Program::WithTools, kept, two_turns).await;
    let server = world.start().await;
    let received = killed_at(&world, point, server, 5).await;
    world.leases_run_out().await;
    let before = world.run().await;
    assert_eq!(
        before.is_none(),
        point == Point::BeforeItsFirstCommit,
        "{point:?}"
    );
    let asked = [0, 3, 5].map(|results| world.model.asked(results));
    let committed = match before {
        Some(run) => replies(&world, run).await,
        None => 0,
    };
    let server = world.start().await;
    if before.is_none() {
        assert!(received.is_empty(), "{received:?}");
        // Nothing remains that would block this.
        server.ask().wait_for("final").await;
    }
    let run = world.run().await.unwrap();
    world.ended(run).await;
    server.kill().await;
    world.check(run, &received).await;
    calls_were_made_as_often_as_they_may(&world, point);
    for (turn, results) in [0, 3, 5].into_iter().enumerate() {
        let again = world.model.asked(results) - asked[turn];
        assert_eq!(
            again,
            usize::from(turn >= committed),
            "{point:?}: turn {turn}"
        );
    }
}

/// Returns how many replies of the model were committed.
async fn replies(world: &World, run: neuraxis::core::RunId) -> usize {
    let records = world.records(run).await;
    let replies = records
        .iter()
        .filter(|record| record.body.kind() == "llm_call");
    replies.count()
}

fn calls_were_made_as_often_as_they_may(world: &World, point: Point) {
    let count = |name| world.effects("begun", name).len();
    assert!(
        (2..=3).contains(&count("look")),
        "{point:?}: {}",
        count("look")
    );
    assert!(
        (1..=2).contains(&count("note")),
        "{point:?}: {}",
        count("note")
    );
    assert_eq!(count("pay"), 2, "{point:?}");
    let again = match point {
        Point::WhileAToolRuns(tool) | Point::AfterAToolBeforeItsCommit(tool) => tool,
        _ => "none",
    };
    assert_eq!(count("look") == 3, again == "look", "{point:?}");
    assert_eq!(count("note") == 2, again == "note", "{point:?}");
}

async fn the_real_program_dies_at(point: Point, kept: Kept) {
    let world = World::new(Program::Real, kept, one_reading).await;
    let server = world.start().await;
    let received = killed_at(&world, point, server, 1).await;
    world.leases_run_out().await;
    let before = world.run().await;
    let server = world.start().await;
    if before.is_none() {
        server.ask().wait_for("final").await;
    }
    let run = world.run().await.unwrap();
    world.ended(run).await;
    server.kill().await;
    world.check(run, &received).await;
    let journal = std::fs::read_to_string(world.folder().join("journal")).unwrap();
    assert!((1..=2).contains(&journal.lines().count()), "{journal}");
}

async fn at_each_point(kept: Kept) {
    for point in POINTS {
        println!("{point:?}");
        dies_at(point, kept).await;
    }
}

async fn the_real_program_at_its_points(kept: Kept) {
    for point in [
        Point::BeforeItsFirstCommit,
        Point::AfterItBegan,
        Point::AfterAReplyBeforeItsCommit,
        Point::DuringTheLastAnswer,
        Point::AfterTheLastAnswerBeforeItsCommit,
        Point::AfterTheEndBeforeItIsTold,
    ] {
        println!("{point:?}");
        the_real_program_dies_at(point, kept).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_survives_a_kill_at_each_point_on_sqlite() {
    at_each_point(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_survives_a_kill_at_each_point_on_postgres() {
    at_each_point(Kept::OnServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_the_real_program_survives_a_kill_at_each_point_on_sqlite() {
    the_real_program_at_its_points(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_of_the_real_program_survives_a_kill_at_each_point_on_postgres() {
    the_real_program_at_its_points(Kept::OnServer).await;
}
