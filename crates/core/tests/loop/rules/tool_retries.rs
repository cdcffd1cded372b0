//! A failed call is retried if that may help and cannot do harm.

use neuraxis_core::{
    Attempt, Effect, RunSpec, RunStatus, ToolErrors, ToolFailure, ToolOutcome, Transcript,
};

use crate::support::*;

fn passing() -> ToolOutcome {
    ToolOutcome::failed(ToolFailure::Temporary, "the disk is busy")
}

fn retrying(times: u32) -> RunSpec {
    spec_with_profile(|profile| profile.tool_retries = times)
}

fn begun(spec: RunSpec, tool: &str) -> Script {
    let mut run = Script::start(spec);
    run.reply(calls_to(&[tool])).allow();
    run
}

#[test]
fn a_failed_call_is_retried_once_if_repeating_it_is_safe() {
    use ToolFailure::{Error, Panic, Temporary};
    let failures = [Error, Temporary, Panic];
    let ways = failures.map(|failure| [(READ, failure), (PUT, failure)]);
    for (tool, failure) in ways.into_iter().flatten() {
        let mut run = begun(spec(), tool);
        let first = run.started(0).clone();
        run.finish(0, ToolOutcome::failed(failure, "the disk is busy"));
        assert_eq!(
            run.just_recorded(),
            ["tool_failed", "tool_call"],
            "{failure:?}"
        );
        assert_eq!(run.just_started(), [0]);
        let second = run.started(0).clone();
        assert_eq!(second.attempt, Attempt(2));
        assert_eq!(second.effect_id, first.effect_id, "the idempotency key");
        assert_eq!(second.arguments_hash, first.arguments_hash);
        let open = assert_gives_back(&Transcript::default(), &run.records, &run.tree);
        assert_eq!(open, run.step.effects, "the first attempt is over");
        run.finish(0, done("7"));
        assert_eq!(run.tool_messages(), ["7"]);
        assert_eq!(run.result(0).attempt, Some(Attempt(2)));
    }
}

#[test]
fn a_call_that_fails_twice_has_failed_and_the_model_continues() {
    let mut run = begun(spec(), READ);
    run.finish(0, passing()).finish(0, passing());
    assert_eq!(run.just_recorded()[0], "tool_result");
    assert_eq!(run.result(0).failure, Some(ToolFailure::Temporary));
    assert_eq!(run.tool_messages(), [r#"{"error":"the disk is busy"}"#]);
    assert_eq!(run.model_call().turn.0, 2);
}

#[test]
fn irreversible_calls_and_permanent_failures_are_not_retried() {
    let failures = [
        (SEND, ToolFailure::Temporary),
        (SEND, ToolFailure::Error),
        (SEND, ToolFailure::Panic),
        (READ, ToolFailure::Timeout),
        (READ, ToolFailure::Permanent),
        (READ, ToolFailure::Cancelled),
        (PICK, ToolFailure::Temporary),
        (PICK, ToolFailure::Error),
    ];
    for (tool, failure) in failures {
        let mut run = begun(spec(), tool);
        run.finish(0, ToolOutcome::failed(failure, "no"));
        assert_eq!(run.just_recorded()[0], "tool_result", "{tool} {failure:?}");
        assert_eq!(run.result(0).failure, Some(failure));
    }
}

#[test]
fn the_profile_sets_the_number_of_retries() {
    let mut run = begun(retrying(0), READ);
    run.finish(0, passing());
    assert_eq!(run.just_recorded()[0], "tool_result");
    let mut run = begun(retrying(2), READ);
    run.finish(0, passing()).finish(0, passing());
    assert_eq!(run.started(0).attempt, Attempt(3));
}

#[test]
fn a_retried_call_counts_once() {
    let mut spec = spec_with_limits(|limits| limits.max_tool_calls = Some(1));
    spec.root.profile.tool_errors = ToolErrors::Stop;
    let mut run = begun(spec, READ);
    run.finish(0, passing());
    assert_eq!(
        run.just_started(),
        [0],
        "no failure yet that would end the run"
    );
    run.finish(0, done("7"));
    assert_eq!(run.tool_messages(), ["7"]);
    let mut run = begun(spec_with_limits(|it| it.max_tool_calls = Some(2)), READ);
    run.finish(0, passing()).finish(0, done("7"));
    run.reply(another_call_to(READ, 2)).allow();
    assert_eq!(run.just_started(), [0], "one call is left");
}

#[test]
fn a_client_call_is_retried_by_its_client_only() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[PICK])).vet([reads()]);
    run.finish(0, passing());
    assert_eq!(run.just_recorded()[0], "tool_result");
    assert_eq!(run.result(0).failure, Some(ToolFailure::Temporary));
}

#[test]
fn a_late_result_of_an_abandoned_attempt_changes_nothing() {
    let mut run = begun(spec(), READ);
    let late = run.finished(0, done("1"));
    run.finish(0, passing());
    run.send_in_vain(late);
    run.finish(0, done("2"));
    assert_eq!(run.tool_messages(), ["2"]);
}

#[test]
fn nothing_is_retried_once_the_run_is_ending() {
    let mut run = begun(spec(), READ);
    let late = run.finished(0, passing());
    run.cancel();
    run.send_in_vain(late);
    assert_eq!(run.step.status, RunStatus::Interrupted);
    let runs = |effect: &&Effect| matches!(effect, Effect::RunTool(_));
    assert_eq!(run.effects.iter().filter(runs).count(), 1);
}

#[test]
fn an_attempt_lost_in_a_crash_uses_up_the_retry() {
    let mut run = begun(spec(), PUT);
    run.finish(0, passing()).resume();
    assert_eq!(
        run.started(0).attempt,
        Attempt(3),
        "the lost one runs again"
    );
    run.finish(0, passing());
    assert_eq!(run.just_recorded()[0], "tool_result");
}
