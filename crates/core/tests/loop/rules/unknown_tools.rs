//! Rule 4: a tool that does not exist.

use neuraxis_core::{
    BudgetKind, Effect, FinishReason, LimitKind, Parallel, Purpose, RecordBody, RunStatus,
    ToolFailure, UnknownTool, Vetting,
};

use crate::support::*;

fn call_unknown(run: &mut Script) {
    run.reply(calls_to(&["reed_file"])).allow();
}

#[test]
fn an_unknown_tool_gets_an_error_that_names_the_known_ones() {
    let mut run = Script::start(spec());
    call_unknown(&mut run);
    insta::assert_snapshot!(run.tool_messages()[0], @r#"{"error":"unknown tool \"reed_file\"; available tools: read_file, put_file, send_mail, pick_color, take_note, research"}"#);
    assert_eq!(run.result(0).failure, Some(ToolFailure::UnknownTool));
    assert_eq!(run.model_call().turn.0, 2, "the model may try again");
}

#[test]
fn a_removed_tool_is_not_listed_as_available() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).vet([Vetting::Unknown]);
    insta::assert_snapshot!(run.tool_messages()[0], @r#"{"error":"the tool read_file was removed or changed after it was offered; continue without it"}"#);
    assert_eq!(run.result(0).failure, Some(ToolFailure::UnknownTool));
}

#[test]
fn a_hostile_tool_name_is_cut() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&["x".repeat(100_000).as_str()])).allow();
    assert!(run.tool_messages()[0].len() < 300);
}

#[test]
fn the_siblings_of_an_unknown_tool_run() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&["reed_file", READ])).allow();
    assert_eq!(run.just_started(), [1]);
}

#[test]
fn three_consecutive_turns_with_an_unknown_tool_end_with_a_last_answer() {
    let mut run = Script::start(spec_with_profile(|profile| profile.repeats.warn = 0));
    call_unknown(&mut run);
    call_unknown(&mut run);
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    call_unknown(&mut run);
    assert_eq!(
        run.just_recorded(),
        ["verdict", "tool_result", "limit_reached"]
    );
    let RecordBody::LimitReached(reached) = &run.step.records[2].body else {
        panic!("a limit was reached")
    };
    assert_eq!(reached.limit, LimitKind::Budget(BudgetKind::UnknownTools));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("I cannot."));
    let reason = FinishReason::Budget(BudgetKind::UnknownTools);
    assert_eq!(run.outcome().finish_reason, reason);
    assert_eq!(run.step.status, RunStatus::Done);
}

#[test]
fn a_turn_without_an_unknown_tool_resets_the_count() {
    let mut run = Script::start(spec());
    call_unknown(&mut run);
    call_unknown(&mut run);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    call_unknown(&mut run);
    call_unknown(&mut run);
    assert_eq!(run.model_call().purpose, Purpose::Turn);
}

#[test]
fn with_the_stop_setting_an_unknown_tool_ends_the_run_and_no_call_runs() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.unknown_tool = UnknownTool::Stop;
    }));
    run.reply(calls(
        "Let me look.",
        &[(READ, "{}"), ("reed_file", "{}"), (SEND, "{}")],
    ));
    run.allow();
    assert_eq!(run.just_started(), [0; 0]);
    assert_eq!(
        run.just_recorded(),
        [
            "verdict",
            "tool_result",
            "tool_result",
            "tool_result",
            "run_failed"
        ]
    );
    let reason = FinishReason::UnknownTool("reed_file".to_owned());
    assert_eq!(run.outcome().finish_reason, reason);
    assert_eq!(run.outcome().content, "Let me look.");
    assert_eq!(run.step.status, RunStatus::Failed);
    assert_valid(run.tree.messages());
}

#[test]
fn a_call_in_progress_is_stopped_and_not_reported_as_never_run() {
    // A tool can disappear between the first check and the check of edited arguments.
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.unknown_tool = UnknownTool::Stop;
        profile.parallel = Parallel::All;
    }));
    run.reply(calls_to(&[SEND, SEND])).vet([writes(), asks()]);
    run.decide(approve_with(r#"{"to":"bob"}"#));
    run.vet([Vetting::Unknown]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    assert!(matches!(run.step.effects[0], Effect::CancelTool(_)));
    assert_valid(run.tree.messages());
}
