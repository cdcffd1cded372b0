//! Approvals: a user answers an ask about exact arguments, and never overrides a deny.

use neuraxis_core::{
    ApprovalDecision, ContentHash, Effect, Input, InputError, Interruption, LogEnd, PendingKind,
    RecordBody, RunStatus, ToolCallId, ToolFailure, Transcript, Vetting, closing_records,
    continued_history,
};

use crate::support::*;

const SHOWN: &str = r#"{"to":"all"}"#;
const EDITED: &str = r#"{"to":"bob"}"#;

/// A run that waits for a user to decide about its only call.
fn waiting() -> Script {
    let mut run = Script::start(spec());
    run.reply(calls("", &[(SEND, SHOWN)])).vet([asks()]);
    run
}

#[test]
fn a_call_that_needs_approval_makes_the_run_wait_and_names_the_call() {
    let run = waiting();
    assert_eq!(
        run.just_recorded(),
        ["verdict", "approval_requested", "waiting"]
    );
    assert_eq!(run.step.status, RunStatus::Waiting);
    let asked = run.asked();
    assert_eq!(asked.arguments.as_str(), SHOWN);
    assert_eq!(asked.arguments_hash, ContentHash::of(SHOWN.as_bytes()));
    assert_eq!(asked.reason, "it sends something");
    let RecordBody::Waiting(waiting) = &run.step.records[2].body else {
        panic!("the run waits")
    };
    assert_eq!(waiting.pending[0].effect_id, asked.effect_id);
    assert_eq!(waiting.pending[0].kind, PendingKind::Approval);
}

#[test]
fn a_run_waits_only_once_nothing_else_can_continue() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, SEND, SEND]))
        .vet([reads(), asks(), asks()]);
    assert_eq!(run.step.status, RunStatus::Running);
    run.finish(0, done("0"));
    assert_eq!(run.just_recorded(), ["tool_result", "waiting"]);
    let RecordBody::Waiting(waiting) = &run.step.records[1].body else {
        panic!("the run waits")
    };
    assert_eq!(
        waiting.pending.len(),
        2,
        "everything that waits is asked at once"
    );
}

#[test]
fn an_approved_call_is_checked_again_and_runs() {
    let mut run = waiting();
    run.decide(approve());
    assert_eq!(run.just_recorded(), ["approval_decided"]);
    assert_eq!(run.step.status, RunStatus::Running);
    assert!(run.to_vet().calls[0].approved.is_some());
    assert_eq!(run.to_vet().calls[0].arguments.as_str(), SHOWN);
    run.vet([asks()]);
    assert_eq!(run.just_recorded(), ["verdict", "tool_call"]);
    run.finish(0, done("1"));
    assert_eq!(run.tool_messages(), ["1"]);
}

#[test]
fn edited_arguments_are_checked_again_and_run() {
    let mut run = waiting();
    run.decide(approve_with(EDITED));
    assert_eq!(run.to_vet().calls[0].arguments.as_str(), EDITED);
    run.vet([writes()]);
    let [Effect::RunTool(effect)] = run.step.effects.as_slice() else {
        panic!("the tool runs")
    };
    assert_eq!(effect.arguments.as_str(), EDITED);
    assert_eq!(
        run.started(0).arguments_hash,
        ContentHash::of(EDITED.as_bytes())
    );
}

#[test]
fn invalid_edited_arguments_are_not_run() {
    let mut run = waiting();
    run.decide(approve_with("{\"to\":7}"));
    run.vet([Vetting::Invalid {
        message: "to: 7 is not a string".to_owned(),
    }]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::InvalidArguments));
    assert_valid(run.tree.messages());
}

#[test]
fn an_approval_never_overrides_a_deny() {
    for decision in [approve(), approve_with(EDITED)] {
        let mut run = waiting();
        run.decide(decision).vet([denies()]);
        assert_eq!(run.just_started(), [0; 0]);
        assert_eq!(run.result(0).failure, Some(ToolFailure::Denied));
        assert_eq!(run.model_call().turn.0, 2);
    }
}

#[test]
fn a_denied_call_is_not_run_and_the_model_receives_the_reason() {
    let mut run = waiting();
    run.decide(ApprovalDecision::Deny {
        reason: Some("not today".to_owned()),
    });
    assert_eq!(run.just_recorded(), ["approval_decided", "tool_result"]);
    assert_eq!(run.tool_messages(), [r#"{"error":"denied: not today"}"#]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::Denied));
    assert_eq!(run.step.status, RunStatus::Running);
}

#[test]
fn an_approval_that_expired_is_not_a_denial_by_a_person() {
    let mut run = waiting();
    run.decide(ApprovalDecision::Expired);
    assert_eq!(run.result(0).failure, Some(ToolFailure::ApprovalExpired));
    assert_eq!(
        run.tool_messages(),
        [r#"{"error":"not run: nobody approved this call in time"}"#]
    );
}

#[test]
fn an_approval_for_arguments_other_than_those_of_the_call_is_refused() {
    let mut run = waiting();
    let mut decided = run.decided(approve());
    let Input::ApprovalDecided(stale) = &mut decided else {
        panic!("a decision")
    };
    stale.arguments_hash = ContentHash::of(EDITED.as_bytes());
    let call = stale.tool_call_id.clone();
    assert_eq!(run.refused(decided), InputError::ApprovalMismatch(call));
    run.decide(approve()).vet([writes()]);
    assert_eq!(
        run.just_started(),
        [0],
        "the call still waits for the right one"
    );
}

#[test]
fn a_decision_about_a_call_that_is_not_waiting_is_refused() {
    let mut run = waiting();
    let mut unknown = run.decided(approve());
    if let Input::ApprovalDecided(unknown) = &mut unknown {
        unknown.tool_call_id = ToolCallId::from_text("call_of_nobody");
    }
    let error = InputError::NotWaiting(ToolCallId::from_text("call_of_nobody"));
    assert_eq!(run.refused(unknown), error);
    let second = run.decided(approve());
    run.decide(ApprovalDecision::Deny { reason: None });
    assert!(matches!(run.refused(second), InputError::NotWaiting(_)));
}

#[test]
fn one_decision_leaves_the_other_calls_waiting() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND, SEND])).vet([asks(), asks()]);
    run.decide(ApprovalDecision::Deny { reason: None });
    assert_eq!(run.step.status, RunStatus::Waiting);
    assert_eq!(run.result(1).failure, Some(ToolFailure::Denied));
    assert_eq!(run.tool_messages(), [""; 0]);
}

#[test]
fn an_approved_write_still_runs_alone_and_in_call_order() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND, SEND])).vet([asks(), asks()]);
    run.decide(approve()).vet([asks()]);
    assert_eq!(run.just_started(), [0; 0], "the call before it waits");
    assert_eq!(run.step.status, RunStatus::Waiting);
}

#[test]
fn a_call_undecided_when_its_log_was_closed_has_not_run() {
    let run = waiting();
    let last = run.records.last().unwrap();
    let end = LogEnd {
        run_id: last.run_id,
        last: last.seq,
        at: last.at,
    };
    let closing = closing_records(&run.records, end, Interruption::Closed, "not any more");
    let RecordBody::ToolResult(result) = &closing[1].body else {
        panic!("{closing:?}")
    };
    assert_eq!(result.failure, Some(ToolFailure::Cancelled));
    assert_eq!(result.attempt, None);
    let mut records = run.records.clone();
    records.extend(closing);
    let history = continued_history(&Transcript::default(), &records);
    let told = history.messages().last().unwrap().text();
    assert!(told.contains("not run: "), "{told}");
}
