//! Failing models: for each class of failure, what the caller is told, and which role serves instead.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    FinishReason, LlmError, LlmErrorKind, Mode, ModelRef, ModelRequest, Reply, Role, RunStatus,
};
use neuraxis_engine::{
    OrchestratorBuilder, OrchestratorResult, RetryPolicy, StepType, UserRequest,
};
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, async_trait};
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, VirtualClock, reply, spec};
use tokio::time::Instant;

use crate::support::{FinishedRun, builder, policy, request, run_to_end};

/// Meant for operators, not for the user.
const SAID_BY_PROVIDER: &str = "as the test wants it";

pub(crate) fn error(kind: LlmErrorKind) -> LlmError {
    LlmError::new(kind, SAID_BY_PROVIDER)
}

pub(crate) fn failing(kind: LlmErrorKind) -> ScriptedModel {
    ScriptedModel::always(error(kind))
}

pub(crate) fn answering(text: &str) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::always(reply::text(text)))
}

pub(crate) async fn build_and_run(builder: OrchestratorBuilder) -> FinishedRun {
    run_to_end(&builder.build().unwrap(), request("first")).await
}

/// Returns the warnings, each with its error.
pub(crate) fn warnings(result: &OrchestratorResult) -> Vec<(String, String)> {
    let warnings = result
        .steps
        .iter()
        .filter(|step| step.kind == StepType::Warning);
    let warnings = warnings.map(|step| {
        let error = step.metadata.get("error").unwrap_or_default();
        (
            step.description.to_string(),
            error.as_str().unwrap_or_default().to_owned(),
        )
    });
    warnings.collect()
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_model_failure_gives_a_friendly_reply_and_a_warning() {
    let classes = [
        (LlmErrorKind::Timeout, 3),
        (LlmErrorKind::Connection, 3),
        (LlmErrorKind::server(Some(500)), 3),
        (LlmErrorKind::Incomplete, 3),
        (LlmErrorKind::InvalidResponse, 2),
        (LlmErrorKind::Unauthorized, 1),
        (LlmErrorKind::QuotaExhausted, 1),
        (LlmErrorKind::ModelNotFound, 1),
        (LlmErrorKind::BadRequest, 1),
        (LlmErrorKind::ContentFiltered, 1),
    ];
    for (kind, attempts) in classes {
        let finished = build_and_run(builder(failing(kind.clone()))).await;
        finished.assert_valid(RunStatus::Failed);
        let result = &finished.result;
        assert!(
            matches!(result.finish_reason, Some(FinishReason::Failed(_))),
            "{kind:?}"
        );
        assert!(
            result.reply.starts_with("This could not be finished: "),
            "{kind:?}: {}",
            result.reply
        );
        assert_eq!(result.notice.as_ref(), Some(&result.reply), "{kind:?}");
        assert!(
            !result.reply.contains(SAID_BY_PROVIDER) && result.reply.ends_with('.'),
            "{kind:?}: {}",
            result.reply
        );
        let failures = finished
            .kinds()
            .iter()
            .filter(|kind| **kind == "llm_failed")
            .count();
        assert_eq!(failures, attempts, "{kind:?}: {:?}", finished.kinds());
        let warnings = warnings(result);
        assert!(warnings.len() >= attempts, "{kind:?}");
        for (description, error) in warnings {
            assert!(!description.is_empty() && !error.is_empty(), "{kind:?}");
        }
        let first = &result.steps[0].metadata;
        assert_eq!(first.get("model_role").unwrap(), "reasoning");
        assert!(first.get("span_id").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_reply_is_retried_once_without_tools() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(error(LlmErrorKind::InvalidResponse))
            .then(reply::text("fine")),
    );
    let finished = build_and_run(builder(model.clone())).await;
    assert_eq!(finished.result.reply, "fine");
    assert_eq!(
        warnings(&finished.result).len(),
        2,
        "the failure, and what is done about it"
    );
    assert!(model.requests()[1].tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn timeouts_degrade_a_role_with_a_warning_and_another_serves_the_next_request() {
    // A time with a fraction of a second is reported in whole seconds.
    let start = Timestamp::from_nanosecond(1_532_086_404).unwrap();
    let clock = Arc::new(VirtualClock::at(start));
    let orchestrator = builder(failing(LlmErrorKind::Timeout))
        .model(Role::ROUTER, answering("by the router"))
        .clock(clock.clone())
        .build()
        .unwrap();
    let first = run_to_end(&orchestrator, request("first")).await;
    first.assert_valid(RunStatus::Failed);
    let degraded = warnings(&first.result);
    let degraded = degraded.iter().find(|(_, error)| error == "role_degraded");
    let told = "role reasoning is degraded for 30 s: its model did not answer in time 3 times";
    assert_eq!(degraded.map(|(text, _)| text.as_str()), Some(told));
    assert_eq!(orchestrator.degraded_roles()[0].role, Role::REASONING);

    let second = run_to_end(&orchestrator, request("second")).await;
    second.assert_valid(RunStatus::Done);
    assert_eq!(second.result.reply, "by the router");
    let step = &second.result.steps[1];
    assert_eq!(step.kind, StepType::Warning);
    assert_eq!(&*step.description, "router serves instead of reasoning");
    assert_eq!(step.metadata.get("from").unwrap(), "reasoning");
    assert_eq!(step.metadata.get("to").unwrap(), "router");
    assert!(
        step.metadata
            .get("reason")
            .unwrap()
            .as_str()
            .unwrap()
            .contains("failed 3 times")
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_that_hangs_until_the_deadline_degrades_its_role() {
    let hanging = ScriptedModel::always(Script::hanging());
    let orchestrator = builder(hanging)
        .model(Role::ROUTER, answering("by the router"))
        .policy(policy("modes.exploratory.deadline = '5s'"))
        .build()
        .unwrap();
    for _ in 0..3 {
        assert!(orchestrator.degraded_roles().is_empty());
        let finished = run_to_end(&orchestrator, request("first")).await;
        finished.assert_valid(RunStatus::Done);
        let result = &finished.result;
        assert_eq!(result.finish_reason, Some(FinishReason::Deadline));
        assert!(
            result.reply.contains("No model finished"),
            "{}",
            result.reply
        );
        let failed = |kind: &&&str| **kind == "llm_failed";
        assert_eq!(finished.kinds().iter().filter(failed).count(), 1);
    }
    let degraded = orchestrator.degraded_roles();
    assert_eq!(
        degraded[0].reason,
        "its model did not answer in time 3 times"
    );
    let next = run_to_end(&orchestrator, request("next")).await;
    assert_eq!(next.result.reply, "by the router");
}

#[tokio::test(start_paused = true)]
async fn a_model_is_not_blamed_for_slow_tools_or_after_it_started_to_answer() {
    let late = ScriptedModel::new()
        .then(reply::calls([("slow", "{}")]))
        .then(Script::hanging());
    let begun = Script::from(reply::text("So far so good.")).split(2);
    let begun = ScriptedModel::always(begun.hang_at(1));
    for model in [late, begun] {
        let slow = Act::value("1").after(Duration::from_secs(6));
        let slow = ScriptedTool::always(spec("slow").read_only(), slow);
        let orchestrator = builder(model)
            .policy(policy(
                "health.failures = 1\nmodes.exploratory.deadline = '10s'",
            ))
            .tool(Arc::new(slow))
            .build()
            .unwrap();
        let finished = run_to_end(&orchestrator, request("first")).await;
        let reason = finished.result.finish_reason.clone();
        assert_eq!(reason, Some(FinishReason::Deadline));
        assert!(!finished.kinds().contains(&"llm_failed"));
        assert!(orchestrator.degraded_roles().is_empty());
    }
}

/// A client that delays its calls for this long, and whose model then does not answer.
#[derive(Debug)]
struct Queueing(Duration);

#[async_trait]
impl LlmClient for Queueing {
    async fn respond(&self, _: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        ctx.begin_wait();
        let wait = tokio::time::sleep(self.0);
        if ctx.cancellation.run_until_cancelled(wait).await.is_some() {
            ctx.end_wait(self.0);
            ctx.cancellation.cancelled().await;
        }
        Err(error(LlmErrorKind::Cancelled))
    }

    fn info(&self) -> ModelInfo {
        ModelInfo::new(ModelRef::new("test", "queueing"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_is_not_blamed_for_time_its_call_was_queued_in_the_client() {
    for (seconds, is_blamed) in [(4, true), (7, false), (20, false)] {
        let client = Queueing(Duration::from_secs(seconds));
        let orchestrator = builder(ScriptedModel::new())
            .model(Role::REASONING, Arc::new(client))
            .policy(policy(
                "health.failures = 1\nmodes.exploratory.deadline = '10s'",
            ))
            .build()
            .unwrap();
        let finished = run_to_end(&orchestrator, request("first")).await;
        let reason = finished.result.finish_reason.clone();
        assert_eq!(reason, Some(FinishReason::Deadline));
        let is_degraded = !orchestrator.degraded_roles().is_empty();
        assert_eq!(is_degraded, is_blamed, "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_its_cooldown_a_degraded_role_is_probed_by_a_single_call() {
    let clock = Arc::new(VirtualClock::new());
    let model = ScriptedModel::new();
    for _ in 0..3 {
        model.push(error(LlmErrorKind::Timeout));
    }
    model.push(reply::text("back again"));
    model.push(reply::text("still here"));
    let orchestrator = builder(model)
        .model(Role::ROUTER, answering("by the router"))
        .clock(clock.clone())
        .build()
        .unwrap();
    run_to_end(&orchestrator, request("first")).await;
    assert_eq!(
        run_to_end(&orchestrator, request("second"))
            .await
            .result
            .reply,
        "by the router"
    );
    clock.advance(Duration::from_secs(31));
    let probe = run_to_end(&orchestrator, request("third")).await;
    assert_eq!(probe.result.reply, "back again");
    assert!(!probe.kinds().contains(&"role_downgraded"));
    assert!(orchestrator.degraded_roles().is_empty());
    assert_eq!(
        run_to_end(&orchestrator, request("fourth"))
            .await
            .result
            .reply,
        "still here"
    );
}

/// A probe says nothing about the model if it is cancelled or finds none.
#[tokio::test(start_paused = true)]
async fn an_inconclusive_probe_of_a_degraded_role_lets_the_next_call_probe_it() {
    let clock = Arc::new(VirtualClock::new());
    let mut model = ScriptedModel::new();
    for _ in 0..3 {
        model = model.then(error(LlmErrorKind::Timeout));
    }
    let model = model
        .then(Script::hanging())
        .then(error(LlmErrorKind::ModelNotFound))
        .then(reply::text("back again"));
    let model = Arc::new(model);
    let orchestrator = builder(model.clone())
        .model(Role::ROUTER, answering("by the router"))
        .clock(clock.clone())
        .build()
        .unwrap();
    run_to_end(&orchestrator, request("first")).await;
    clock.advance(Duration::from_secs(31));
    let (probe, _) = orchestrator.stream(request("second")).await.unwrap();
    while model.calls().len() < 4 {
        tokio::task::yield_now().await;
    }
    let other = UserRequest::new("other".parse().unwrap(), "third").mode(Mode::EXPLORATORY);
    let meanwhile = run_to_end(&orchestrator, other).await;
    assert_eq!(meanwhile.result.reply, "by the router", "one at a time");
    probe.cancel("enough").unwrap();
    probe.result().await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let not_found = run_to_end(&orchestrator, request("fourth")).await;
    not_found.assert_valid(RunStatus::Failed);
    let last = run_to_end(&orchestrator, request("fifth")).await;
    assert_eq!(last.result.reply, "back again");
    assert!(orchestrator.degraded_roles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_role_takes_over_after_repeated_connection_or_server_errors() {
    for kind in [LlmErrorKind::Connection, LlmErrorKind::server(Some(503))] {
        let finished =
            build_and_run(builder(failing(kind)).model(Role::ROUTER, answering("fine"))).await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(finished.result.reply, "fine");
        let kinds = finished.kinds();
        assert_eq!(
            kinds.iter().filter(|kind| **kind == "llm_failed").count(),
            3
        );
        assert!(
            kinds.ends_with(&["llm_call", "role_downgraded", "final"]),
            "{kinds:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn another_role_takes_over_after_a_rate_limit_or_an_invalid_reply() {
    let limited = |seconds: Option<u64>| LlmErrorKind::RateLimited {
        retry_after: seconds.map(Duration::from_secs),
    };
    for (kind, attempts, at_most) in [
        (limited(None), 3, 5),
        (limited(Some(2)), 3, 5),
        (limited(Some(60)), 1, 0),
        (limited(Some(3_600)), 1, 0),
        (LlmErrorKind::InvalidResponse, 1, 0),
    ] {
        let started = Instant::now();
        let orchestrator = builder(failing(kind.clone()))
            .model(Role::ROUTER, answering("fine"))
            .policy(policy("health.failures = 1"))
            .build()
            .unwrap();
        let finished = run_to_end(&orchestrator, request("first")).await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(finished.result.reply, "fine", "{kind:?}");
        let failed = |kind: &&&str| **kind == "llm_failed";
        assert_eq!(finished.kinds().iter().filter(failed).count(), attempts);
        assert!(started.elapsed().as_secs() <= at_most, "{kind:?}");
        assert!(orchestrator.degraded_roles().is_empty(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_requested_by_a_provider_is_waited_out_when_the_other_role_fails() {
    let wait = Duration::from_secs(60);
    let limited = error(LlmErrorKind::RateLimited {
        retry_after: Some(wait),
    });
    let model = ScriptedModel::new().then(limited).then(reply::text("fine"));
    let wrong_key = Arc::new(failing(LlmErrorKind::Unauthorized));
    let started = Instant::now();
    let finished = build_and_run(builder(model).model(Role::ROUTER, wrong_key)).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "fine");
    assert!((wait..wait * 2).contains(&started.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn a_requested_delay_longer_than_the_run_is_reported_with_its_cause() {
    let limited = failing(LlmErrorKind::RateLimited {
        retry_after: Some(Duration::from_secs(30)),
    });
    let short = policy("modes.exploratory.deadline = '40s'");
    let finished = build_and_run(builder(limited).policy(short)).await;
    finished.assert_valid(RunStatus::Done);
    let reply = &finished.result.reply;
    assert!(
        reply.ends_with("failed: the provider's rate limit is reached; try again in 30 seconds."),
        "{reply}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_reply_is_retried_without_tools_when_the_other_role_fails() {
    let model = ScriptedModel::answering(|request| match request.tools.is_empty() {
        true => Script::from(reply::text("fine")),
        false => Script::from(error(LlmErrorKind::InvalidResponse)),
    });
    let look = ScriptedTool::always(spec("look").read_only(), Act::value("1"));
    let wrong_key = Arc::new(failing(LlmErrorKind::Unauthorized));
    let builder = builder(model).model(Role::ROUTER, wrong_key);
    let finished = build_and_run(builder.tool(Arc::new(look))).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "fine");
}

#[tokio::test(start_paused = true)]
async fn the_run_fails_gracefully_when_the_other_role_fails_too() {
    let other = Arc::new(failing(LlmErrorKind::Connection));
    let finished = build_and_run(
        builder(failing(LlmErrorKind::Connection)).model(Role::ROUTER, other.clone()),
    )
    .await;
    finished.assert_valid(RunStatus::Failed);
    assert_eq!(other.calls().len(), 3, "a bounded number of attempts");
    assert!(
        finished
            .result
            .reply
            .starts_with("This could not be finished: ")
    );
    let downgrades = finished
        .kinds()
        .iter()
        .filter(|kind| **kind == "role_downgraded")
        .count();
    assert_eq!(downgrades, 1);
}

#[tokio::test]
async fn a_call_is_taken_over_by_at_most_one_other_role() {
    let [router, coder] = [(); 2].map(|()| Arc::new(failing(LlmErrorKind::Connection)));
    let orchestrator = builder(failing(LlmErrorKind::Connection))
        .model(Role::ROUTER, router.clone())
        .model(Role::CODING, coder.clone())
        .retry(RetryPolicy::never());
    build_and_run(orchestrator)
        .await
        .assert_valid(RunStatus::Failed);
    assert_eq!(router.calls().len() + coder.calls().len(), 1);
}

#[tokio::test]
async fn a_degraded_role_does_not_take_over() {
    let failing = || Arc::new(failing(LlmErrorKind::Connection));
    let [reasoning, router, coder] = [failing(), failing(), failing()];
    let orchestrator = builder(reasoning.clone())
        .model(Role::ROUTER, router.clone())
        .model(Role::CODING, coder.clone())
        .policy(policy("health.failures = 1\n"))
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    run_to_end(&orchestrator, request("first")).await;
    assert_eq!(orchestrator.degraded_roles().len(), 2);
    let healthy = || router.calls().len() + coder.calls().len();
    assert_eq!((reasoning.calls().len(), healthy()), (1, 1));
    run_to_end(&orchestrator, request("second")).await;
    assert_eq!((reasoning.calls().len(), healthy()), (1, 2));
}

#[tokio::test]
async fn a_role_is_not_downgraded_to_itself_under_another_name() {
    let same = Arc::new(failing(LlmErrorKind::Connection));
    let orchestrator = builder(same.clone())
        .model(Role::ROUTER, same.clone())
        .retry(RetryPolicy::never());
    let finished = build_and_run(orchestrator).await;
    finished.assert_valid(RunStatus::Failed);
    assert_eq!(same.calls().len(), 1);
}

#[tokio::test]
async fn a_role_that_is_not_allowed_does_not_take_over() {
    let coder = answering("by the coder");
    let orchestrator = builder(failing(LlmErrorKind::Connection))
        .model(Role::CODING, coder.clone())
        .policy(policy("modes.exploratory.roles = ['reasoning']\n"))
        .retry(RetryPolicy::never());
    build_and_run(orchestrator)
        .await
        .assert_valid(RunStatus::Failed);
    assert_eq!(coder.calls().len(), 0);
}

#[tokio::test]
async fn a_cancelled_run_does_not_degrade_its_role() {
    let orchestrator = builder(ScriptedModel::always(neuraxis_testkit::Script::hanging()))
        .policy(policy("health.failures = 1\n"))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("first")).await.unwrap();
    handle.cancel("enough").unwrap();
    handle.result().await.unwrap();
    assert!(orchestrator.degraded_roles().is_empty());
}
