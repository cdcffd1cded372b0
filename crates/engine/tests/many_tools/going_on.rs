//! Tools that were found are recorded: a resumed run, the session's next run and a fork continue with them.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Role, RunId, Seq, Transcript, Turn};
use neuraxis_engine::{ForkOptions, Orchestrator};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionIndex as _};
use neuraxis_testkit::{Script, ScriptedModel, reply};
use tokio::runtime::{Builder, Runtime};

use crate::support::{World, asked, assert_replays, names};

const SEARCH: (&str, &str) = (
    "find_tools",
    r#"{"query":"high and low water at the coast"}"#,
);
const CALL: (&str, &str) = ("weather__get_tides", r#"{"location":"Kiel"}"#);

/// A process: everything that runs in it ends with it.
fn process() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

fn orchestrator(
    store: &Arc<MemoryStore>,
    model: ScriptedModel,
) -> (Orchestrator, Arc<ScriptedModel>) {
    let model = Arc::new(model);
    let world = World::on(store.clone(), "", |builder| {
        builder.model(Role::REASONING, model.clone())
    });
    (world.orchestrator, model)
}

#[test]
fn a_resumed_run_makes_the_same_requests_it_would_have_made() {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::new()
        .then(reply::calls([SEARCH]))
        .then(Script::hanging());
    let (orchestrated, before) = orchestrator(&store, model);
    let run: RunId = process().block_on(async {
        let (handle, _) = orchestrated.stream(asked("Hello!")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        handle.run_id()
    });
    drop(orchestrated);
    let model = ScriptedModel::new()
        .then(reply::calls([CALL]))
        .then(reply::text("Done."));
    let (orchestrated, after) = orchestrator(&store, model);
    process().block_on(async {
        let handle = orchestrated.runs().resume(run, Vec::new()).await.unwrap();
        assert_eq!(handle.result().await.unwrap().reply, "Done.");
        let records = store.records(run, Seq(0)).await.unwrap();
        assert_replays(&Transcript::default(), &records);
    });
    let (before, after) = (before.requests(), after.requests());
    assert_eq!(before.len(), 2);
    assert!(before[1].tools.len() > before[0].tools.len());
    assert_eq!(after[0].tools, before[1].tools);
}

#[tokio::test]
async fn the_next_run_of_a_session_starts_with_the_last_one_s_final_tools() {
    let world = World::new();
    world.run("Close the blinds", &[&[SEARCH], &[CALL]]).await;
    let first = world.offered().pop().unwrap();
    assert!(first.contains(&CALL.0.to_owned()));
    // A similar request: nothing changes, and the provider's cache can be used again.
    world.run("And close the garage door, too", &[]).await;
    assert_eq!(world.offered().pop().unwrap(), first);
    world.run("Thanks!", &[]).await;
    assert_eq!(world.offered().pop().unwrap(), first);
    // A different request: matching tools are added at the end.
    let records = world.run("Refund the payment of this customer", &[]).await;
    let other = world.offered().pop().unwrap();
    assert_eq!(other[..first.len()], first);
    assert!(other[first.len()..].contains(&"stripe__refund_payment".to_owned()));
    let runs = world.store.runs(&crate::support::session()).await.unwrap();
    let history = world
        .store
        .history_before(runs.last().unwrap().run_id)
        .await
        .unwrap();
    assert_replays(&history, &records);
}

#[tokio::test]
async fn a_long_conversation_keeps_called_tools_and_at_most_forty_searched_ones() {
    let world = World::new();
    world.run("Hello!", &[&[CALL]]).await;
    for topic in [
        "song", "blinds", "pods", "invoice", "sprint", "design", "payslip", "bucket",
    ] {
        let query = format!(r#"{{"query":"{topic}"}}"#);
        let search: &[_] = &[("find_tools", query.as_str())];
        world
            .run(&format!("What about the {topic}?"), &[search])
            .await;
    }
    world.run("Hello!", &[]).await;
    for offered in world.offered() {
        assert!(offered.len() <= 2 + 40 + 5, "{}", offered.len());
    }
    assert!(world.offered().pop().unwrap().contains(&CALL.0.to_owned()));
}

#[tokio::test]
async fn a_fork_starts_with_the_tools_at_the_end_of_its_turn() {
    let world = World::new();
    let other: (&str, &str) = ("stripe__get_balance", "{}");
    let records = world.run("Hello!", &[&[SEARCH], &[CALL], &[other]]).await;
    let requests = world.model.requests();
    world.model.push(reply::text("Again."));
    let options = ForkOptions::new("other".parse().unwrap());
    let runs = world.orchestrator.runs();
    let handle = runs
        .fork(records[0].run_id, Turn(2), options)
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "Again.");
    let forked = world.model.requests().pop().unwrap();
    assert_eq!(names(&forked), names(&requests[2]));
}
