//! Consecutive failures: a larger role takes over, then a user.

use neuraxis_core::{
    Decision, FinishReason, LlmError, LlmErrorKind, NextAttempt, PromptReason, Purpose, RecordBody,
    Role, RunStatus, ToolFailure, ToolOutcome,
};

use crate::support::*;

fn start(after_failures: u32, person: bool, more: fn(&mut Decision)) -> Script {
    Script::start(governed(|decision| {
        escalates(decision, after_failures, person);
        more(decision);
    }))
}

const fn nothing(_: &mut Decision) {}

/// Every turn makes a different call: repeating the same one would end the run for that reason.
fn call(run: &mut Script) -> &mut Script {
    let turn = u32::try_from(run.effects.len()).unwrap();
    run.reply(another_call_to(READ, turn)).allow()
}

fn fail_turn(run: &mut Script) {
    call(run).finish(
        0,
        ToolOutcome::failed(ToolFailure::Permanent, "no such file"),
    );
}

#[test]
fn turns_whose_calls_all_fail_escalate_to_the_larger_role() {
    let mut run = start(2, false, nothing);
    fail_turn(&mut run);
    assert_eq!(run.model_call().role, Role::REASONING);
    fail_turn(&mut run);
    assert_eq!(run.model_call().role, Role::CODING);
    assert!(run.kinds().contains(&"escalated"));
    for _ in 0..4 {
        fail_turn(&mut run);
        let call = run.model_call();
        assert_eq!(call.purpose, Purpose::Turn);
        assert_eq!(call.role, Role::CODING, "nobody is larger");
    }
    let escalated = run
        .kinds()
        .iter()
        .filter(|kind| **kind == "escalated")
        .count();
    assert_eq!(escalated, 1);
}

#[test]
fn the_larger_role_takes_precedence_over_turn_roles_of_the_profile() {
    let mut spec = governed(|decision| escalates(decision, 1, false));
    spec.root.profile.roles.after_calls = Some(Role::ROUTER);
    let mut run = Script::start(spec);
    fail_turn(&mut run);
    assert_eq!(run.model_call().role, Role::CODING);
}

#[test]
fn a_successful_call_resets_the_failure_count() {
    let mut run = start(2, false, nothing);
    for _ in 0..3 {
        fail_turn(&mut run);
        call(&mut run).finish(0, done("1"));
    }
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn a_turn_with_one_successful_call_is_not_a_failure() {
    let mut run = start(1, false, nothing);
    run.reply(calls_to(&[READ, NOTE])).allow();
    run.finish(0, failed("no such file")).finish(1, done("1"));
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn an_accepted_draft_resets_the_failure_count() {
    let mut run = start(2, false, checks);
    fail_turn(&mut run);
    run.reply(says("Blue.")).steer("And green?");
    run.reply(says("ACCEPT"));
    fail_turn(&mut run);
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn a_limit_ends_the_run_with_its_own_reason_despite_failures() {
    let mut spec = governed(|decision| {
        escalates(decision, 1, true);
        decision.escalation.as_mut().unwrap().role = None;
    });
    spec.root.limits.deadline = Some(std::time::Duration::from_secs(10));
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow().at(8_000).pass();
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("So far."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
}

#[test]
fn a_denied_call_is_not_a_failure_of_the_model() {
    let mut run = start(1, false, nothing);
    run.reply(calls_to(&[READ]))
        .vet([neuraxis_core::Vetting::deny("not here")]);
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn a_failing_model_escalates_to_the_larger_role_and_then_to_the_user() {
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
    assert!(run.outcome().content.contains("tell me how to continue"));
    assert_tells_messages(&run.records, &run.tree, 0);
    run.assert_replays();
}

#[test]
fn without_escalation_to_the_user_the_run_fails() {
    let mut run = start(1, false, nothing);
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.model_call().role, Role::CODING);
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.tree.status(), RunStatus::Failed);
}

#[test]
fn a_rejected_draft_is_answered_again_by_the_larger_role() {
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
    let RecordBody::PromptInjected(told) = &run.records.last().unwrap().body else {
        panic!("the larger role is told")
    };
    assert_eq!(told.reason, PromptReason::DraftCorrected);
    run.reply(says("Green."));
    assert_eq!(run.model_call().purpose, Purpose::SelfCheck);
    run.reply(says("ACCEPT"));
    assert_eq!(run.outcome().content, "Green.");
    assert_tells_messages(&run.records, &run.tree, 0);
    run.assert_replays();
}

#[test]
fn repeatedly_rejected_drafts_end_with_a_question_to_the_user() {
    let mut run = start(1, true, checks);
    run.reply(says("Blue.")).reply(says("Red."));
    run.reply(says("Green.")).reply(says("Yellow."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Clarify);
    let content = &run.outcome().content;
    assert!(
        content.contains("Yellow.") && content.contains("tell me how to continue"),
        "{content}"
    );
    assert!(
        !content.contains("Blue.") && !content.contains("Green."),
        "what was turned down is not told: {content}"
    );
    assert_tells_messages(&run.records, &run.tree, 0);
}
