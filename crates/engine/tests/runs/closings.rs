//! Abandoned runs whose logs cannot be replayed: they are ended, and their sessions are freed.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{
    AgentId, Cancelled, FinishReason, InboxInput, InputId, Interruption, JsonText, PlanName,
    Record, RecordBody, Reply, RunId, RunStarted, RunStatus, RunTree, Seq, SessionId, ToolFailure,
    Transcript,
};
use neuraxis_engine::{Orchestrator, RequestError, ResumeError, UuidV7};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, Session, SessionIndex as _, SessionStore, StoreError};
use neuraxis_testkit::{
    Act, FailingStore, Fault, START, Script, ScriptedModel, ScriptedTool, StoreOperation,
    assert_paired, reply, spec,
};

use crate::support::{builder, policy, request, session};

fn pay(act: Act) -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::always(spec("note").idempotent(), act))
}

fn engine(store: Arc<dyn SessionStore>, model: ScriptedModel, tool: Act) -> Orchestrator {
    builder(model)
        .store(store)
        .ids(Arc::new(UuidV7))
        .tool(pay(tool))
        .build()
        .unwrap()
}

/// A reply of 15 tokens that calls the tool.
fn turn(text: &str, arguments: &str) -> Reply {
    reply::using(reply::text_and_calls(text, [("note", arguments)]), 10, 5)
}

/// The log of a run that a process left during a call, changed and put into a separate store.
async fn left(change: impl Fn(&mut Record)) -> (Arc<MemoryStore>, RunId) {
    let model = ScriptedModel::new()
        .then(turn("First.", "{\"n\":1}"))
        .then(turn("Second.", "{\"n\":2}"));
    let tool = ScriptedTool::new(spec("note").idempotent())
        .then(Act::value("1"))
        .then(Act::hanging());
    let store = Arc::new(MemoryStore::new());
    let orchestrator = builder(model)
        .store(store.clone())
        .tool(Arc::new(tool))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let records = store.records(handle.run_id(), Seq(0)).await.unwrap();
    let copy = copied(&records, change).await;
    (copy, handle.run_id())
}

/// Puts the changed log of a run into a separate store.
async fn copied(records: &[Arc<Record>], change: impl Fn(&mut Record)) -> Arc<MemoryStore> {
    copied_into(&session(), records, change).await
}

/// Same, into a session with this name.
async fn copied_into(
    session: &SessionId,
    records: &[Arc<Record>],
    change: impl Fn(&mut Record),
) -> Arc<MemoryStore> {
    let mut changed = Vec::new();
    for record in records {
        let mut record = Record::clone(record);
        change(&mut record);
        changed.push(Arc::new(record));
    }
    let copy = Arc::new(MemoryStore::new());
    copy.create_session(&Session::new(session.clone(), START))
        .await
        .unwrap();
    let lease = copy.begin_run(session, records[0].run_id).await.unwrap();
    copy.commit(&lease, &changed).await.unwrap();
    copy.release(&lease).await.unwrap();
    copy
}

fn started(records: &[Arc<Record>]) -> Option<&RunStarted> {
    match &records.first()?.body {
        RecordBody::RunStarted(started) => Some(started),
        _ => None,
    }
}

fn other_version(record: &mut Record) {
    if let RecordBody::RunStarted(started) = &mut record.body {
        started.loop_version = 99;
    }
}

async fn assert_closed(
    store: &dyn SessionStore,
    run: RunId,
    cause: Interruption,
) -> Vec<Arc<Record>> {
    let summary = store.run(run).await.unwrap();
    assert_eq!(summary.status, RunStatus::Interrupted);
    assert!(matches!(
        summary.finish_reason,
        Some(FinishReason::Interrupted(_))
    ));
    let records = store.records(run, Seq(0)).await.unwrap();
    let unknown = records.iter().filter(|record| {
        matches!(&record.body, RecordBody::ToolResult(result)
            if result.failure == Some(ToolFailure::OutcomeUnknown))
    });
    assert_eq!(unknown.count(), 1, "the call that was under way");
    let calls = |kind| records.iter().filter(move |it| it.body.kind() == kind);
    assert_eq!(calls("tool_call").count(), calls("tool_result").count());
    assert_eq!(records.iter().filter(|it| it.ends_the_run()).count(), 1);
    let end = records.last().unwrap();
    let is_named = matches!(&end.body, RecordBody::Final(it) if it.interruption == Some(cause));
    assert!(is_named, "{end:?}");
    records
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_version_continues_at_its_next_turn_as_a_new_run() {
    let (store, run) = left(other_version).await;
    let model = Arc::new(ScriptedModel::always(reply::text("Third.")));
    let orchestrator = builder(model.clone())
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .tool(pay(Act::value("1")))
        .build()
        .unwrap();
    let recovered = orchestrator.runs().recover().await.unwrap();
    let [next] = recovered.resumed.as_slice() else {
        panic!("{recovered:?}")
    };
    let result = next.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "Third.")
    );
    let closed = assert_closed(store.as_ref(), run, Interruption::OtherVersion).await;
    let records = next.records();
    let (before, after) = (
        &started(&closed).unwrap().spec,
        &started(&records).unwrap().spec,
    );
    assert_eq!(after.forked_from.unwrap().run_id, run);
    assert!(matches!(records[1].body, RecordBody::Decision(_)));
    let turns = before.root.limits.max_turns.unwrap();
    assert_eq!(
        after.root.limits.max_turns,
        Some(turns - 2),
        "two turns are used up"
    );
    let sent: Vec<_> = model.requests()[0].messages.messages()[1..].to_vec();
    assert_paired(&sent);
    let texts: Vec<_> = sent.iter().map(|message| message.text()).collect();
    assert_eq!(texts[..3], ["go", "First.", "1"]);
    assert!(texts[4].contains("outcome is unknown"), "{texts:?}");
    assert_eq!(texts.len(), 5, "nothing is asked anew: {texts:?}");
    let history = store.history(&session()).await.unwrap();
    assert_eq!(history.messages().last().unwrap().text(), "Third.");
}

#[tokio::test(start_paused = true)]
async fn the_continuing_run_does_not_regain_budget_used_by_a_run_of_another_version() {
    for (of_run, of_day, left_of_it) in [(50_000, 90_000, 49_970), (50_000, 40_000, 39_970)] {
        let (store, _) = left(|record| {
            other_version(record);
            if let RecordBody::RunStarted(started) = &mut record.body {
                let spec = Arc::make_mut(&mut started.spec);
                spec.root.limits.max_tokens = Some(of_run);
                spec.plan = Some(PlanName::new("team"));
            }
        })
        .await;
        let day = format!("plans.team.day = {{ max_tokens = {of_day} }}\n");
        let orchestrator = builder(ScriptedModel::always(reply::text("Third.")))
            .policy(policy(&day))
            .store(store)
            .ids(Arc::new(UuidV7))
            .tool(pay(Act::value("1")))
            .build()
            .unwrap();
        let recovered = orchestrator.runs().recover().await.unwrap();
        let [next] = recovered.resumed.as_slice() else {
            panic!("{recovered:?}")
        };
        assert_eq!(next.result().await.unwrap().reply, "Third.");
        let records = next.records();
        let limits = started(&records).unwrap().spec.root.limits;
        assert_eq!(limits.max_tokens, Some(left_of_it), "{of_day}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_eval_run_is_closed_and_not_resumed() {
    let (store, run) = left(|_| ()).await;
    let records = store.records(run, Seq(0)).await.unwrap();
    let session: SessionId = "eval-0199f3a1-0000-7000-8000-000000000001".parse().unwrap();
    let store = copied_into(&session, &records, |record| {
        if let RecordBody::RunStarted(started) = &mut record.body {
            started.session_id = Some(session.clone());
        }
    })
    .await;
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    let orchestrator = builder(model.clone()).store(store.clone()).build().unwrap();
    let recovered = orchestrator.runs().recover().await.unwrap();
    let is_empty = recovered.resumed.is_empty() && recovered.left.is_empty();
    assert!(is_empty, "{recovered:?}");
    assert_closed(store.as_ref(), run, Interruption::EvalGone).await;
    assert!(model.requests().is_empty());
}

/// Checks that a run that was left is closed, and that no other run continues from it.
async fn assert_only_closed(store: Arc<MemoryStore>, run: RunId) {
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    let orchestrator = builder(model.clone())
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .build()
        .unwrap();
    let recovered = orchestrator.runs().recover().await.unwrap();
    assert!(recovered.resumed.is_empty(), "{recovered:?}");
    let only_closed = matches!(recovered.left.as_slice(),
        [(left, ResumeError::Closed { .. })] if *left == run);
    assert!(only_closed, "{recovered:?}");
    assert!(model.requests().is_empty());
    let summary = store.run(run).await.unwrap();
    assert_eq!(summary.status, RunStatus::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_version_with_an_incomplete_log_is_only_closed() {
    let (store, run) = left(|record| {
        other_version(record);
        if let RecordBody::RunStarted(started) = &mut record.body {
            let spec = Arc::make_mut(&mut started.spec);
            spec.root.profile.data.tool_results = false;
        }
    })
    .await;
    assert_only_closed(store, run).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_version_that_has_its_answer_is_only_closed() {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::always(reply::text("Done."));
    let first = engine(store.clone(), model, Act::value("1"));
    let run = first.handle(request("go")).await.unwrap().run_id;
    let records = store.records(run, Seq(0)).await.unwrap();
    let (end, but_its_end) = records.split_last().unwrap();
    assert!(end.ends_the_run());
    assert_only_closed(copied(but_its_end, other_version).await, run).await;
}

#[tokio::test(start_paused = true)]
async fn a_log_that_does_not_replay_is_closed_and_frees_its_session() {
    let (store, run) = left(|record| {
        if let RecordBody::ToolCall(call) = &mut record.body {
            call.arguments = JsonText::from_text("{\"n\":\"secret-canary\"}");
        }
    })
    .await;
    let orchestrator = engine(
        store.clone(),
        ScriptedModel::always(reply::text("ok")),
        Act::value("1"),
    );
    let recovered = orchestrator.runs().recover().await.unwrap();
    let [(left, error)] = recovered.left.as_slice() else {
        panic!("{recovered:?}")
    };
    assert_eq!(*left, run);
    assert!(matches!(error, ResumeError::Closed { .. }), "{error}");
    let records = assert_closed(store.as_ref(), run, Interruption::NotReplayable).await;
    let told = records.last().unwrap().to_json();
    assert!(
        told.contains("replaying gives a different record"),
        "{told}"
    );
    assert!(!told.contains("secret-canary"), "{told}");
    assert_eq!(
        orchestrator.handle(request("more")).await.unwrap().reply,
        "ok"
    );
}

fn diverged(record: &mut Record) {
    if let RecordBody::ToolCall(call) = &mut record.body {
        call.arguments = JsonText::from_text("{}");
    }
}

#[tokio::test(start_paused = true)]
async fn input_to_a_run_that_cannot_continue_is_refused_except_cancellation() {
    let (store, run) = left(diverged).await;
    let model = || ScriptedModel::always(reply::text("ok"));
    let orchestrator = engine(store.clone(), model(), Act::value("1"));
    let refused = orchestrator.runs().steer(run, "and more").await;
    assert!(
        matches!(refused, Err(ResumeError::Closed { .. })),
        "{refused:?}"
    );
    assert_closed(store.as_ref(), run, Interruption::NotReplayable).await;

    let (store, run) = left(diverged).await;
    let orchestrator = engine(store.clone(), model(), Act::value("1"));
    orchestrator.runs().cancel(run, "enough").await.unwrap();
    assert_closed(store.as_ref(), run, Interruption::NotReplayable).await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_run_refuses_input_and_forwards_cancellation_to_its_successor() {
    let (store, run) = left(other_version).await;
    let hanging = || ScriptedModel::always(Script::hanging());
    let orchestrator = engine(store.clone(), hanging(), Act::value("1"));
    let refused = orchestrator.runs().steer(run, "and more").await;
    assert!(
        matches!(refused, Err(ResumeError::Ended(ended)) if ended == run),
        "{refused:?}"
    );

    let (store, run) = left(other_version).await;
    let orchestrator = engine(store.clone(), hanging(), Act::value("1"));
    orchestrator.runs().cancel(run, "enough").await.unwrap();
    let of_session = store.runs(&session()).await.unwrap();
    let next = of_session.iter().find(|it| it.run_id != run).unwrap();
    let result = orchestrator.runs().result(next.run_id).await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_sub_agent_of_a_replaced_run_does_not_end_its_successor() {
    let (store, run) = left(other_version).await;
    let hanging = ScriptedModel::always(Script::hanging());
    let orchestrator = engine(store.clone(), hanging, Act::value("1"));
    let cancelled = Cancelled {
        agent: AgentId(1),
        ..Cancelled::new(InputId::new("c1"), "enough")
    };
    let runs = orchestrator.runs();
    let refused = runs.post(run, InboxInput::Cancelled(cancelled)).await;
    assert!(
        matches!(refused, Err(ResumeError::Ended(ended)) if ended == run),
        "{refused:?}"
    );
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let of_session = store.runs(&session()).await.unwrap();
    let next = of_session.iter().find(|it| it.run_id != run).unwrap();
    assert_eq!(next.ended_at, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_with_an_incomplete_log_is_closed_with_the_reason() {
    let policy = "[channels.chat]\nsimple_role = \"reasoning\"\ndata = { tool_results = false }";
    let policy = Policy::layered(PolicyConfig::from_toml(policy).unwrap()).unwrap();
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::always(reply::calls([("note", "{}")]));
    let first = builder(model)
        .policy(policy)
        .store(store.clone())
        .tool(pay(Act::hanging()))
        .build()
        .unwrap();
    let (handle, _) = first.stream(request("go")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let next = engine(
        store.clone(),
        ScriptedModel::always(reply::text("ok")),
        Act::value("1"),
    );
    let refused = next.runs().resume(handle.run_id(), Vec::new()).await;
    let Err(ResumeError::Closed { run, why }) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("data policy"), "{why}");
    assert_closed(store.as_ref(), run, Interruption::Withheld).await;
    assert_eq!(next.handle(request("more")).await.unwrap().reply, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_log_is_closed() {
    let inner = MemoryStore::new();
    let store = Arc::new(FailingStore::new(inner));
    let first = engine(
        store.clone(),
        ScriptedModel::always(Script::hanging()),
        Act::value("1"),
    );
    let (handle, _) = first.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    let damaged = StoreError::Damaged(format!("record 2 of run {run} cannot be read"));
    store.fail_next(StoreOperation::Records, Fault::Refuse(damaged));
    let next = engine(
        store.clone(),
        ScriptedModel::always(reply::text("ok")),
        Act::value("1"),
    );
    let refused = next.runs().resume(run, Vec::new()).await;
    assert!(
        matches!(refused, Err(ResumeError::Closed { .. })),
        "{refused:?}"
    );
    let result = next.runs().result(run).await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
    assert_eq!(result.interruption, Some(Interruption::LogDamaged));
    assert_eq!(next.handle(request("more")).await.unwrap().reply, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_session_reserved_for_a_run_that_never_started_is_freed() {
    let store = Arc::new(MemoryStore::with_lease(std::time::Duration::ZERO));
    store
        .create_session(&Session::new(session(), START))
        .await
        .unwrap();
    let run = neuraxis_testkit::CountingIds::nth_run(99);
    store.begin_run(&session(), run).await.unwrap();
    let orchestrator = engine(
        store.clone(),
        ScriptedModel::always(reply::text("ok")),
        Act::value("1"),
    );
    let busy = orchestrator.handle(request("go")).await;
    assert!(matches!(busy, Err(RequestError::Busy { .. })));
    let recovered = orchestrator.runs().recover().await.unwrap();
    assert!(recovered.resumed.is_empty() && recovered.left.is_empty());
    assert_eq!(
        orchestrator.handle(request("go")).await.unwrap().reply,
        "ok"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_log_is_resumed_and_not_closed() {
    let (store, run) = left(|_| {}).await;
    let records = store.records(run, Seq(0)).await.unwrap();
    RunTree::restore(Transcript::default(), &records).unwrap();
    let orchestrator = engine(
        store.clone(),
        ScriptedModel::always(reply::text("ok")),
        Act::value("1"),
    );
    let recovered = orchestrator.runs().recover().await.unwrap();
    assert_eq!(recovered.resumed.len(), 1);
    let result = recovered.resumed[0].result().await.unwrap();
    assert_eq!((result.run_id, result.status), (run, RunStatus::Done));
}
