//! A process that stalled or lost its run starts nothing more for it, and stops work in progress.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{RunId, RunStatus, Seq};
use neuraxis_engine::{NoResult, Orchestrator, UuidV7};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError};
use neuraxis_testkit::{
    Act, FailingStore, Fault, Script, ScriptedModel, ScriptedTool, StoreOperation, reply, spec,
};
use tokio::time::{Instant, sleep};

use crate::support::{builder, request};

type Store = FailingStore<MemoryStore>;

const SECOND: Duration = Duration::from_secs(1);

/// The default duration of a lease.
const LEASE: Duration = Duration::from_secs(30);

fn store() -> Arc<Store> {
    Arc::new(FailingStore::new(MemoryStore::with_lease(LEASE)))
}

fn engine(store: &Arc<Store>, model: &Arc<ScriptedModel>, pay: &Arc<ScriptedTool>) -> Orchestrator {
    let model = Arc::clone(model);
    builder(model)
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .tool(pay.clone())
        .build()
        .unwrap()
}

fn paying(act: Act) -> Arc<ScriptedTool> {
    let spec = spec("pay").idempotent().timeout(600 * SECOND);
    Arc::new(ScriptedTool::always(spec, act))
}

/// Takes the run over and ends it, like another process.
async fn taken_over(store: &Arc<Store>, run: RunId) {
    let model = Arc::new(ScriptedModel::always(reply::text("taken over")));
    let other = engine(store, &model, &paying(Act::value("1")));
    let handle = other.runs().resume(run, Vec::new()).await.unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "taken over");
}

/// Delays the answer to the next commit until the lease has expired.
fn stalls(store: &Store) {
    let late = Fault::AnswerLate(LEASE + SECOND);
    store.fail_next(StoreOperation::Commit, late);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_process_that_lost_its_run_does_not_start_a_call() {
    let (store, pay) = (store(), paying(Act::value("1")));
    let slow = Script::from(reply::calls([("pay", "{}")])).after(SECOND);
    let model = Arc::new(ScriptedModel::new().then(slow));
    let stalled = engine(&store, &model, &pay);
    let (handle, _events) = stalled.stream(request("go")).await.unwrap();
    stalls(&store);
    sleep(2 * SECOND).await;
    assert_eq!(model.calls().len(), 1, "the call is on record");
    taken_over(&store, handle.run_id()).await;
    let kept = store.records(handle.run_id(), Seq(0)).await.unwrap();
    let stale = NoResult::Unrecorded(StoreError::Stale(handle.run_id()));
    assert_eq!(handle.result().await, Err(stale));
    assert_eq!(pay.count(), 0, "it was told as unknown by then");
    let after = store.records(handle.run_id(), Seq(0)).await.unwrap();
    assert_eq!(after, kept);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_process_starts_a_call_if_no_other_took_its_run() {
    let (store, pay) = (store(), paying(Act::value("1")));
    let slow = Script::from(reply::calls([("pay", "{}")])).after(SECOND);
    let model = Arc::new(ScriptedModel::new().then(slow).then(reply::text("paid")));
    let stalled = engine(&store, &model, &pay);
    let (handle, _events) = stalled.stream(request("go")).await.unwrap();
    stalls(&store);
    let result = handle.result().await.unwrap();
    assert_eq!((result.reply.as_str(), pay.count()), ("paid", 1));
    assert!(store.calls().contains(&StoreOperation::Renew));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_process_that_lost_its_run_does_not_call_the_model() {
    let (store, pay) = (store(), paying(Act::value("1").after(SECOND)));
    let model = ScriptedModel::new().then(reply::calls([("pay", "{}")]));
    let model = Arc::new(model);
    let stalled = engine(&store, &model, &pay);
    let (handle, _events) = stalled.stream(request("go")).await.unwrap();
    sleep(SECOND / 2).await;
    stalls(&store);
    sleep(2 * SECOND).await;
    taken_over(&store, handle.run_id()).await;
    let stale = NoResult::Unrecorded(StoreError::Stale(handle.run_id()));
    assert_eq!(handle.result().await, Err(stale));
    assert_eq!((model.calls().len(), pay.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_lost_repeatedly_while_its_process_lives_is_not_closed() {
    let (store, pay) = (store(), paying(Act::value("1")));
    let slow = Script::from(reply::text("kept in the end")).after(SECOND);
    let model = Arc::new(ScriptedModel::always(slow));
    let engine = engine(&store, &model, &pay);
    let (mut handle, _events) = engine.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    for _ in 0..4 {
        // The store can record that the run resumes, but not what happens next.
        sleep(SECOND / 2).await;
        store.break_down(StoreError::Unavailable("the disk is full".to_owned()));
        let lost = handle.result().await;
        assert!(matches!(lost, Err(NoResult::Unrecorded(_))), "{lost:?}");
        store.repair();
        let left_alone = engine.runs().recover().await.unwrap();
        assert!(
            left_alone.resumed.is_empty(),
            "its lease is not over, and it rests"
        );
        sleep(LEASE + SECOND).await;
        handle = engine.runs().resume(run, Vec::new()).await.unwrap();
    }
    assert_eq!(handle.result().await.unwrap().reply, "kept in the end");
    assert_eq!(store.run(run).await.unwrap().status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_learns_it_lost_its_run_stops_its_work() {
    let (store, pay) = (store(), paying(Act::hanging()));
    let model = Arc::new(ScriptedModel::new().then(reply::calls([("pay", "{}")])));
    let first = engine(&store, &model, &pay);
    let (handle, mut events) = first.stream(request("go")).await.unwrap();
    sleep(SECOND).await;
    taken_over(&store, handle.run_id()).await;
    let began = Instant::now();
    let stale = NoResult::Unrecorded(StoreError::Stale(handle.run_id()));
    assert_eq!(handle.result().await, Err(stale));
    assert!(began.elapsed() <= 5 * SECOND, "{:?}", began.elapsed());
    assert!(pay.calls()[0].context.cancellation.is_cancelled());
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event);
    }
    let last = serde_json::to_value(last.unwrap()).unwrap();
    assert_eq!(last["type"], "tool_start", "no end is told");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_lease_cannot_be_renewed_is_abandoned_only_when_it_expires() {
    let (store, pay) = (store(), paying(Act::hanging()));
    let model = Arc::new(ScriptedModel::new().then(reply::calls([("pay", "{}")])));
    let first = engine(&store, &model, &pay);
    let (handle, _events) = first.stream(request("go")).await.unwrap();
    sleep(SECOND / 10).await;
    let gone = StoreError::Unavailable("gone".to_owned());
    store.break_down(gone.clone());
    let began = Instant::now();
    assert_eq!(handle.result().await, Err(NoResult::Unrecorded(gone)));
    let took = began.elapsed();
    assert!(
        took > LEASE - SECOND && took <= LEASE + 5 * SECOND,
        "{took:?}"
    );
    assert!(pay.calls()[0].context.cancellation.is_cancelled());
}

/// No other process took it: the reason why it is left is the store's error.
#[tokio::test(start_paused = true)]
async fn a_run_abandoned_with_unstored_records_reports_the_store_s_error() {
    let lease = 3 * SECOND;
    let store = Arc::new(FailingStore::new(MemoryStore::with_lease(lease)));
    let slow = Script::from(reply::text("said")).after(SECOND);
    let model = Arc::new(ScriptedModel::always(slow));
    let engine = engine(&store, &model, &paying(Act::value("1")));
    let (handle, _events) = engine.stream(request("go")).await.unwrap();
    sleep(SECOND / 2).await;
    let full = StoreError::Unavailable("the disk is full".to_owned());
    store.break_down(full.clone());
    let began = Instant::now();
    assert_eq!(handle.result().await, Err(NoResult::Unrecorded(full)));
    assert!(began.elapsed() <= lease + SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_is_renewed_often_enough() {
    let store = Arc::new(FailingStore::new(MemoryStore::with_lease(3 * SECOND)));
    let pay = paying(Act::value("1").after(30 * SECOND));
    let model = ScriptedModel::new().then(reply::calls([("pay", "{}")]));
    let model = Arc::new(model.then(reply::text("paid")));
    let engine = engine(&store, &model, &pay);
    let result = engine.handle(request("go")).await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    let calls = store.calls();
    let renewed = calls.iter().filter(|call| **call == StoreOperation::Renew);
    assert!(renewed.count() >= 29);
}
