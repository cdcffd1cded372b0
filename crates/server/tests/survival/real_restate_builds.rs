//! Which workers Restate gives runs to: those of a new build, of an old build again, and never a dead one.

use neuraxis_app::{AdminError, Config, Environment, Restate, Sources};
use neuraxis_testkit::FreePort;
use serde_json::Value;

use crate::fleet::Fleet;
use crate::points::two_turns;
use crate::server::Server;
use crate::world::{Program, until};

/// Starts a worker at a separate address.
async fn worker_at(fleet: &Fleet, port: &FreePort) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let variables = [("NEURAXIS_DRIVER__RESTATE__LISTEN", &*listen)];
    fleet.world.start_worker_with(&variables).await
}

/// Returns what `doctor` inspects.
fn restate(fleet: &Fleet) -> Restate {
    let folder = fleet.world.folder();
    let file = folder.join("neuraxis.toml");
    let environment = Environment::new(folder).with_variable("MODEL_KEY", "unused");
    let config = Config::load(&environment, &Sources::default().with_file(file)).unwrap();
    Restate::new(&config.driver().restate).unwrap()
}

/// Waits until new runs go to a port.
async fn runs_go_to(fleet: &Fleet, port: &FreePort) {
    let restate = restate(fleet);
    let expected = format!("http://127.0.0.1:{port}/");
    until("runs go there", async || {
        restate
            .check()
            .await
            .is_ok_and(|found| found.address == expected)
    })
    .await;
}

/// Returns the address at which the run of a session is driven.
async fn driven_at(fleet: &Fleet, session: &str) -> String {
    let query = format!(
        "SELECT d.endpoint AS place FROM sys_invocation i JOIN sys_deployment d ON d.id = i.pinned_deployment_id \
         WHERE i.target_handler_name = 'drive' AND i.target_service_key = '{session}'"
    );
    let rows = fleet.query(&query).await;
    rows.first().map_or_else(String::new, |row| {
        row["place"].as_str().unwrap_or_default().to_owned()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn runs_end_on_their_build_and_new_ones_go_to_the_newest_living_build() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let world = &fleet.world;
    let [old, new] = [FreePort::take(), FreePort::take()];
    let (first, server) = (worker_at(&fleet, &old).await, world.start().await);
    runs_go_to(&fleet, &old).await;
    world.hold_tool("note");
    let client = server.ask();
    let begun = async || !world.effects("begun", "note").is_empty();
    until("the tool begins", begun).await;

    // A rollout with a run in progress.
    let second = worker_at(&fleet, &new).await;
    runs_go_to(&fleet, &new).await;
    let later = server.ask_in("later");
    until("both are at work", async || {
        world.effects("begun", "note").len() == 2
    })
    .await;
    assert!(driven_at(&fleet, "s").await.contains(&old.to_string()));
    assert!(driven_at(&fleet, "later").await.contains(&new.to_string()));
    world.let_tools_go();
    client.wait_for("final").await;
    later.wait_for("final").await;

    // An old worker that is restarted takes no runs from newer running ones.
    first.kill().await;
    let first = worker_at(&fleet, &old).await;
    runs_go_to(&fleet, &new).await;

    // A rollback: no worker runs at the newer address any more.
    second.kill().await;
    first.kill().await;
    let first = worker_at(&fleet, &old).await;
    runs_go_to(&fleet, &old).await;
    let last = server.ask_in("last");
    last.wait_for("final").await;

    // The newer build returns, and the older one is still running.
    let second = worker_at(&fleet, &new).await;
    runs_go_to(&fleet, &new).await;
    for process in [first, second, server] {
        process.kill().await;
    }
    for (session, client) in [("s", client), ("later", later), ("last", last)] {
        let run = fleet.run_of(session).await;
        world.check_in(session, run, &client.received().await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn new_runs_go_to_older_workers_once_the_newer_ones_are_dead() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let [old, new] = [FreePort::take(), FreePort::take()];
    let (first, server) = (worker_at(&fleet, &old).await, fleet.world.start().await);
    runs_go_to(&fleet, &old).await;
    let second = worker_at(&fleet, &new).await;
    runs_go_to(&fleet, &new).await;
    second.kill().await;
    // Without any process being started.
    runs_go_to(&fleet, &old).await;
    let client = server.ask();
    let run = fleet.run().await;
    fleet.ends(run, client, [server, first]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn the_services_of_another_build_at_the_same_address_are_discovered_again() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let port = FreePort::take();
    let first = worker_at(&fleet, &port).await;
    runs_go_to(&fleet, &port).await;
    let offered = async || -> Value {
        let url = format!("{}/services/NeuraxisSession", fleet.restate.admin());
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let text = http.get(url).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let before = offered().await;
    assert_eq!(before["abort_timeout"], "1d");
    // Repeating this changes nothing.
    first.kill().await;
    let first = worker_at(&fleet, &port).await;
    runs_go_to(&fleet, &port).await;
    assert_eq!(offered().await["revision"], before["revision"]);
    first.kill().await;
    let listen = format!("127.0.0.1:{port}");
    let variables = [
        ("NEURAXIS_DRIVER__RESTATE__LISTEN", &*listen),
        ("NEURAXIS_DRIVER__RESTATE__ABORT_MS", "7200000"),
    ];
    let _second = fleet.world.start_worker_with(&variables).await;
    until("it is asked anew", async || {
        offered().await["abort_timeout"] == "2h"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Restate and PostgreSQL: run by cargo xtask test"]
async fn registered_workers_that_do_not_answer_count_as_no_workers() {
    let fleet = Fleet::new(Program::WithTools, two_turns).await;
    let restate = restate(&fleet);
    let none = restate.check().await.unwrap_err();
    assert!(matches!(none, AdminError::NoWorker), "{none}");
    let port = FreePort::take();
    let worker = worker_at(&fleet, &port).await;
    runs_go_to(&fleet, &port).await;
    worker.signal(rustix::process::Signal::STOP);
    let stalled = restate.check().await.unwrap_err();
    assert!(
        matches!(stalled, AdminError::NoneAnswers { .. }),
        "{stalled}"
    );
    worker.kill().await;
    let dead = restate.check().await.unwrap_err().to_string();
    assert_eq!(
        dead,
        format!(
            "new runs go to workers at http://127.0.0.1:{port}/, but Restate cannot reach any there"
        )
    );
}
