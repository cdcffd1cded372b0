//! Rules 7 and 10: what counts toward which limit, and that every limit ends like the turn limit.

use neuraxis_core::{
    BudgetKind, FinishReason, LimitKind, Limits, Message, Purpose, RecordBody, RunStatus,
    ToolChoice, ToolErrors, ToolFailure, Vetting,
};

use crate::support::*;

fn limit_of(run: &Script) -> (LimitKind, Option<&str>) {
    let reached = run
        .step
        .records
        .iter()
        .find_map(|record| match &record.body {
            RecordBody::LimitReached(reached) => Some((reached.limit, reached.prompt.as_deref())),
            _ => None,
        });
    reached.unwrap()
}

#[test]
fn a_turn_with_only_non_iterative_tools_does_not_count_toward_the_turn_limit() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls_to(&[NOTE, NOTE])).allow();
    run.finish(0, done("1")).finish(1, done("2"));
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    run.reply(calls_to(&[NOTE, READ])).allow();
    run.finish(0, done("1")).finish(1, done("2"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(
        run.model_call().turn.0,
        2,
        "turns are numbered all the same"
    );
    run.reply(says("Done."));
    assert_eq!(run.outcome().turns, 1);
}

#[test]
fn model_calls_are_limited_to_three_times_the_turn_limit() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(2)));
    for turn in 0..2 * Limits::MODEL_CALLS_PER_TURN {
        assert_eq!(run.model_call().purpose, Purpose::Turn);
        run.reply(another_call_to(NOTE, turn))
            .allow()
            .finish(0, done("1"));
    }
    assert_eq!(limit_of(&run).0, LimitKind::Budget(BudgetKind::ModelCalls));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("Done."));
    let reason = FinishReason::Budget(BudgetKind::ModelCalls);
    assert_eq!(run.outcome().finish_reason, reason);
    assert_eq!(run.outcome().turns, 0, "the last answer is no turn either");
}

#[test]
fn the_tool_call_limit_ends_with_a_last_answer_and_its_own_finish_reason() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_tool_calls = Some(2)));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    run.reply(calls_to(&[READ])).allow().finish(0, done("2"));
    let prompt = "You have reached the maximum number of tool calls. Do not call any more tools. Answer now with the \
                  information you have, and say what is missing.";
    assert_eq!(
        limit_of(&run),
        (LimitKind::Budget(BudgetKind::ToolCalls), Some(prompt))
    );
    let sent = run.model_call().request.messages.messages();
    assert_eq!(**sent.last().unwrap(), Message::system(prompt));
    assert_eq!(run.model_call().request.tool_choice, ToolChoice::None);
    run.reply(says("Done."));
    let reason = FinishReason::Budget(BudgetKind::ToolCalls);
    assert_eq!(run.outcome().finish_reason, reason);
    assert_eq!(run.step.status, RunStatus::Done);
}

#[test]
fn calls_beyond_the_tool_call_limit_are_not_run() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_tool_calls = Some(1)));
    run.reply(calls_to(&[READ, READ])).allow();
    assert_eq!(run.just_started(), [0]);
    assert_eq!(run.result(1).failure, Some(ToolFailure::LimitReached));
    run.finish(0, done("1"));
    assert_eq!(limit_of(&run).0, LimitKind::Budget(BudgetKind::ToolCalls));
    assert_valid(run.tree.messages());
}

#[test]
fn calls_that_were_not_run_do_not_count() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_tool_calls = Some(1)));
    run.reply(calls_to(&[SEND, "reed_file"]));
    run.vet([denies(), Vetting::Unknown]);
    assert_eq!(run.model_call().purpose, Purpose::Turn);
}

#[test]
fn a_limit_is_not_a_failed_call_that_stops_the_run() {
    let mut spec = spec_with_limits(|limits| limits.max_tool_calls = Some(1));
    spec.root.profile.tool_errors = ToolErrors::Stop;
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ, READ])).allow();
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("Done."));
    let reason = FinishReason::Budget(BudgetKind::ToolCalls);
    assert_eq!(run.outcome().finish_reason, reason);
}
