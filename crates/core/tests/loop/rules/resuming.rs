//! The effect journal: what happens to work that was in progress when a process died.

use neuraxis_core::{
    Attempt, Effect, FinishReason, Input, InputError, InputId, NextAttempt, Purpose, Resumed,
    RunStatus, RunTree, ToolFailure, Transcript,
};

use crate::support::*;

/// The process dies: only the log is left.
fn crashed(run: &mut Script) -> Vec<Effect> {
    let (tree, unanswered) = RunTree::restore(Transcript::default(), &run.records).unwrap();
    assert!(tree == run.tree, "the log does not give the run back");
    run.tree = tree;
    unanswered
}

#[test]
fn a_model_call_in_flight_is_repeated_as_the_next_attempt_of_the_same_effect() {
    let mut run = Script::start(spec());
    let first = run.model_call().clone();
    crashed(&mut run);
    run.resume();
    assert_eq!(run.just_recorded(), ["resumed"]);
    let again = run.model_call();
    assert_eq!(
        (again.effect_id, again.attempt),
        (first.effect_id, Attempt(2))
    );
    assert_eq!(again.request, first.request);
    assert_eq!(again.content_index, first.content_index);
}

#[test]
fn an_answer_of_a_lost_attempt_is_ignored() {
    let mut run = Script::start(spec());
    let lost = run.replied(says("Blue."));
    run.resume();
    run.send_in_vain(lost);
    run.reply(says("Red."));
    assert_eq!(run.outcome().content, "Red.");
}

#[test]
fn a_repeatable_call_runs_again_as_attempt_2_of_the_same_effect() {
    for tool in [READ, PUT] {
        let mut run = Script::start(spec());
        run.reply(calls("", &[(tool, r#"{"path":"a"}"#)])).allow();
        let first = run.started(0).clone();
        crashed(&mut run);
        let lost = run.finished(0, done("\"lost\""));
        run.resume();
        assert_eq!(run.just_recorded(), ["resumed", "tool_call"]);
        assert_eq!(run.just_started(), [0]);
        let again = run.started(0);
        assert_eq!(
            (again.effect_id, again.attempt),
            (first.effect_id, Attempt(2))
        );
        assert_eq!(again.arguments, first.arguments);
        run.send_in_vain(lost);
        run.finish(0, done("\"again\""));
        assert_eq!(run.tool_messages(), ["\"again\""]);
    }
}

#[test]
fn an_irreversible_call_never_runs_twice_and_its_outcome_is_unknown() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).allow();
    crashed(&mut run);
    let late = run.finished(0, done("1"));
    run.resume();
    assert_eq!(run.just_recorded(), ["resumed", "tool_result"]);
    assert_eq!(run.just_started(), [0; 0]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    assert_eq!(run.result(0).effect_id, Some(run.started(0).effect_id));
    assert_eq!(run.result(0).duration, None, "nobody knows how long it ran");
    insta::assert_snapshot!(run.tool_messages()[0], @r#"{"error":"interrupted: its outcome is unknown, it may have taken effect; check before you call it again"}"#);
    assert_eq!(run.model_call().turn.0, 2, "the model is told and goes on");
    run.send_in_vain(late);
}

#[test]
fn a_completed_call_is_never_run_again() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ])).allow();
    run.finish(0, done("0"));
    crashed(&mut run);
    run.resume();
    assert_eq!(run.just_started(), [1]);
}

#[test]
fn a_queued_call_starts_when_its_turn_comes() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND, SEND])).allow();
    crashed(&mut run);
    run.resume();
    assert_eq!(run.just_started(), [1]);
    assert_eq!(run.started(1).attempt, Attempt(1));
}

#[test]
fn a_check_in_progress_is_requested_again() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ]));
    let first = run.to_vet().clone();
    crashed(&mut run);
    run.resume();
    assert_eq!(run.step.effects, [Effect::Vet(first)]);
}

#[test]
fn a_pending_approval_is_requested_again_and_the_run_waits() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([asks()]);
    let first = run.asked().clone();
    crashed(&mut run);
    run.resume();
    assert_eq!(run.just_recorded(), ["resumed", "waiting"]);
    assert_eq!(run.step.effects, [Effect::AskApproval(Box::new(first))]);
    assert_eq!(run.step.status, RunStatus::Waiting);
}

#[test]
fn a_client_call_stays_with_its_client() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[PICK])).allow();
    crashed(&mut run);
    run.resume();
    assert_eq!(run.step.effects, []);
    assert_eq!(run.step.status, RunStatus::Waiting);
    run.finish(0, done("\"blue\""));
    assert_eq!(run.tool_messages(), ["\"blue\""]);
}

#[test]
fn a_last_answer_in_flight_is_requested_again() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls_to(&[READ])).allow().finish(0, done("0"));
    crashed(&mut run);
    run.resume();
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(run.model_call().attempt, Attempt(2));
    run.reply(says("Done."));
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
}

#[test]
fn the_log_restores_each_unanswered_effect_once() {
    let mut run = Script::start(spec());
    assert_eq!(crashed(&mut run).len(), 1);
    run.resume().reply(calls_to(&[READ, READ, SEND]));
    run.resume().vet([reads(), reads(), asks()]);
    run.finish(0, done("0")).resume();
    let open = crashed(&mut run);
    assert_eq!(
        open, run.step.effects,
        "the question and the call that runs again"
    );
    assert_eq!(open.len(), 2);
}

#[test]
fn the_log_restores_a_failed_model_call_as_its_next_attempt() {
    let mut run = Script::start(spec());
    run.fail_model(1, NextAttempt::Follows);
    let open = crashed(&mut run);
    let [Effect::CallModel(call)] = open.as_slice() else {
        panic!("the call is open: {open:?}")
    };
    assert_eq!(call.effect_id, run.model_call().effect_id);
    assert_eq!(call.attempt, Attempt(2));
}

#[test]
fn a_run_that_has_ended_has_no_open_effects_and_cannot_be_resumed() {
    let mut run = Script::start(spec());
    run.reply(says("Blue."));
    assert_eq!(crashed(&mut run), []);
    let resumed = Input::Resumed(Resumed::new(InputId::new("r1"), "why not"));
    assert_eq!(run.refused(resumed), InputError::RunEnded);
}
