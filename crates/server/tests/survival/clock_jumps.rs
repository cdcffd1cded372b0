//! Clocks that jump an hour forward or back while runs are in progress: the clock of one of several processes, which
//! all use the database's clock where they share work.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::fleet::Fleet;
use crate::model::Hold;
use crate::points::two_turns;
use crate::server::Server;
use crate::several;
use crate::world::{Program, World, until};

/// How long to watch that no process takes over another's work: longer than a lease.
const A_WHILE: Duration = Duration::from_millis(2_500);

/// The clock of a process, which a test can set.
struct Clock(PathBuf);

impl Clock {
    fn new(world: &World, name: &str) -> Self {
        let clock = Self(world.folder().join(name));
        clock.set("+0");
        clock
    }

    /// Sets its offset from every other clock, in seconds.
    fn set(&self, offset: &str) {
        // Never a partly written file: the process that reads it would stop.
        let draft = self.0.with_extension("draft");
        fs::write(&draft, format!("{offset}\n")).unwrap();
        fs::rename(&draft, &self.0).unwrap();
    }

    /// Returns the environment of a process that uses it. Elapsed time is measured by another clock, which no jump
    /// changes.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let library = std::env::var("TEST_NEURAXIS_FAKETIME").unwrap();
        vec![
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", self.0.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }
}

async fn start(world: &World, clock: &Clock) -> Server {
    let variables = clock.variables();
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    world.start_with(&variables).await
}

/// The process whose clock jumps.
#[derive(Debug, Clone, Copy)]
enum Whose {
    OfTheOneAtWork,
    OfTheOther,
}

async fn nobody_takes_a_run_over(whose: Whose, offset: &str) {
    let world = several::world(two_turns).await;
    let (at_work, idle) = (Clock::new(&world, "at-work"), Clock::new(&world, "idle"));
    let first = start(&world, &at_work).await;
    let second = start(&world, &idle).await;
    world.model.hold(3, Hold::Before);
    let client = first.ask();
    world.model.was_asked(3).await;
    let run = world.run().await.unwrap();
    let before = world.records(run).await.len();
    match whose {
        Whose::OfTheOneAtWork => at_work.set(offset),
        Whose::OfTheOther => idle.set(offset),
    }
    tokio::time::sleep(A_WHILE).await;
    let now = world.records(run).await.len();
    assert_eq!(now, before, "{whose:?} {offset}: somebody took it over");
    world.model.let_go();
    client.wait_for("final").await;
    world.ended(run).await;
    if let Whose::OfTheOneAtWork = whose {
        let records = world.records(run).await;
        let before = records[before - 1].at;
        let jumped = records.last().unwrap().at.duration_since(before);
        let expected: i64 = offset.parse().unwrap();
        let near = expected - 60..expected + 60;
        assert!(near.contains(&jumped.as_secs()), "the clock did not jump");
    }
    let (status, text) = second.turn("another", "go").await;
    assert_eq!(status, 200, "{text}");
    first.kill().await;
    second.kill().await;
    world.check(run, &client.received().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL and libfaketime: run by cargo xtask test"]
async fn a_run_remains_with_its_server_whichever_clock_jumps() {
    for offset in ["+3600", "-3600"] {
        nobody_takes_a_run_over(Whose::OfTheOneAtWork, offset).await;
        nobody_takes_a_run_over(Whose::OfTheOther, offset).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate, PostgreSQL and libfaketime: run by cargo xtask test"]
async fn real_restate_drives_a_run_to_its_end_although_the_clock_of_its_worker_jumps() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let clock = Clock::new(world, "worker");
    let variables = clock.variables();
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let worker = world.start_worker_with(&variables).await;
    let server = world.start().await;
    world.hold_tool("note");
    let client = server.ask();
    let begun = async || !world.effects("begun", "note").is_empty();
    until("the tool begins", begun).await;
    clock.set("+3600");
    world.model.hold(3, Hold::Before);
    world.let_tools_go();
    world.model.was_asked(3).await;
    clock.set("-3600");
    world.model.let_go();
    let run = fleet.run().await;
    fleet.ends(run, client, [server, worker]).await;
    assert_eq!(world.effects("begun", "pay").len(), 2);
}
