//! Rule 10 for time: a soft end that reserves enough for one last answer, then the hard end.

use std::time::Duration;

use neuraxis_core::{
    Effect, FinishReason, Input, JsonText, LimitKind, LlmErrorKind, Opening, Purpose, RecordBody,
    Role, RunSpec, RunStatus, ToolErrors, ToolFailure, Usage,
};

use super::trimming::exchanges;
use crate::support::*;

/// Ten seconds, two of them reserved.
fn ten_seconds() -> RunSpec {
    spec_with_limits(|limits| limits.deadline = Some(Duration::from_secs(10)))
}

fn limits_of(run: &Script) -> Vec<LimitKind> {
    let reached = run
        .step
        .records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::LimitReached(reached) => Some(reached.limit),
            _ => None,
        });
    reached.collect()
}

#[test]
fn a_step_reports_the_soft_end_of_the_run() {
    let run = Script::start(ten_seconds());
    assert_eq!(run.step.wake_at, Some(Duration::from_secs(8)));
    let run = Script::start(spec_with_limits(|limits| {
        limits.deadline = Some(Duration::from_secs(600));
    }));
    assert_eq!(
        run.step.wake_at,
        Some(Duration::from_secs(580)),
        "never more than 20 s"
    );
    assert_eq!(Script::start(spec()).step.wake_at, None);
}

#[test]
fn time_passing_before_the_soft_end_changes_nothing() {
    let mut run = Script::start(ten_seconds());
    run.at(7_999).send_in_vain(Input::TimePassed);
    let mut run = Script::start(spec());
    run.at(1_000_000).send_in_vain(Input::TimePassed);
}

#[test]
fn at_the_soft_end_tools_are_stopped_and_a_last_answer_is_requested() {
    let mut run = Script::start(ten_seconds());
    run.reply(calls(
        "One moment.",
        &[(READ, "{}"), (READ, "{}"), (SEND, "{}")],
    ));
    run.allow().finish(0, done("0"));
    run.at(8_000).send(Input::TimePassed);
    let started = run.started(1).effect_id;
    assert!(
        matches!(&run.step.effects[0], Effect::CancelTool(cancel) if cancel.effect_id == started)
    );
    assert_eq!(run.result(1).failure, Some(ToolFailure::Timeout));
    assert!(run.result(2).value.as_str().contains("not run"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(run.step.wake_at, Some(Duration::from_secs(10)));
    run.at(9_000).reply(says("This much I know."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
    assert_eq!(run.outcome().content, "This much I know.");
    assert_eq!(run.step.status, RunStatus::Done);
    assert_valid(run.tree.messages());
}

#[test]
fn an_irreversible_call_stopped_at_the_soft_end_reports_an_unknown_outcome() {
    let mut run = Script::start(ten_seconds());
    run.reply(calls_to(&[SEND])).allow();
    run.at(8_000).send(Input::TimePassed);
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
}

#[test]
fn a_model_call_in_flight_at_the_soft_end_may_still_return_the_answer() {
    let mut run = Script::start(ten_seconds());
    run.at(8_000).send(Input::TimePassed);
    assert_eq!(run.just_recorded(), ["limit_reached"]);
    assert_eq!(limits_of(&run), [LimitKind::DeadlineReserve]);
    assert_eq!(run.step.effects, []);
    run.at(9_000).reply(says("Blue."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
}

#[test]
fn after_the_soft_end_no_tool_runs() {
    let mut run = Script::start(ten_seconds());
    run.at(8_000).send(Input::TimePassed);
    run.reply(calls_to(&[READ, SEND]));
    assert_eq!(run.just_started(), [0; 0]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("This much I know."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
    assert_valid(run.tree.messages());
}

#[test]
fn a_gathering_call_does_not_run_after_the_soft_end() {
    let mut spec = ten_seconds();
    spec.root.profile.opening = Opening::Gather {
        role: Role::ROUTER,
        tool: READ.parse().unwrap(),
        default_arguments: JsonText::from_text("{}"),
    };
    for fails in [false, true] {
        let mut run = Script::start(spec.clone());
        run.at(8_000).pass();
        if fails {
            run.fail_for(LlmErrorKind::Timeout);
        } else {
            run.reply(calls_to(&[READ]));
        }
        assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
        assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
        run.reply(says("I could not look."));
        assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
        assert_valid(run.tree.messages());
        run.assert_replays();
    }
}

fn ten_seconds_in_1000_tokens() -> RunSpec {
    let mut spec = ten_seconds();
    spec.root.context_tokens = Some(1_000 + DEFINITIONS);
    spec.root.max_output_tokens = Some(50);
    spec
}

#[test]
fn a_compaction_that_ends_after_the_soft_end_leads_to_the_last_answer() {
    for fails in [false, true] {
        let mut run = Script::start_after(ten_seconds_in_1000_tokens(), exchanges(4));
        assert_eq!(run.model_call().purpose, Purpose::Compaction);
        run.at(8_000).pass();
        if fails {
            run.fail_for(LlmErrorKind::Timeout);
        } else {
            run.reply(says("The user wrote many x."));
        }
        assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
        run.reply(says("They wrote x."));
        assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
        assert_eq!(run.outcome().content, "They wrote x.");
    }
}

#[test]
fn a_last_answer_near_the_deadline_does_not_wait_for_a_summary() {
    let history = exchanges(3);
    let mut run = Script::start_after(ten_seconds_in_1000_tokens(), history.clone());
    let mut reply = calls_to(&[READ, READ]);
    reply.usage = Usage::default();
    run.reply(reply).allow();
    run.finish(0, done(&format!("{:?}", "x".repeat(2_000))));
    run.at(8_000).pass();
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    let trimmed = run.recorded("context_trimmed");
    let RecordBody::ContextTrimmed(cut) = &trimmed[0].body else {
        panic!("{trimmed:?}")
    };
    // Of 1,203 tokens, 807 leave enough for the reply.
    assert_eq!((cut.messages, cut.tokens), (4, 4 * 104));
    assert_gives_back(&history, &run.records, &run.tree);
}

#[test]
fn a_model_call_that_fails_after_the_soft_end_is_replaced_by_the_last_answer() {
    let mut run = Script::start(ten_seconds());
    run.at(8_000).pass();
    run.fail_for(LlmErrorKind::InvalidResponse);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("This much I know."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
    run.assert_replays();

    let mut spec = governed(|decision| escalates(decision, 1, false));
    spec.root.limits.deadline = Some(Duration::from_secs(10));
    let mut run = Script::start(spec);
    run.at(8_000).pass();
    run.fail_for(LlmErrorKind::Connection);
    let call = run.model_call();
    assert_eq!(
        (call.purpose, &call.role),
        (Purpose::LastAnswer, &Role::CODING)
    );
}

#[test]
fn without_a_larger_role_a_connection_error_after_the_soft_end_fails_the_run() {
    let mut run = Script::start(ten_seconds());
    run.at(8_000).pass();
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.step.status, RunStatus::Failed);
}

#[test]
fn at_the_hard_end_the_run_ends_immediately_with_the_text_so_far() {
    let mut run = Script::start(ten_seconds());
    run.reply(calls("One moment.", &[(SEND, "{}"), (READ, "{}")]));
    run.allow();
    run.at(10_000).send(Input::TimePassed);
    assert_eq!(
        run.just_recorded(),
        ["limit_reached", "tool_result", "tool_result", "final"]
    );
    assert_eq!(limits_of(&run), [LimitKind::Deadline]);
    assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
    assert_eq!(run.outcome().content, "One moment.");
    assert_eq!(run.step.wake_at, None);
    assert_valid(run.tree.messages());
}

#[test]
fn a_slow_last_answer_is_cut_off_at_the_hard_end() {
    let mut run = Script::start(ten_seconds());
    run.reply(calls_to(&[READ])).allow();
    run.at(8_000).send(Input::TimePassed);
    run.at(10_000).send(Input::TimePassed);
    insta::assert_snapshot!(run.outcome().content, @"I reached the time limit before I could answer. Ask me to continue, or ask for less at once.");
    assert_valid(run.tree.messages());
}

#[test]
fn a_last_answer_for_another_limit_may_use_all_remaining_time() {
    let mut spec = ten_seconds();
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.step.wake_at, Some(Duration::from_secs(10)));
    run.at(8_000).send_in_vain(Input::TimePassed);
}

#[test]
fn the_deadline_is_the_finish_reason_even_if_tool_errors_stop_the_run() {
    let mut spec = ten_seconds();
    spec.root.profile.tool_errors = ToolErrors::Stop;
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow();
    run.at(8_000).send(Input::TimePassed);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("This much I know."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
}
