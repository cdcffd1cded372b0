//! An engine that replaces another one on the same store.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    Cancelled, InboxEntry, InboxInput, InputId, Mode, RecordBody, RunId, RunStatus, Seq,
};
use neuraxis_engine::{Event, Orchestrator, OrchestratorBuilder, RunHandle, UserRequest, UuidV7};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionStore, StoreError};
use neuraxis_testkit::{Act, Fault, ScriptedModel, ScriptedTool, StoreOperation, reply, spec};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::{all_events, builder, failing_store, policy, request};

const MINUTE: Duration = Duration::from_secs(60);

/// An engine whose model makes a call that takes a minute.
fn slow(store: &Arc<MemoryStore>) -> OrchestratorBuilder {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Seen."));
    looking(store.clone(), model)
}

/// An engine with a tool that takes a minute.
fn looking(store: Arc<dyn SessionStore>, model: ScriptedModel) -> OrchestratorBuilder {
    let look = ScriptedTool::always(
        spec("look").read_only().timeout(MINUTE * 2),
        Act::value("1").after(MINUTE),
    );
    builder(model)
        .store(store)
        .ids(Arc::new(UuidV7))
        .tool(Arc::new(look))
}

/// A run in progress in an engine that was replaced twice, and the engine that currently accepts requests.
async fn replaced() -> (RunHandle, Orchestrator) {
    let store = Arc::new(MemoryStore::new());
    let first = slow(&store).build().unwrap();
    let (handle, _) = first.stream(request("go")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let second = slow(&store).replaces(&first).build().unwrap();
    tokio::spawn(async move { first.suspend(MINUTE * 10).await });
    let third = slow(&store).replaces(&second).build().unwrap();
    second.suspend(MINUTE).await;
    (handle, third)
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_replaced_engine_can_be_steered_and_continues_there() {
    let (handle, orchestrator) = replaced().await;
    let runs = orchestrator.runs();
    runs.steer(handle.run_id(), "Be brief.").await.unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "Seen.")
    );
    let records = handle.records();
    let kinds: Vec<_> = records.iter().map(|record| record.body.kind()).collect();
    assert!(kinds.contains(&"steered"), "{kinds:?}");
    assert!(!kinds.contains(&"resumed"), "{kinds:?}");
    let found = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some(result.value.as_str()),
        _ => None,
    });
    assert_eq!(found, Some("1"), "its call was not cut off");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_stored_reaches_a_run_of_an_engine_that_was_replaced_without_the_store() {
    let store = failing_store();
    let looking = || {
        let model = ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::text("Seen."));
        looking(store.clone(), model).policy(policy("channels.chat.data = { text = false }\n"))
    };
    let former = looking().build().unwrap();
    let (handle, _) = former.stream(request("go")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let next = looking().replaces(&former).build().unwrap();
    tokio::spawn(async move { former.suspend(MINUTE * 10).await });
    let no_post = || Fault::Refuse(StoreError::Refused("no post".to_owned()));
    store.fail_next(StoreOperation::Post, no_post());
    let runs = next.runs();
    runs.steer(handle.run_id(), "a canary").await.unwrap();
    let result = runs.result(handle.run_id()).await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "Seen."),
        "as the run says it, and not as it is stored"
    );
    let steered = handle.records().into_iter().find_map(|record| {
        let RecordBody::Steered(steered) = &record.body else {
            return None;
        };
        Some(steered.message.text())
    });
    assert_eq!(steered.as_deref(), Some("a canary"));
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_replaced_engine_ends_at_once_when_cancelled() {
    let (handle, orchestrator) = replaced().await;
    let began = Instant::now();
    let runs = orchestrator.runs();
    runs.cancel(handle.run_id(), "enough").await.unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_suspending_engine_promptly_receives_input_from_other_processes() {
    let store = Arc::new(MemoryStore::new());
    let former = slow(&store).build().unwrap();
    let checking = former.runs();
    tokio::spawn(async move { checking.keep_checking_inboxes(Duration::from_secs(1)).await });
    let (handle, _) = former.stream(request("go")).await.unwrap();
    tokio::spawn(async move { former.suspend(MINUTE * 10).await });
    sleep(Duration::from_millis(1_500)).await;
    let enough = Cancelled::new(InputId::new("c"), "enough");
    let entry = InboxEntry::new(InboxInput::Cancelled(enough));
    store.post(handle.run_id(), &entry).await.unwrap();
    let began = Instant::now();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_gets_the_run_of_a_replaced_engine() {
    let store = Arc::new(MemoryStore::new());
    let former = slow(&store).build().unwrap();
    let keyed = || request("go").idempotency_key("booking-17".parse().unwrap());
    let (first, _) = former.stream(keyed()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let next = slow(&store).replaces(&former).build().unwrap();
    tokio::spawn(async move { former.suspend(MINUTE * 10).await });
    let (again, _events) = next.stream(keyed()).await.unwrap();
    assert!(again.is_repeat());
    assert_eq!(again.run_id(), first.run_id());
    let result = again.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "Seen.")
    );
    assert_eq!(again.records(), first.records());
}

/// The store is late with the first of two runs that are released, so the second has to wait for it.
#[tokio::test(start_paused = true)]
async fn a_suspended_run_is_not_resumed_by_the_next_engine_before_its_release() {
    let store = failing_store();
    let second = Duration::from_secs(1);
    let calls = ScriptedModel::always(reply::calls([("look", "{}")]));
    let former = looking(store.clone(), calls).build().unwrap();
    let mut runs = Vec::new();
    for session in ["a", "b"] {
        let request = UserRequest::new(session.parse().unwrap(), "go").mode(Mode::EXPLORATORY);
        runs.push(former.stream(request).await.unwrap().0.run_id());
    }
    sleep(second).await;
    let model = ScriptedModel::always(reply::text("Seen."));
    let next = looking(store.clone(), model).replaces(&former);
    let next = next.build().unwrap();
    store.fail_next(StoreOperation::Release, Fault::AnswerLate(second));
    let suspended = tokio::spawn(async move { former.suspend(second).await });
    sleep(second + second / 2).await;
    for run in &runs {
        next.runs().steer(*run, "Be brief.").await.unwrap();
    }
    assert_eq!(suspended.await.unwrap().len(), 2);
    let mut handles = Vec::new();
    for run in runs {
        handles.push(next.runs().resume(run, Vec::new()).await.unwrap());
    }
    for handle in handles {
        let result = handle.result().await.unwrap();
        assert_eq!(
            (result.status, result.reply.as_str()),
            (RunStatus::Done, "Seen.")
        );
    }
}

/// Follows a run that another process drives through an engine that stops; also returns the engine that replaces that
/// one.
async fn followed_at_one_that_is_replaced(
    store: &Arc<MemoryStore>,
    run: RunId,
) -> (JoinHandle<Vec<Event>>, Orchestrator) {
    let former = slow(store).build().unwrap();
    let events = former.runs().attach(run, Seq(0)).await;
    let following = tokio::spawn(all_events(events.unwrap()));
    sleep(Duration::from_secs(1)).await;
    let next = slow(store).replaces(&former).build().unwrap();
    former.suspend(MINUTE).await;
    (following, next)
}

#[tokio::test(start_paused = true)]
async fn a_follower_at_a_replaced_engine_receives_the_run_s_end_from_the_next() {
    let store = Arc::new(MemoryStore::new());
    let theirs = slow(&store).build().unwrap();
    let (run, _) = theirs.stream(request("go")).await.unwrap();
    let (following, _next) = followed_at_one_that_is_replaced(&store, run.run_id()).await;
    let events = following.await.unwrap();
    let records = events.iter().filter_map(|event| match event {
        Event::Record(record) => Some(record.clone()),
        Event::Live(_) => None,
    });
    let records: Vec<_> = records.collect();
    assert_eq!(records, run.records());
    assert!(records.last().unwrap().ends_the_run());
}

#[tokio::test(start_paused = true)]
async fn a_follower_moves_to_the_next_engine_even_if_a_later_one_was_dropped() {
    let store = Arc::new(MemoryStore::new());
    let theirs = slow(&store).build().unwrap();
    let (run, _) = theirs.stream(request("go")).await.unwrap();
    let former = slow(&store).build().unwrap();
    let events = former.runs().attach(run.run_id(), Seq(0)).await;
    let following = tokio::spawn(all_events(events.unwrap()));
    sleep(Duration::from_secs(1)).await;
    let next = slow(&store).replaces(&former).build().unwrap();
    drop(slow(&store).replaces(&next).build().unwrap());
    former.suspend(MINUTE).await;
    let events = following.await.unwrap();
    let ends = |event: &Event| matches!(event, Event::Record(record) if record.ends_the_run());
    assert!(events.last().is_some_and(ends), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_follower_moved_to_the_next_engine_is_released_when_that_stops() {
    let store = Arc::new(MemoryStore::new());
    let theirs = slow(&store).build().unwrap();
    let (run, _) = theirs.stream(request("go")).await.unwrap();
    let (following, next) = followed_at_one_that_is_replaced(&store, run.run_id()).await;
    let began = Instant::now();
    next.suspend(MINUTE).await;
    let events = following.await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert!(!events.is_empty() && events.len() <= run.records().len());
}
