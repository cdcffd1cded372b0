//! Following a run from any of its records, whichever process drives it, and closing one that no process is driving.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    ApprovalDecision, FinishReason, Interruption, LiveBody, RunId, RunStatus, Seq,
};
use neuraxis_engine::{DecideLater, Event, Orchestrator, ResumeError, UuidV7};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError};
use neuraxis_testkit::{FailingStore, Script, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{all_events, builder, request, session};

fn engine(store: &Arc<MemoryStore>, model: ScriptedModel) -> Orchestrator {
    let builder = builder(model).store(store.clone()).ids(Arc::new(UuidV7));
    builder.build().unwrap()
}

fn slow() -> ScriptedModel {
    ScriptedModel::always(Script::from(reply::text("42")).after(Duration::from_secs(2)))
}

fn numbers(events: &[Event]) -> Vec<u64> {
    let numbers = events.iter().filter_map(|event| match event {
        Event::Record(record) => Some(record.seq.0),
        Event::Live(_) => None,
    });
    numbers.collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_in_progress_here_is_followed_live_from_the_last_received_record() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = engine(&store, slow());
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    let all = orchestrator.runs().attach(handle.run_id(), Seq(0)).await;
    let rest = orchestrator.runs().attach(handle.run_id(), Seq(2)).await;
    let (all, rest) = tokio::join!(all_events(all.unwrap()), all_events(rest.unwrap()));
    let kept = store.records(handle.run_id(), Seq(0)).await.unwrap();
    let kept: Vec<u64> = kept.iter().map(|record| record.seq.0).collect();
    assert_eq!(numbers(&all), kept);
    assert_eq!(numbers(&rest), kept[2..]);
    let is_text = |event: &Event| matches!(event, Event::Live(live) if matches!(live.body, LiveBody::TextDelta { .. }));
    assert!(all.iter().any(is_text) && rest.iter().any(is_text));
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_process_is_followed_by_its_records_to_its_end() {
    let store = Arc::new(MemoryStore::new());
    let (ours, theirs) = (engine(&store, slow()), engine(&store, slow()));
    let (handle, _) = theirs.stream(request("go")).await.unwrap();
    let events = ours.runs().attach(handle.run_id(), Seq(1)).await.unwrap();
    let followed = all_events(events).await;
    let kept = store.records(handle.run_id(), Seq(1)).await.unwrap();
    assert_eq!(followed.len(), kept.len());
    assert!(matches!(followed.last(), Some(Event::Record(last)) if last.ends_the_run()));
}

#[tokio::test(start_paused = true)]
async fn polling_events_after_the_end_returns_the_end_again() {
    let orchestrator = engine(&Arc::new(MemoryStore::new()), slow());
    let run = orchestrator.handle(request("go")).await.unwrap().run_id;
    let attached = orchestrator.runs().attach(run, Seq(0)).await;
    let mut events = attached.unwrap();
    while events.next().await.is_some() {}
    assert_eq!(events.next().await, None);
    assert_eq!(events.text_stream().next().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_run_is_followed_further_once_it_is_resumed() {
    let store = Arc::new(MemoryStore::new());
    let (first, next) = (engine(&store, slow()), engine(&store, slow()));
    let (handle, _) = first.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    assert_eq!(first.suspend(Duration::ZERO).await, [run]);
    let events = next.runs().attach(run, Seq(0)).await.unwrap();
    let following = tokio::spawn(all_events(events));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!following.is_finished());
    next.runs().resume(run, Vec::new()).await.unwrap();
    let followed = following.await.unwrap();
    let kept = store.records(run, Seq(0)).await.unwrap();
    assert_eq!(numbers(&followed).len(), kept.len());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_run_is_polled_rarely_but_followed_at_once_when_it_continues() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", "{}")]))
        .then(reply::text("Paid."));
    let orchestrator = builder(model)
        .tool(Arc::new(ScriptedTool::echoing(spec("pay"))))
        .store(store.clone())
        .approver(Arc::new(DecideLater))
        .build()
        .unwrap();
    let waits = orchestrator.handle(request("go")).await.unwrap();
    assert_eq!(waits.status, RunStatus::Waiting);
    let events = orchestrator.runs().attach(waits.run_id, Seq(0)).await;
    let following = tokio::spawn(all_events(events.unwrap()));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let before = store.calls().len();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let asked = store.calls().len() - before;
    assert!(asked <= 24, "{asked} questions to the store in 20 seconds");

    let approvals = orchestrator.approvals();
    let waiting = approvals.list().await.unwrap();
    let began = tokio::time::Instant::now();
    let decided = approvals.decide_and_resume(&waiting[0], ApprovalDecision::APPROVE, None);
    decided.await.unwrap();
    let followed = following.await.unwrap();
    assert!(matches!(followed.last(), Some(Event::Record(last)) if last.ends_the_run()));
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn following_ends_at_once_for_an_up_to_date_caller_and_at_shutdown() {
    let store = Arc::new(MemoryStore::new());
    let (first, next) = (engine(&store, slow()), engine(&store, slow()));
    let unknown = next.runs().attach(RunId(uuid::Uuid::nil()), Seq(0)).await;
    assert!(matches!(unknown, Err(StoreError::NoSuchRun(_))));
    let result = first.handle(request("go")).await.unwrap();
    let last = store.run(result.run_id).await.unwrap().records;
    let events = next.runs().attach(result.run_id, Seq(last)).await.unwrap();
    assert!(all_events(events).await.is_empty());

    let (handle, _) = first.stream(request("again")).await.unwrap();
    assert_eq!(first.suspend(Duration::ZERO).await, [handle.run_id()]);
    let events = next.runs().attach(handle.run_id(), Seq(0)).await.unwrap();
    let following = tokio::spawn(all_events(events));
    tokio::time::sleep(Duration::from_secs(1)).await;
    next.shutdown().await;
    assert!(!following.await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_driver_can_be_closed_and_frees_its_session() {
    let store = Arc::new(MemoryStore::new());
    let (first, next) = (engine(&store, slow()), engine(&store, slow()));
    let (handle, _) = first.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    let at_work = first.runs().close(run, "enough").await;
    assert!(matches!(at_work, Err(ResumeError::AtWork(_))));
    assert_eq!(first.suspend(Duration::ZERO).await, [run]);
    next.runs().close(run, "enough").await.unwrap();
    let closed = store.run(run).await.unwrap();
    assert_eq!(closed.status, RunStatus::Interrupted);
    let why = FinishReason::Interrupted("enough".to_owned());
    assert_eq!(closed.finish_reason, Some(why));
    let result = next.runs().result(run).await.unwrap();
    assert_eq!(result.interruption, Some(Interruption::Closed));
    let notice = "The run was interrupted: enough";
    assert_eq!(result.notice.as_deref(), Some(notice));
    let again = next.runs().close(run, "enough").await;
    assert!(matches!(again, Err(ResumeError::Ended(_))));
    let result = next.handle(request("more")).await.unwrap();
    assert_eq!(
        (result.session_id, result.status),
        (session(), RunStatus::Done)
    );
}
