//! Rule 11: cancelled at any point, a run ends immediately and its history is valid.

use neuraxis_core::{
    BudgetKind, Cancelled, CutOutput, Effect, FinishReason, Input, InputId, RunStatus, ToolFailure,
    ToolStatus,
};

use crate::support::*;

fn assert_cancelled(run: &Script) {
    assert_eq!(run.step.status, RunStatus::Interrupted);
    assert_eq!(run.outcome().finish_reason, FinishReason::Cancelled);
    assert_eq!(run.just_recorded()[0], "cancelled");
    assert_eq!(*run.just_recorded().last().unwrap(), "final");
    assert_valid(run.tree.messages());
}

#[test]
fn a_run_is_cancelled_while_the_model_responds() {
    let mut run = Script::start(spec());
    run.cancel();
    assert_cancelled(&run);
    assert_eq!(run.just_recorded(), ["cancelled", "final"]);
    let late = run.replied(says("Blue."));
    run.send_in_vain(late);
}

#[test]
fn a_run_is_cancelled_while_calls_are_checked() {
    let mut run = Script::start(spec());
    run.reply(calls("One moment.", &[(READ, "{}"), (SEND, "{}")]));
    run.cancel();
    assert_cancelled(&run);
    assert_eq!(run.outcome().content, "One moment.");
    for index in 0..2 {
        let result = run.result(index);
        assert_eq!(result.failure, Some(ToolFailure::Cancelled));
        assert_eq!(
            result.value.as_str(),
            r#"{"error":"not run: the run was cancelled"}"#
        );
    }
}

#[test]
fn a_run_is_cancelled_while_an_approval_is_pending() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([asks()]).cancel();
    assert_cancelled(&run);
    assert!(run.result(0).value.as_str().contains("not run"));
}

#[test]
fn a_run_is_cancelled_while_tools_run() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ, SEND])).allow();
    run.finish(0, done("0"));
    run.cancel();
    assert_cancelled(&run);
    let started = run.started(1).effect_id;
    assert!(
        matches!(&run.step.effects[0], Effect::CancelTool(cancel) if cancel.effect_id == started)
    );
    assert!(matches!(&run.step.effects[1], Effect::Finish(_)));
    assert_eq!(
        run.result(0).status,
        ToolStatus::Done,
        "what ended keeps its result"
    );
    assert_eq!(run.result(1).failure, Some(ToolFailure::Cancelled));
    assert!(run.result(2).value.as_str().contains("not run"));
    let late = run.finished(1, done("1"));
    run.send_in_vain(late);
}

#[test]
fn an_irreversible_call_in_progress_reports_an_unknown_outcome() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).allow().cancel();
    assert_cancelled(&run);
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    insta::assert_snapshot!(run.tool_messages()[0], @r#"{"error":"stopped: the run was cancelled; its outcome is unknown, it may have taken effect"}"#);
}

#[test]
fn a_run_is_cancelled_while_the_last_answer_is_pending() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls_to(&[READ])).allow().finish(0, done("0"));
    run.cancel();
    assert_cancelled(&run);
}

#[test]
fn cancelling_twice_has_no_further_effect() {
    let mut run = Script::start(spec());
    run.cancel();
    for id in ["input-1", "another"] {
        run.send_in_vain(Input::Cancelled(Cancelled::new(InputId::new(id), "again")));
    }
}

#[test]
fn a_limit_outside_the_loop_ends_the_run_like_any_limit() {
    let full = || {
        let id = InputId::new("full");
        Input::Cancelled(Cancelled::at_limit(id, BudgetKind::Log))
    };
    let mut run = Script::start(spec());
    run.reply(calls("One moment.", &[(READ, "{}"), (SEND, "{}")]))
        .allow();
    run.send(full());
    assert_eq!(run.step.status, RunStatus::Done);
    let outcome = run.outcome();
    assert_eq!(outcome.finish_reason, FinishReason::Budget(BudgetKind::Log));
    assert_eq!(outcome.content, "One moment.");
    assert_valid(run.tree.messages());
    run.send_in_vain(full());

    let mut silent = Script::start(spec());
    silent.send(full());
    let content = &silent.outcome().content;
    assert!(
        content.contains("the size limit of the run's log"),
        "{content}"
    );
}

#[test]
fn output_printed_by_a_cancelled_call_is_included_in_its_error_result() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ])).allow();
    let mut cancelled = Cancelled::new(InputId::new("stop"), "enough");
    let printed = |effect_id, text: &str| CutOutput {
        effect_id,
        text: text.to_owned(),
    };
    cancelled.printed = vec![
        printed(run.started(1).effect_id, "one\ntwo\n"),
        printed(run.started(0).effect_id, " \n"),
    ];
    run.send(Input::Cancelled(cancelled));
    assert_cancelled(&run);
    let value = |index| run.result(index).value.as_str().to_owned();
    let error = r#""error":"stopped: the run was cancelled""#;
    assert_eq!(value(0), format!("{{{error}}}"));
    assert_eq!(value(1), format!(r#"{{{error},"printed":"one\ntwo\n"}}"#));
}
