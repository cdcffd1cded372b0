//! An engine that stops without ending its runs.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    CountLabel, FinishReason, LlmError, ModelRequest, Reply, Role, RunStatus, Seq, ToolFailure,
    ToolResult,
};
use neuraxis_engine::{Orchestrator, RequestError, ResumeError, UuidV7};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    CallContext, LlmClient, ModelInfo, RequestContext, RunLog as _, SessionIndex as _,
    SessionStore, async_trait,
};
use neuraxis_testkit::{
    Act, Fault, Script, ScriptedModel, ScriptedTool, StoreOperation, assert_paired, reply, spec,
};
use tokio::time::Instant;

use crate::support::{Store, builder, failing_store, request, session};

const GRACE: Duration = Duration::from_secs(5);

fn engine(
    store: &Arc<impl SessionStore>,
    model: ScriptedModel,
    tool: ScriptedTool,
) -> Orchestrator {
    let builder = builder(model).store(store.clone()).ids(Arc::new(UuidV7));
    builder.tool(Arc::new(tool)).build().unwrap()
}

fn unused() -> ScriptedTool {
    ScriptedTool::always(spec("note").idempotent(), Act::value("1"))
}

fn after(seconds: u64) -> ScriptedModel {
    ScriptedModel::always(Script::from(reply::text("42")).after(Duration::from_secs(seconds)))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_within_the_grace_period_ends_normally() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = engine(&store, after(2), unused());
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    let began = Instant::now();
    assert!(orchestrator.suspend(GRACE).await.is_empty());
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "42")
    );
    assert!(store.unfinished().await.unwrap().is_empty());
    assert!(orchestrator.is_shutting_down());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_outlasts_the_grace_period_is_released_without_a_record() {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::new().then(reply::calls([("note", "{}")]));
    let hanging = ScriptedTool::always(spec("note").idempotent(), Act::hanging());
    let orchestrator = engine(&store, model, hanging);
    let (handle, mut events) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let run = handle.run_id();
    let before = store.records(run, Seq(0)).await.unwrap();
    let began = Instant::now();
    assert_eq!(orchestrator.suspend(GRACE).await, [run]);
    assert_eq!(began.elapsed(), GRACE);
    assert_eq!(store.records(run, Seq(0)).await.unwrap(), before);
    assert!(handle.result().await.is_err());
    while let Some(event) = events.next().await {
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains("\"type\":\"final\""), "{text}");
    }

    let model = ScriptedModel::new().then(reply::text("done"));
    let next = engine(&store, model, unused());
    let recovered = next.runs().recover().await.unwrap();
    let [taken_up] = recovered.resumed.as_slice() else {
        panic!("{recovered:?}");
    };
    assert_eq!(taken_up.run_id(), run);
    let result = taken_up.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "done")
    );
    assert_paired(store.history(&session()).await.unwrap().messages());
}

#[tokio::test(start_paused = true)]
async fn a_first_model_call_in_progress_at_suspension_has_unknown_usage() {
    let store = Arc::new(MemoryStore::new());
    let first = engine(&store, after(60), unused());
    let (handle, _) = first.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let run = handle.run_id();
    assert_eq!(first.suspend(Duration::ZERO).await, [run]);
    let left = store.run(run).await.unwrap();
    assert_eq!((left.released, left.leased_until), (false, None));

    let next = engine(&store, after(0), unused());
    let recovered = next.runs().recover().await.unwrap();
    let result = recovered.resumed[0].result().await.unwrap();
    assert_eq!(result.usage.total.total.label, CountLabel::Unknown);
    let records = store.records(run, Seq(0)).await.unwrap();
    let resumed = records.iter().filter(|it| it.body.kind() == "resumed");
    assert_eq!(resumed.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_keeps_its_own_context_until_it_ends() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = engine(&store, after(60), unused());
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let run = handle.run_id();
    assert_eq!(orchestrator.suspend(Duration::ZERO).await, [run]);
    drop(orchestrator);

    let next = engine(&store, after(2), unused());
    let held = Arc::new(run);
    let given = Arc::clone(&held);
    let runs = next.runs().with_context_of_each(move |run| {
        assert_eq!(run.run_id, *given);
        RequestContext::default().with(Arc::clone(&given))
    });
    let recovered = runs.recover().await.unwrap();
    assert_eq!(Arc::strong_count(&held), 3, "the run holds one");
    recovered.resumed[0].result().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Arc::strong_count(&held), 2, "it is over");
}

#[tokio::test(start_paused = true)]
async fn an_irreversible_call_is_not_repeated_when_its_run_is_resumed() {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::new().then(reply::calls([("pay", "{}")]));
    let allowed = neuraxis_testkit::ScriptedApprover::new().approve();
    let orchestrator = builder(model)
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .approver(Arc::new(allowed))
        .tool(Arc::new(ScriptedTool::always(spec("pay"), Act::hanging())))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        orchestrator.suspend(Duration::ZERO).await,
        [handle.run_id()]
    );

    let again = Arc::new(ScriptedTool::always(spec("pay"), Act::value("2")));
    let next = builder(ScriptedModel::new().then(reply::text("I do not know.")))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .tool(again.clone())
        .build()
        .unwrap();
    let taken_up = next
        .runs()
        .resume(handle.run_id(), Vec::new())
        .await
        .unwrap();
    taken_up.result().await.unwrap();
    let records = taken_up.records();
    let results: Vec<&ToolResult> = records
        .iter()
        .filter_map(|record| match &record.body {
            neuraxis_core::RecordBody::ToolResult(result) => Some(&**result),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].failure, Some(ToolFailure::OutcomeUnknown));
    assert!(again.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn standalone_runs_are_cancelled_and_new_requests_are_refused_at_suspension() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = engine(&store, after(1_000), unused());
    let executing = tokio::spawn({
        let agent = orchestrator.agent();
        async move { agent.execute("Be short.", "go").await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let suspending = tokio::spawn({
        let orchestrator = orchestrator.clone();
        async move { orchestrator.suspend(GRACE).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = orchestrator.stream(request("go")).await.unwrap_err();
    assert!(matches!(refused, RequestError::ShuttingDown));
    assert!(suspending.await.unwrap().is_empty());
    assert_eq!(
        executing.await.unwrap().finish_reason,
        FinishReason::Cancelled
    );
}

/// Suspends an engine while one of its requests waits for the store's answer about its session, and expects the request
/// to be refused.
async fn suspends_while_the_store_is_asked(store: &Store, orchestrator: &Orchestrator) {
    let late = Fault::AnswerLate(Duration::from_secs(1));
    store.fail_next(StoreOperation::Continuation, late);
    let asking = tokio::spawn({
        let orchestrator = orchestrator.clone();
        async move { orchestrator.handle(request("go")).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(orchestrator.suspend(GRACE).await.is_empty());
    let refused = asking.await.unwrap().unwrap_err();
    assert!(matches!(refused, RequestError::ShuttingDown), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_waiting_for_the_store_at_suspension_starts_no_run() {
    let store = failing_store();
    let orchestrator = engine(&store, after(0), unused());
    orchestrator.handle(request("hello")).await.unwrap();
    suspends_while_the_store_is_asked(&store, &orchestrator).await;
    assert_eq!(store.runs(&session()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_in_a_session_without_runs_starts_none_at_suspension() {
    for answers_before in [0, 1] {
        let store = failing_store();
        let orchestrator = engine(&store, after(0), unused());
        let made = orchestrator.runs().new_session(Some(session())).await;
        made.unwrap();
        for _ in 0..answers_before {
            store.fail_next(
                StoreOperation::Continuation,
                Fault::AnswerLate(Duration::ZERO),
            );
        }
        suspends_while_the_store_is_asked(&store, &orchestrator).await;
        assert!(store.runs(&session()).await.unwrap().is_empty());
    }
}

/// A model that takes time to find out its context size.
#[derive(Debug)]
struct SlowToLearn(ScriptedModel);

#[async_trait]
impl LlmClient for SlowToLearn {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        self.0.respond(request, ctx).await
    }

    fn info(&self) -> ModelInfo {
        self.0.info()
    }

    async fn learn_context(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_waiting_for_a_model_s_context_size_at_suspension_starts_no_run() {
    for is_kept in [true, false] {
        let orchestrator = builder(after(0))
            .model(Role::REASONING, Arc::new(SlowToLearn(after(0))))
            .build()
            .unwrap();
        let asking = tokio::spawn({
            let orchestrator = orchestrator.clone();
            async move {
                match is_kept {
                    true => orchestrator.handle(request("go")).await.map(drop),
                    false => orchestrator
                        .agent()
                        .execute("Be short.", "go")
                        .await
                        .map(drop),
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(orchestrator.suspend(GRACE).await.is_empty());
        let refused = asking.await.unwrap().unwrap_err();
        assert!(matches!(refused, RequestError::ShuttingDown), "{refused:?}");
    }
}

/// A model whose properties are never found out: its client waits forever, or panics.
#[derive(Debug)]
struct NeverLearns {
    model: ScriptedModel,
    panics: bool,
}

#[async_trait]
impl LlmClient for NeverLearns {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        self.model.respond(request, ctx).await
    }

    fn info(&self) -> ModelInfo {
        self.model.info()
    }

    async fn learn_context(&self) {
        assert!(!self.panics, "nothing is learned");
        std::future::pending::<()>().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_client_that_never_learns_its_context_delays_no_request_or_shutdown() {
    for panics in [false, true] {
        let model = after(0);
        let orchestrator = builder(after(0))
            .model(Role::REASONING, Arc::new(NeverLearns { model, panics }))
            .build()
            .unwrap();
        let result = orchestrator.handle(request("go")).await.unwrap();
        assert_eq!(result.reply.as_str(), "42");
        let asked = orchestrator.agent().execute("Be short.", "go").await;
        assert_eq!(asked.unwrap().content, "42");
        if panics {
            continue;
        }
        let asking = tokio::spawn({
            let orchestrator = orchestrator.clone();
            async move { orchestrator.handle(request("go")).await }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        let began = Instant::now();
        orchestrator.shutdown().await;
        let refused = asking.await.unwrap().unwrap_err();
        assert!(matches!(refused, RequestError::ShuttingDown), "{refused:?}");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_being_resumed_at_suspension_is_left_unchanged() {
    let store = failing_store();
    let model = ScriptedModel::new().then(reply::calls([("note", "{}")]));
    let hanging = ScriptedTool::always(spec("note").idempotent(), Act::hanging());
    let first = engine(&store, model, hanging);
    let (handle, _) = first.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let run = handle.run_id();
    assert_eq!(first.suspend(Duration::ZERO).await, [run]);
    let before = store.records(run, Seq(0)).await.unwrap();

    let next = engine(&store, after(0), unused());
    let late = Fault::AnswerLate(Duration::from_secs(1));
    store.fail_next(StoreOperation::Inbox, late);
    let taking_up = tokio::spawn({
        let runs = next.runs();
        async move { runs.resume(run, Vec::new()).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(next.suspend(GRACE).await.is_empty());
    let refused = taking_up.await.unwrap().unwrap_err();
    assert!(matches!(refused, ResumeError::ShuttingDown), "{refused:?}");
    // Suspending the engine is not held against the run.
    let recovered = next.runs().recover().await.unwrap();
    assert!(recovered.left.is_empty(), "{recovered:?}");
    assert_eq!(store.records(run, Seq(0)).await.unwrap(), before);
    assert_eq!(store.run(run).await.unwrap().leased_until, None);
}
