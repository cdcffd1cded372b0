//! Input that is posted to a run by any process, and how a process keeps its run in the meantime.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use neuraxis_core::{
    AgentId, Cancelled, ClientResult, FinishReason, InboxEntry, InboxInput, InputId, JsonText,
    Record, RecordBody, RunId, RunStatus, Seq, ToolCallId, ToolOutcome, ToolOutput,
};
use neuraxis_engine::{
    Answer, NoResult, NotAccepted, Orchestrator, ResumeError, RunHandle, UuidV7,
};
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError, TraceSink};
use neuraxis_testkit::{
    Act, Fault, Script, ScriptedModel, ScriptedTool, StoreOperation, reply, spec,
};

use crate::support::{Store, builder, failing_store, policy, request};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An engine whose model calls the client's tool and a tool that takes a minute.
fn busy(store: &Arc<Store>) -> Orchestrator {
    let model = ScriptedModel::new()
        .then(reply::calls([("pick", "{}"), ("look", "{}")]))
        .then(reply::text("Chosen."));
    let look = ScriptedTool::always(
        spec("look").read_only().timeout(seconds(100)),
        Act::value("1").after(seconds(60)),
    );
    builder(model)
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .client_tool(spec("pick").read_only().build())
        .tool(Arc::new(look))
        .build()
        .unwrap()
}

/// The result of the client's tool, as another process posts it.
async fn picked(store: &Store, run: RunId, value: &str) -> InboxEntry {
    let records = store.records(run, Seq(0)).await.unwrap();
    let call = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolCall(call) if &*call.name == "pick" => Some((call.effect_id, call.attempt)),
        _ => None,
    });
    let (effect_id, attempt) = call.unwrap();
    InboxEntry::new(InboxInput::ClientResult(ClientResult {
        effect_id,
        attempt,
        value: JsonText::from_text(value),
        failure: None,
        duration: Duration::ZERO,
        by: None,
    }))
}

#[tokio::test(start_paused = true)]
async fn a_run_renews_its_lease_while_its_tool_runs() {
    let store = failing_store();
    let (handle, _) = busy(&store).stream(request("go")).await.unwrap();
    tokio::time::sleep(seconds(31)).await;
    let calls = store.calls();
    let renewals = calls.iter().filter(|it| **it == StoreOperation::Renew);
    // Well within the 30 seconds of a lease.
    assert!((5..=7).contains(&renewals.count()), "{calls:?}");
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn a_client_result_posted_by_another_process_is_received_within_a_heartbeat() {
    let store = failing_store();
    let (handle, _) = busy(&store).stream(request("go")).await.unwrap();
    let run = handle.run_id();
    tokio::time::sleep(seconds(1)).await;
    let entry = picked(&store, run, "\"red\"").await;
    store.post(run, &entry).await.unwrap();
    tokio::time::sleep(seconds(6)).await;
    let taken = handle.records().iter().any(|record| {
        matches!(&record.body, RecordBody::ToolResult(result) if result.value.as_str() == "\"red\"")
    });
    assert!(taken);
    assert!(!store.run(run).await.unwrap().has_mail);
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "Chosen.")
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_result_does_not_stay_in_the_inbox() {
    let store = failing_store();
    let (handle, _) = busy(&store).stream(request("go")).await.unwrap();
    let run = handle.run_id();
    tokio::time::sleep(seconds(1)).await;
    let entry = picked(&store, run, "\"red\"").await;
    let RecordBody::ToolCall(call) = &handle
        .records()
        .into_iter()
        .find(|record| matches!(&record.body, RecordBody::ToolCall(call) if &*call.name == "pick"))
        .unwrap()
        .body
        .clone()
    else {
        unreachable!("it was looked for")
    };
    let blue = neuraxis_core::ToolOutcome::done(neuraxis_core::ToolOutput::new(
        JsonText::from_text("\"blue\""),
    ));
    handle
        .supply_result(&call.tool_call_id, blue, Duration::ZERO)
        .unwrap();
    tokio::time::sleep(seconds(1)).await;
    store.post(run, &entry).await.unwrap();
    assert!(store.run(run).await.unwrap().has_mail);
    tokio::time::sleep(seconds(11)).await;
    assert!(!store.run(run).await.unwrap().has_mail);
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn input_posted_where_the_run_is_in_progress_is_received_at_once() {
    let store = failing_store();
    let orchestrator = busy(&store);
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(seconds(1)).await;
    let enough = InboxInput::Cancelled(Cancelled::new(InputId::new("c1"), "enough"));
    orchestrator
        .runs()
        .post(handle.run_id(), enough)
        .await
        .unwrap();
    let began = tokio::time::Instant::now();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
    assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
    assert!(!store.run(handle.run_id()).await.unwrap().has_mail);
}

#[tokio::test(start_paused = true)]
async fn who_steers_and_who_cancels_a_run_is_on_record() {
    let store = failing_store();
    let orchestrator = busy(&store);
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(seconds(1)).await;
    let (ada, bob) = ("ada, at the terminal", "bob");
    let runs = orchestrator.runs().sent_by(Some(ada.to_owned()));
    runs.steer(handle.run_id(), "and more").await.unwrap();
    let own = handle.clone().sent_by(Some(bob.to_owned()));
    own.cancel("enough").unwrap();
    handle.result().await.unwrap();
    let records = handle.records();
    let senders = records.iter().filter_map(|record| match &record.body {
        RecordBody::Steered(steered) => Some(steered.by.as_deref()),
        RecordBody::Cancelled(cancelled) => Some(cancelled.by.as_deref()),
        _ => None,
    });
    assert_eq!(senders.collect::<Vec<_>>(), [Some(ada), Some(bob)]);
}

#[tokio::test(start_paused = true)]
async fn input_that_must_not_be_stored_reaches_a_local_run_without_the_store() {
    let store = failing_store();
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Seen."));
    let look = ScriptedTool::always(
        spec("look").read_only().timeout(seconds(100)),
        Act::value("1").after(seconds(60)),
    );
    let orchestrator = builder(model)
        .policy(policy("channels.chat.data = { text = false }\n"))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .tool(Arc::new(look))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(seconds(1)).await;
    let run = handle.run_id();
    orchestrator.runs().steer(run, "a canary").await.unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    let records = handle.records();
    let mut bodies = records.iter().map(|record| &record.body);
    assert!(bodies.any(|body| matches!(body, RecordBody::Steered(_))));
    assert!(!store.calls().contains(&StoreOperation::Post));
}

#[tokio::test(start_paused = true)]
async fn a_local_run_is_cancelled_even_if_the_store_refuses_the_cancellation() {
    let store = failing_store();
    let orchestrator = busy(&store);
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(seconds(1)).await;
    let run = handle.run_id();
    let refuse = || {
        let refused = StoreError::Refused("the file was moved".to_owned());
        store.fail_next(StoreOperation::Post, Fault::Refuse(refused));
    };
    refuse();
    let steered = orchestrator.runs().steer(run, "a canary").await;
    assert!(
        matches!(steered, Err(ResumeError::Store(StoreError::Refused(_)))),
        "{steered:?}"
    );
    refuse();
    orchestrator.runs().cancel(run, "enough").await.unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
}

/// Sends a message through a run's handle while the run's end is being stored.
#[derive(Debug, Default)]
struct Late {
    run: OnceLock<RunHandle>,
    sent: OnceLock<Result<(), NotAccepted>>,
}

impl TraceSink for Late {
    fn record(&self, record: &Arc<Record>) {
        if record.ends_the_run()
            && let Some(run) = self.run.get()
        {
            let _ = self.sent.set(run.steer("wait"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn input_sent_by_the_handle_while_the_run_s_end_is_being_stored_is_refused() {
    let late = Arc::new(Late::default());
    let slow = Script::from(reply::text("ok")).after(seconds(1));
    let orchestrator = builder(ScriptedModel::new().then(slow))
        .trace_sink(late.clone())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    late.run.set(handle.clone()).unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    assert_eq!(late.sent.get(), Some(&Err(NotAccepted::Ended)));
}

#[tokio::test(start_paused = true)]
async fn a_handle_says_why_its_run_accepts_nothing() {
    let model = ScriptedModel::new()
        .then(reply::calls([("pick", "{}")]))
        .then(reply::text("Chosen."));
    let orchestrator = builder(model)
        .store(failing_store())
        .ids(Arc::new(UuidV7))
        .client_tool(spec("pick").read_only().build())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    // The run has no time to take any of them.
    let refused = (0..1_000).find_map(|_| handle.steer("And?").err());
    assert_eq!(refused, Some(NotAccepted::Busy));
    let sub_agent = handle.cancel_agent(AgentId(1), "enough");
    assert_eq!(sub_agent, Err(NotAccepted::Busy));
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Waiting);
    assert_eq!(handle.steer("And?"), Err(NotAccepted::Parked));
    assert_eq!(handle.cancel("enough"), Err(NotAccepted::Parked));

    let runs = orchestrator.runs();
    let resumed = runs
        .resume(handle.run_id(), vec![picked_red(&handle)])
        .await;
    let resumed = resumed.unwrap();
    assert_eq!(resumed.result().await.unwrap().status, RunStatus::Done);
    assert_eq!(resumed.steer("And?"), Err(NotAccepted::Ended));
    assert_eq!(resumed.cancel("enough"), Err(NotAccepted::Ended));
}

/// The client's answer to a run's first call.
fn picked_red(handle: &RunHandle) -> Answer {
    let records = handle.records();
    let call = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolCall(call) => Some(call.tool_call_id.clone()),
        _ => None,
    });
    Answer::ToolResult {
        call: call.unwrap(),
        outcome: red(),
        duration: seconds(1),
    }
}

#[tokio::test(start_paused = true)]
async fn text_that_is_not_stored_is_refused_by_a_busy_run_and_does_not_pass_through_the_store() {
    let store = failing_store();
    let slow = Script::from(reply::text("ok")).after(seconds(60));
    let orchestrator = builder(ScriptedModel::new().then(slow))
        .policy(policy("channels.chat.data = { text = false }\n"))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    while handle.steer("And?").is_ok() {}
    let steered = orchestrator.runs().steer(run, "a canary").await;
    assert!(
        matches!(steered, Err(ResumeError::Store(StoreError::InboxFull(full))) if full == run),
        "{steered:?}"
    );
    assert!(!store.run(run).await.unwrap().has_mail);
}

#[tokio::test(start_paused = true)]
async fn input_posted_while_the_run_s_end_is_being_stored_is_refused() {
    let store = failing_store();
    // The end is stored at the second attempt.
    let away = Fault::Refuse(StoreError::Unavailable("away".to_owned()));
    store.fail_next(StoreOperation::Commit, away);
    let slow = Script::from(reply::text("ok")).after(seconds(1));
    let orchestrator = builder(ScriptedModel::new().then(slow))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    tokio::time::sleep(seconds(1) + Duration::from_millis(1)).await;
    assert_eq!(store.run(run).await.unwrap().status, RunStatus::Running);
    let posted = orchestrator.runs().steer(run, "wait").await;
    assert!(matches!(posted, Err(ResumeError::Ended(_))), "{posted:?}");
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_run_is_resumed_only_once_input_is_posted() {
    let model = ScriptedModel::new()
        .then(reply::calls([("pick", "{}")]))
        .then(reply::text("Chosen."));
    let store = failing_store();
    let orchestrator = builder(model)
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .client_tool(spec("pick").read_only().build())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Waiting);
    let watching = orchestrator.clone();
    tokio::spawn(async move { watching.runs().keep_recovering(seconds(10)).await });
    let before = store.records(run, Seq(0)).await.unwrap().len();
    tokio::time::sleep(seconds(100)).await;
    assert_eq!(store.records(run, Seq(0)).await.unwrap().len(), before);
    // Another process posts, and sends no notification.
    let entry = picked(&store, run, "\"red\"").await;
    store.post(run, &entry).await.unwrap();
    tokio::time::sleep(seconds(11)).await;
    assert_eq!(store.run(run).await.unwrap().status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_constantly_committing_run_receives_posted_input_without_delay() {
    let looks = (0..9).map(|n| reply::calls([("look", format!(r#"{{"n":{n}}}"#).as_str())]));
    let model = looks.fold(ScriptedModel::new(), ScriptedModel::then);
    let model = model.then(reply::text("Seen."));
    let look = ScriptedTool::always(spec("look").read_only(), Act::value("1").after(seconds(2)));
    let store = failing_store();
    let orchestrator = builder(model)
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .tool(Arc::new(look))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(seconds(1)).await;
    // Another process posts, and sends no notification.
    let enough = InboxInput::Cancelled(Cancelled::new(InputId::new("c1"), "enough"));
    let entry = InboxEntry::new(enough);
    store.post(handle.run_id(), &entry).await.unwrap();
    let began = tokio::time::Instant::now();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
    assert!(began.elapsed() < seconds(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_model_is_blamed_even_if_the_inbox_is_checked_at_the_deadline() {
    let orchestrator = builder(ScriptedModel::always(Script::hanging()))
        .policy(policy(
            "health.failures = 1\nmodes.exploratory.deadline = '5s'",
        ))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    orchestrator.runs().check_inbox(handle.run_id());
    // The run finds both at the same time.
    tokio::time::advance(seconds(1)).await;
    let result = handle.result().await.unwrap();
    assert_eq!(result.finish_reason, Some(FinishReason::Deadline));
    assert_eq!(orchestrator.degraded_roles().len(), 1);
}

/// A run that waits for its client; the given operation of its store answers late.
async fn waits_for_its_client(late: StoreOperation) -> (Arc<Store>, Orchestrator, RunHandle) {
    let model = ScriptedModel::new()
        .then(reply::calls([("pick", "{}")]))
        .then(reply::text("Chosen."));
    let store = failing_store();
    store.fail_next(late, Fault::AnswerLate(seconds(1)));
    let orchestrator = builder(model)
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .client_tool(spec("pick").read_only().build())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    (store, orchestrator, handle)
}

fn call_to_pick(handle: &RunHandle) -> ToolCallId {
    let records = handle.records();
    let call = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolCall(call) => Some(call.tool_call_id.clone()),
        _ => None,
    });
    call.unwrap()
}

fn red() -> ToolOutcome {
    ToolOutcome::done(ToolOutput::new(JsonText::from_text("\"red\"")))
}

#[tokio::test(start_paused = true)]
async fn input_accepted_by_a_handle_while_its_run_is_parked_lets_it_continue() {
    let (store, _orchestrator, handle) = waits_for_its_client(StoreOperation::Inbox).await;
    let call = call_to_pick(&handle);
    handle.supply_result(&call, red(), Duration::ZERO).unwrap();
    tokio::time::sleep(seconds(2)).await;
    let run = store.run(handle.run_id()).await.unwrap();
    assert_eq!(run.status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_run_posted_to_while_it_is_being_parked_is_resumed_afterwards() {
    let (store, orchestrator, handle) = waits_for_its_client(StoreOperation::Release).await;
    let (run, call) = (handle.run_id(), call_to_pick(&handle));
    let refused = handle.supply_result(&call, red(), Duration::ZERO);
    assert!(refused.is_err(), "nobody takes it here any more");
    let entry = picked(&store, run, "\"red\"").await;
    orchestrator.runs().post(run, entry.input).await.unwrap();
    tokio::time::sleep(seconds(2)).await;
    assert_eq!(store.run(run).await.unwrap().status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_process_that_lost_its_run_writes_nothing_more() {
    let store = failing_store();
    let slow = Script::from(reply::text("late")).after(seconds(60));
    let first = builder(ScriptedModel::new().then(slow))
        .store(store.clone())
        .build()
        .unwrap();
    let (stalled, _) = first.stream(request("go")).await.unwrap();
    tokio::time::sleep(seconds(1)).await;
    let second = builder(ScriptedModel::always(reply::text("taken over")))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .build()
        .unwrap();
    let run = stalled.run_id();
    let taken_over = second.runs().resume(run, Vec::new()).await.unwrap();
    assert_eq!(taken_over.result().await.unwrap().reply, "taken over");
    let kept = store.records(run, Seq(0)).await.unwrap();
    let stale = NoResult::Unrecorded(StoreError::Stale(run));
    assert_eq!(stalled.result().await, Err(stale));
    assert_eq!(store.records(run, Seq(0)).await.unwrap(), kept);
    assert!(
        stalled.records().len() < kept.len(),
        "it showed what it could not keep"
    );
}
