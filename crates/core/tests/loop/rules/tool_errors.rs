//! Rules 3 and 5: what a call without a value tells the model, and when it ends the run.

use neuraxis_core::{
    Effect, FinishReason, MAX_ERROR_CHARS, ReplyAdvice, ReplyFinish, RunSpec, RunStatus,
    ToolErrors, ToolFailure, ToolOutcome, ToolStatus, Vetting,
};

use crate::support::*;

fn stopping() -> RunSpec {
    spec_with_profile(|profile| profile.tool_errors = ToolErrors::Stop)
}

#[test]
fn a_failed_call_is_an_error_object_and_the_loop_continues() {
    for failure in [ToolFailure::Permanent, ToolFailure::Timeout] {
        let mut run = Script::start(spec());
        run.reply(calls_to(&[READ])).allow();
        run.finish(0, ToolOutcome::failed(failure, "tool \"x\" went wrong"));
        assert_eq!(
            run.tool_messages(),
            [r#"{"error":"tool \"x\" went wrong"}"#]
        );
        assert_eq!(run.result(0).status, ToolStatus::Error);
        assert_eq!(run.result(0).failure, Some(failure));
        assert_eq!(run.step.status, RunStatus::Running);
        assert_eq!(run.model_call().turn.0, 2);
    }
}

#[test]
fn error_text_is_cut_at_a_maximum_length() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ]));
    let message = "ä".repeat(MAX_ERROR_CHARS + 1);
    run.vet([Vetting::Invalid { message }, reads()]);
    run.finish(1, failed(&"ä".repeat(MAX_ERROR_CHARS + 1)));
    for text in run.tool_messages() {
        let characters = text.chars().count();
        assert!(characters < MAX_ERROR_CHARS + 30, "{characters} characters");
        assert!(text.ends_with("… (cut)\"}"), "{text}");
    }
}

#[test]
fn invalid_arguments_become_an_error_with_position_and_reason_and_do_not_run() {
    let mut run = Script::start(spec());
    run.reply(calls("", &[(READ, "{\"path\":"), (READ, "{}")]));
    let message = "not JSON: line 1 column 8: the text ends too early".to_owned();
    run.vet([Vetting::Invalid { message }, reads()]);
    assert_eq!(run.just_started(), [1], "its sibling runs");
    assert_eq!(run.result(0).failure, Some(ToolFailure::InvalidArguments));
    assert_eq!(run.result(0).effect_id, None);
    run.finish(1, done("1"));
    insta::assert_snapshot!(run.tool_messages()[0], @r#"{"error":"the arguments are not valid: not JSON: line 1 column 8: the text ends too early"}"#);
}

#[test]
fn a_call_denied_by_policy_is_not_run_and_reports_the_reason() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([denies()]);
    assert_eq!(
        run.tool_messages(),
        [r#"{"error":"denied: not in this mode"}"#]
    );
    assert_eq!(run.result(0).failure, Some(ToolFailure::Denied));
}

#[test]
fn a_tool_disabled_for_the_turn_is_reported_as_not_enabled() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([Vetting::Disabled]);
    assert!(run.tool_messages()[0].starts_with(r#"{"error":"TOOL_NOT_ENABLED"#));
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
}

#[test]
fn stop_on_error_fails_the_run_with_the_failure_recorded_and_a_valid_history() {
    let mut run = Script::start(stopping());
    run.reply(calls("Let me look.", &[(READ, "{}")])).allow();
    run.finish(0, failed("no such file"));
    assert_eq!(run.just_recorded(), ["tool_result", "run_failed"]);
    assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
    assert_eq!(run.outcome().content, "Let me look.");
    assert_eq!(run.step.status, RunStatus::Failed);
    assert_eq!(run.tool_messages(), [r#"{"error":"no such file"}"#]);
    assert_valid(run.tree.messages());
}

#[test]
fn stop_on_error_lets_running_calls_finish_and_starts_no_more() {
    let mut run = Script::start(stopping());
    run.reply(calls_to(&[READ, READ, SEND])).allow();
    run.finish(0, failed("no such file"));
    assert_eq!(run.step.status, RunStatus::Running);
    assert_eq!(run.result(2).failure, Some(ToolFailure::Cancelled));
    assert!(run.result(2).value.as_str().contains("not run"));
    run.finish(1, done("1"));
    assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
    assert_eq!(run.tool_messages()[1], "1");
    assert_valid(run.tree.messages());
}

#[test]
fn stop_on_error_withdraws_a_pending_approval() {
    let mut run = Script::start(stopping());
    run.reply(calls_to(&[READ, SEND])).vet([reads(), asks()]);
    run.finish(0, failed("no such file"));
    assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
    assert_valid(run.tree.messages());
}

#[test]
fn stop_on_error_requests_no_approval_for_a_call_that_will_not_run() {
    let mut run = Script::start(stopping());
    run.reply(calls_to(&[READ, SEND, SEND]))
        .vet([reads(), denies(), asks()]);
    assert_eq!(
        run.step.effects,
        [Effect::Finish(Box::new(run.outcome().clone()))]
    );
    assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
    assert_valid(run.tree.messages());
}

#[test]
fn stop_on_error_also_applies_to_a_call_that_was_not_run() {
    for verdict in [
        denies(),
        Vetting::Disabled,
        Vetting::Unknown,
        Vetting::Invalid {
            message: "path: is missing".to_owned(),
        },
    ] {
        let mut run = Script::start(stopping());
        run.reply(calls_to(&[SEND])).vet([verdict]);
        assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
    }
    let mut run = Script::start(stopping());
    run.reply(ended(calls_to(&[SEND]), ReplyFinish::Length));
    assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
}

#[test]
fn a_reply_rejected_by_a_hook_is_not_a_failed_call() {
    let mut run = Script::start(stopping());
    let mut reply = calls_to(&[SEND]);
    reply.advice = Some(Box::new(ReplyAdvice::AskAgain {
        reason: "nothing may be sent today".to_owned(),
    }));
    run.reply(reply);
    assert_eq!(run.result(0).failure, Some(ToolFailure::Denied));
    assert_eq!(run.step.status, RunStatus::Running);
    assert_eq!(run.model_call().turn.0, 2);
    run.reply(calls_to(&[READ]))
        .allow()
        .finish(0, failed("broken"));
    assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
}
