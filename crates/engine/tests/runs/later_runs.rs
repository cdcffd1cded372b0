//! Runs after the first one of a session: they begin with their first records, if the session is still in the state
//! that was read.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::RunStatus;
use neuraxis_engine::{Orchestrator, UuidV7};
use neuraxis_ports::{SessionIndex as _, StoreError};
use neuraxis_testkit::StoreOperation::{BeginRun, Commit, Continuation, Session};
use neuraxis_testkit::{Fault, ScriptedModel, StoreOperation, reply};

use crate::support::{Store, builder, failing_store, request, session};

/// A separate process on a store.
fn process(store: &Arc<Store>) -> Orchestrator {
    process_with(store, Arc::new(ScriptedModel::always(reply::text("fine"))))
}

fn process_with(store: &Arc<Store>, model: Arc<ScriptedModel>) -> Orchestrator {
    builder(model)
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .build()
        .unwrap()
}

/// Returns the store operations of a request.
async fn asked_by(orchestrator: &Orchestrator, store: &Store, text: &str) -> Vec<StoreOperation> {
    let before = store.calls().len();
    let done = orchestrator.handle(request(text)).await;
    assert_eq!(done.unwrap().reply, "fine");
    store.calls().split_off(before)
}

/// Returns the texts of all messages, whoever wrote them.
async fn said(store: &Store) -> Vec<String> {
    let history = store.inner().history(&session()).await.unwrap();
    let messages = history.messages().iter();
    messages.map(|message| message.text()).collect()
}

#[tokio::test]
async fn a_later_run_takes_two_commits() {
    let store = failing_store();
    let here = process(&store);
    here.handle(request("hello")).await.unwrap();
    let asked = asked_by(&here, &store, "and again").await;
    assert_eq!(asked, [Session, Continuation, BeginRun, Commit]);
    assert_eq!(said(&store).await, ["hello", "fine", "and again", "fine"]);
}

/// Changes by another process between the lookup of a session and the beginning of a run are read before the run
/// begins.
#[tokio::test(start_paused = true)]
async fn a_run_committed_meanwhile_is_read_before_the_next_one_starts() {
    let store = failing_store();
    let model = Arc::new(ScriptedModel::always(reply::text("fine")));
    let (here, there) = (process_with(&store, model.clone()), process(&store));
    here.handle(request("hello")).await.unwrap();
    let late = Fault::AnswerLate(Duration::from_secs(1));
    store.fail_next(Continuation, late);
    let asking = tokio::spawn({
        let here = here.clone();
        async move { here.handle(request("slow")).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    there.handle(request("quick")).await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap().reply, "fine");
    let all = ["hello", "fine", "quick", "fine", "slow", "fine"];
    assert_eq!(said(&store).await, all);
    let requests = model.requests();
    let seen = requests.last().unwrap().messages.messages();
    let seen: Vec<_> = seen.iter().map(|message| message.text()).collect();
    let before = ["hello", "fine", "quick", "fine", "slow"].map(str::to_owned);
    assert!(seen.ends_with(&before), "{seen:?}");
}

/// A session that changes at every lookup is leased in the end.
#[tokio::test]
async fn a_session_that_keeps_changing_is_leased_before_it_is_read() {
    let store = failing_store();
    let here = process(&store);
    here.handle(request("hello")).await.unwrap();
    for _ in 0..2 {
        let changed = StoreError::SessionChanged(session());
        store.fail_next(BeginRun, Fault::Refuse(changed));
    }
    let asked = asked_by(&here, &store, "and again").await;
    let look = [Session, Continuation, BeginRun];
    let leased = [Session, BeginRun, Continuation, Commit, Commit];
    assert_eq!(asked, [&look[..], &look, &leased].concat());
}

/// A beginning whose answer was lost is recognized when it is repeated, and one that cannot be stored is reported.
#[tokio::test(start_paused = true)]
async fn a_later_run_starts_once_whatever_is_lost() {
    let away = || StoreError::Unavailable("cut off".to_owned());
    let store = failing_store();
    let here = process(&store);
    here.handle(request("hello")).await.unwrap();
    store.fail_next(BeginRun, Fault::LoseAnswer(away()));
    let asked = asked_by(&here, &store, "and again").await;
    assert_eq!(asked, [Session, Continuation, BeginRun, BeginRun, Commit]);

    store.fail_next(BeginRun, Fault::LoseAnswer(away()));
    for _ in 0..100 {
        store.fail_next(BeginRun, Fault::Refuse(away()));
    }
    assert!(here.handle(request("lost")).await.is_err());
    store.repair();
    tokio::time::sleep(Duration::from_secs(60)).await;
    asked_by(&here, &store, "once more").await;
    let runs = store.inner().runs(&session()).await.unwrap();
    let ends: Vec<_> = runs.iter().map(|run| run.status).collect();
    let done = RunStatus::Done;
    assert_eq!(ends, [done, done, RunStatus::Interrupted, done]);
}
