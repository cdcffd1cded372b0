//! Failures in a row: a larger role takes over, then a person.

use neuraxis_core::{
    Decision, FinishReason, LlmError, LlmErrorKind, NextAttempt, Purpose, Role, RunStatus,
    ToolFailure, ToolOutcome,
};

use crate::support::*;

fn start(after_failures: u32, person: bool, more: fn(&mut Decision)) -> Script {
    Script::start(governed(|decision| {
        escalates(decision, after_failures, person);
        more(decision);
    }))
}

const fn nothing(_: &mut Decision) {}

fn fail_turn(run: &mut Script) {
    run.reply(calls_to(&[READ])).allow().finish(
        0,
        ToolOutcome::failed(ToolFailure::Permanent, "no such file"),
    );
}

#[test]
fn turns_whose_calls_all_fail_hand_over_to_the_larger_role() {
    let mut run = start(2, false, nothing);
    fail_turn(&mut run);
    assert_eq!(run.model_call().role, Role::REASONING);
    fail_turn(&mut run);
    assert_eq!(run.model_call().role, Role::CODING);
    assert!(run.kinds().contains(&"escalated"));
    for _ in 0..4 {
        fail_turn(&mut run);
        assert_eq!(run.model_call().role, Role::CODING, "nobody is larger");
    }
    let escalated = run
        .kinds()
        .iter()
        .filter(|kind| **kind == "escalated")
        .count();
    assert_eq!(escalated, 1);
}

#[test]
fn a_call_that_succeeds_ends_the_row() {
    let mut run = start(2, false, nothing);
    for _ in 0..3 {
        fail_turn(&mut run);
        run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    }
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn a_call_that_was_denied_is_no_failure_of_the_model() {
    let mut run = start(1, false, nothing);
    run.reply(calls_to(&[READ]))
        .vet([neuraxis_core::Vetting::deny("not here")]);
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn a_model_that_fails_hands_its_turn_over_and_then_a_person_is_asked() {
    let mut run = start(2, true, nothing);
    let error = || LlmError::new(LlmErrorKind::Connection, "no");
    run.fail_model_with(error(), 1, NextAttempt::Follows);
    assert_eq!(
        run.model_call().role,
        Role::REASONING,
        "the driver tries again"
    );
    run.fail_model_with(error(), 2, NextAttempt::None);
    assert_eq!(
        (run.model_call().role.clone(), run.model_call().purpose),
        (Role::CODING, Purpose::Turn)
    );
    run.fail_model_with(error(), 1, NextAttempt::Follows);
    run.fail_model_with(error(), 2, NextAttempt::None);
    assert_eq!(run.tree.status(), RunStatus::Done);
    assert_eq!(run.outcome().finish_reason, FinishReason::Clarify);
    assert!(run.outcome().content.contains("tell me how to go on"));
    assert_tells_messages(&run.records, &run.tree, 0);
    run.assert_replays();
}

#[test]
fn without_a_person_to_ask_the_run_fails_as_it_would() {
    let mut run = start(1, false, nothing);
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.model_call().role, Role::CODING);
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.tree.status(), RunStatus::Failed);
}

#[test]
fn a_draft_that_was_turned_down_is_answered_again_by_the_larger_role() {
    let mut run = start(1, true, checks);
    run.reply(says("Blue.")).reply(says("Red."));
    assert_eq!(
        (run.model_call().role.clone(), run.model_call().purpose),
        (Role::CODING, Purpose::Turn)
    );
    assert!(
        run.kinds()
            .ends_with(&["summary", "escalated", "prompt_injected"])
    );
    run.reply(says("Green."));
    assert_eq!(run.model_call().purpose, Purpose::SelfCheck);
    run.reply(says("ACCEPT"));
    assert_eq!(run.outcome().content, "Green.");
    assert_tells_messages(&run.records, &run.tree, 0);
    run.assert_replays();
}

#[test]
fn drafts_turned_down_again_and_again_end_with_a_question_to_the_person() {
    let mut run = start(1, true, checks);
    run.reply(says("Blue.")).reply(says("Red."));
    run.reply(says("Green.")).reply(says("Yellow."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Clarify);
    let content = &run.outcome().content;
    assert!(
        content.contains("Yellow.") && content.contains("tell me how to go on"),
        "{content}"
    );
    assert_tells_messages(&run.records, &run.tree, 0);
}
