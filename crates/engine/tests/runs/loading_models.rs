//! Models that their servers are still loading: which callers wait for them, and for how long.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{FinishReason, LlmErrorKind, Role, RunStatus};
use neuraxis_engine::{Event, RetryPolicy};
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, reply, spec};
use tokio::time::Instant;

use crate::failing_models::{answering, build_and_run, error, failing, warnings};
use crate::support::{builder, policy, request, run_to_end};

/// A model that is loaded after this many attempts, and then gives its answer.
fn loading(attempts: usize) -> ScriptedModel {
    let mut model = ScriptedModel::new();
    for _ in 0..attempts {
        model = model.then(error(LlmErrorKind::Loading));
    }
    model.then(reply::text("fine"))
}

#[tokio::test(start_paused = true)]
async fn a_model_still_loading_is_waited_for_beyond_the_deadline() {
    let started = Instant::now();
    let builder = builder(loading(40)).policy(policy("modes.exploratory.deadline = '10s'"));
    let finished = build_and_run(builder).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "fine");
    assert_eq!(started.elapsed().as_secs(), 40, "it is asked every second");
    let failed = |kind: &&&str| **kind == "llm_failed";
    let kinds = finished.kinds();
    assert_eq!(kinds.iter().filter(failed).count(), 1, "{kinds:?}");
    assert_eq!(warnings(&finished.result).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_loads_is_abandoned_after_its_loading_time() {
    let patient = |seconds| {
        let mut retry = RetryPolicy::default();
        retry.loads_within = Duration::from_secs(seconds);
        retry
    };
    for (retry, seconds, attempts) in [
        (RetryPolicy::default(), 300, 2),
        (patient(20), 20, 2),
        (patient(0), 0, 1),
        (RetryPolicy::never(), 0, 1),
    ] {
        let started = Instant::now();
        let finished = build_and_run(builder(failing(LlmErrorKind::Loading)).retry(retry)).await;
        finished.assert_valid(RunStatus::Failed);
        assert_eq!(started.elapsed().as_secs(), seconds);
        let reply = &finished.result.reply;
        assert!(reply.contains("the model is still loading"), "{reply}");
        let failed = |kind: &&&str| **kind == "llm_failed";
        assert_eq!(finished.kinds().iter().filter(failed).count(), attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loading_model_is_not_waited_for_when_another_can_answer() {
    let started = Instant::now();
    let model = failing(LlmErrorKind::Loading);
    let finished = build_and_run(builder(model).model(Role::ROUTER, answering("fine"))).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "fine");
    assert_eq!(started.elapsed().as_secs(), 0);
    let kinds = finished.kinds();
    assert!(kinds.contains(&"role_downgraded"), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loading_model_is_waited_for_when_the_other_one_fails() {
    let wrong_key = || Arc::new(failing(LlmErrorKind::Unauthorized));
    let started = Instant::now();
    let loaded = build_and_run(builder(loading(20)).model(Role::ROUTER, wrong_key())).await;
    loaded.assert_valid(RunStatus::Done);
    assert_eq!(loaded.result.reply, "fine");
    assert_eq!(started.elapsed().as_secs(), 20);
    let started = Instant::now();
    let model = failing(LlmErrorKind::Loading);
    let never = build_and_run(builder(model).model(Role::ROUTER, wrong_key())).await;
    never.assert_valid(RunStatus::Failed);
    let reply = &never.result.reply;
    assert!(reply.contains("the model is still loading"), "{reply}");
    assert_eq!(started.elapsed().as_secs(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_substitute_model_that_is_loading_is_waited_for() {
    let router = Arc::new(loading(20));
    let finished =
        build_and_run(builder(failing(LlmErrorKind::Loading)).model(Role::ROUTER, router)).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "fine");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_model_to_load_can_be_cancelled() {
    let orchestrator = builder(failing(LlmErrorKind::Loading)).build().unwrap();
    let (handle, mut events) = orchestrator.stream(request("first")).await.unwrap();
    while let Some(event) = events.next().await {
        if matches!(event, Event::Record(record) if record.body.kind() == "llm_failed") {
            break;
        }
    }
    let stopped = Instant::now();
    handle.cancel("enough").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.finish_reason, Some(FinishReason::Cancelled));
    assert_eq!(stopped.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_model_does_not_stop_the_clock_while_other_work_is_in_progress() {
    // The helper's model is never loaded; the tool called with it takes longer than the run may.
    let root = ScriptedModel::new()
        .then(reply::calls([
            ("helper", r#"{"task":"why"}"#),
            ("look", "{}"),
        ]))
        .then(reply::text("fine"));
    let helper = crate::support::helper("helper", &[]).build().unwrap();
    let slow = ScriptedTool::always(spec("look").read_only(), Act::hanging());
    let orchestrator = builder(root)
        .policy(policy("modes.exploratory.deadline = '10s'"))
        .model(Role::CODING, Arc::new(failing(LlmErrorKind::Loading)))
        .tool(Arc::new(slow))
        .agent_tool(helper)
        .build()
        .unwrap();
    let started = Instant::now();
    let finished = run_to_end(&orchestrator, request("first")).await;
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Deadline));
}
