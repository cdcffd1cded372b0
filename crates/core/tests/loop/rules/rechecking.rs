//! What is on record lets no call run on its own after a run was resumed: each is checked again first.

use neuraxis_core::{
    ApprovalDecision, Attempt, Effect, Input, Limits, Resumed, RunTree, ToolClass, ToolFailure,
    Transcript, Vetting,
};

use crate::support::*;

/// The process dies, and another resumes the run.
fn taken_up(run: &mut Script) {
    let (tree, _) = RunTree::restore(Transcript::default(), &run.records).unwrap();
    assert!(tree == run.tree, "the log does not give the run back");
    run.resume_checking();
}

#[test]
fn a_call_in_doubt_runs_again_only_after_a_check_and_under_the_same_effect() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow();
    let first = run.started(0).clone();
    taken_up(&mut run);
    assert_eq!(run.just_recorded(), ["resumed"]);
    assert_eq!(run.just_started(), [0; 0]);
    run.vet([reads()]);
    let again = run.started(0);
    assert_eq!(
        (again.effect_id, again.attempt),
        (first.effect_id, Attempt(2))
    );
    run.finish(0, done("1"));
    assert_eq!(run.tool_messages(), ["1"]);
    run.assert_replays();
}

#[test]
fn the_stricter_of_recorded_and_current_class_decides_if_a_call_is_repeated() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow();
    taken_up(&mut run);
    run.vet([Vetting::run(ToolClass::Irreversible)]);
    assert_eq!(run.just_started(), [0; 0]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));

    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([writes()]);
    taken_up(&mut run);
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    assert_eq!(run.just_started(), [0; 0]);
}

#[test]
fn a_call_in_doubt_that_policy_now_denies_is_not_repeated_and_reports_its_start() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow();
    taken_up(&mut run);
    run.vet([denies()]);
    assert_eq!(run.just_started(), [0; 0]);
    let result = run.result(0);
    assert_eq!(result.failure, Some(ToolFailure::OutcomeUnknown));
    assert_eq!(result.effect_id, Some(run.started(0).effect_id));
    let told = run.tool_messages().concat();
    assert!(told.contains("it was not repeated: denied"), "{told}");
    run.assert_replays();
}

#[test]
fn a_call_in_doubt_that_now_needs_approval_requests_it() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow();
    taken_up(&mut run);
    run.vet([asks()]);
    assert_eq!(run.just_started(), [0; 0]);
    run.decide(ApprovalDecision::APPROVE);
    run.vet([Vetting::ask(ToolClass::ReadOnly, "it may")]);
    assert_eq!(run.started(0).attempt, Attempt(2));
    run.assert_replays();
}

#[test]
fn a_queued_call_is_checked_before_it_starts_and_counts_once() {
    let one_more = spec_with_limits(|limits| limits.max_tool_calls = Some(2));
    let mut run = Script::start(one_more);
    run.reply(calls_to(&[SEND, SEND])).allow();
    taken_up(&mut run);
    assert_eq!(run.just_started(), [0; 0]);
    run.vet([asks()]);
    assert_eq!(run.just_started(), [0; 0], "nobody approved it");

    let mut run = Script::start(spec_with_limits(|limits| limits.max_tool_calls = Some(2)));
    run.reply(calls_to(&[SEND, SEND])).allow();
    taken_up(&mut run);
    run.vet([Vetting::run(ToolClass::Irreversible)]);
    assert_eq!(run.just_started(), [1]);
    run.assert_replays();
}

#[test]
fn an_invalidated_approval_is_requested_again() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([asks()]);
    run.decide(ApprovalDecision::APPROVE);
    taken_up(&mut run);
    run.vet([asks().asking_again()]);
    assert_eq!(
        run.just_recorded(),
        ["verdict", "approval_requested", "waiting"]
    );
    run.decide(ApprovalDecision::APPROVE).vet([asks()]);
    assert_eq!(run.just_started(), [0]);
    run.assert_replays();
}

#[test]
fn a_call_in_doubt_cancelled_before_its_recheck_reports_an_unknown_outcome() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow();
    taken_up(&mut run);
    run.cancel();
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
}

#[test]
fn a_resumed_run_respects_newly_tightened_limits() {
    let mut run = Script::start(spec());
    let mut resumed = Resumed::new(run.new_id(), "the process died").checking_calls();
    resumed.limits = Some(Box::new(Limits {
        max_tool_calls: Some(0),
        ..Limits::NONE
    }));
    run.send(Input::Resumed(resumed));
    run.reply(calls_to(&[READ])).vet([reads()]);
    assert_eq!(run.just_started(), [0; 0]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
    run.assert_replays();
}

#[test]
fn a_run_counts_consecutive_futile_resumes() {
    let mut run = Script::start(spec());
    for times in 1..=3 {
        taken_up(&mut run);
        assert_eq!(run.tree.futile_resumes(), times);
    }
    run.reply(calls_to(&[READ]));
    assert_eq!(run.tree.futile_resumes(), 0);
    taken_up(&mut run);
    assert!(matches!(run.step.effects.as_slice(), [Effect::Vet(_)]));
    assert_eq!(run.tree.futile_resumes(), 1);
    run.vet([asks()]);
    taken_up(&mut run);
    assert_eq!(run.tree.futile_resumes(), 0, "it waits, as it should");
}

#[test]
fn a_resume_after_a_release_is_not_futile() {
    let mut run = Script::start(spec());
    taken_up(&mut run);
    for _ in 0..3 {
        let mut resumed = Resumed::new(run.new_id(), "the server was told to stop");
        resumed.released = true;
        run.send(Input::Resumed(resumed));
        assert_eq!(run.tree.futile_resumes(), 1);
    }
    run.assert_replays();
}
