//! What a program's hooks said about calls arrives with the verdict: the rewritten arguments are the ones that run.

use neuraxis_core::{
    AdvisedCall, CallAdvice, DataPolicy, Effect, FinishReason, Input, InputError, JsonText,
    RunStatus, RunTree, ToolCallId, ToolFailure, Transcript, Vetted, Vetting,
};

use crate::support::*;

const WRITTEN: &str = r#"{"to":"all"}"#;
const REWRITTEN: &str = r#"{"to":"bob"}"#;

/// Answers the last vetting with what a hook said about its first call.
fn advised(
    run: &Script,
    arguments: Option<&str>,
    advice: CallAdvice,
    verdicts: impl IntoIterator<Item = Vetting>,
) -> Input {
    let mut vetted = Vetted::new(run.to_vet().effect_id, verdicts.into_iter().collect());
    vetted.advised = vec![AdvisedCall {
        tool_call_id: run.to_vet().calls[0].tool_call_id.clone(),
        arguments: arguments.map(JsonText::from_text),
        advice,
        code: None,
    }];
    Input::Vetted(vetted)
}

fn calling() -> Script {
    let mut run = Script::start(spec());
    run.reply(calls("Sending.", &[(SEND, WRITTEN), (READ, "{}")]));
    run
}

#[test]
fn rewritten_arguments_run_and_the_advice_is_kept_when_the_call_is_rechecked() {
    let mut run = calling();
    assert_eq!(run.to_vet().calls[0].advised, None);
    let input = advised(
        &run,
        Some(REWRITTEN),
        CallAdvice::Continue,
        [asks(), reads()],
    );
    run.send(input);
    assert_eq!(run.asked().arguments.as_str(), REWRITTEN);
    run.decide(approve());
    let call = &run.to_vet().calls[0];
    assert_eq!(call.arguments.as_str(), REWRITTEN);
    assert_eq!(call.advised.as_ref().unwrap().advice, CallAdvice::Continue);
    run.vet([asks()]);
    let sent = run.started(0);
    assert_eq!(sent.arguments.as_str(), REWRITTEN);
    let (restored, _) = RunTree::restore(Transcript::default(), &run.records).unwrap();
    assert!(restored == run.tree);
}

#[test]
fn an_approval_does_not_apply_to_arguments_rewritten_afterwards() {
    let mut run = calling();
    run.vet([asks(), reads()])
        .decide(approve_with(r#"{"to":"eve"}"#));
    assert_eq!(
        run.to_vet().calls[0].advised,
        None,
        "nobody looked at these"
    );
    let input = advised(&run, Some(REWRITTEN), CallAdvice::Continue, [asks()]);
    run.send(input);
    assert_eq!(
        run.just_recorded(),
        ["verdict", "approval_requested", "waiting"]
    );
    assert_eq!(run.asked().arguments.as_str(), REWRITTEN);
}

#[test]
fn stop_advice_ends_the_agent_and_each_call_has_a_result() {
    let mut run = calling();
    let reason = "seen enough".to_owned();
    let input = advised(&run, None, CallAdvice::Stop { reason }, [denies(), reads()]);
    run.send(input);
    assert_eq!(run.step.status, RunStatus::Done);
    let Some(Effect::Finish(outcome)) = run.effects.last() else {
        panic!("the run is over")
    };
    assert_eq!(outcome.finish_reason, FinishReason::Stop);
    assert_eq!(outcome.content, "Sending.");
    for call in [0, 1] {
        assert_eq!(run.result(call).failure, Some(ToolFailure::Cancelled));
    }
    assert_valid(run.tree.messages());
}

#[test]
fn advice_on_a_call_that_is_not_being_checked_is_refused() {
    let mut run = calling();
    let Input::Vetted(mut vetted) = advised(&run, None, CallAdvice::Continue, [writes(), reads()])
    else {
        panic!("it is a verdict")
    };
    vetted.advised[0].tool_call_id = ToolCallId::from_text("another");
    let error = run.refused(Input::Vetted(vetted));
    assert!(matches!(error, InputError::NotWaiting(_)), "{error}");
}

#[test]
fn call_content_quoted_by_a_hook_is_withheld_with_the_call() {
    let mut run = calling();
    let reason = "bob is no recipient".to_owned();
    let advice = CallAdvice::Ask { reason };
    let input = advised(&run, Some(REWRITTEN), advice, [writes(), reads()]);
    run.send(input);
    let policy = DataPolicy {
        tool_calls: false,
        ..DataPolicy::ALL
    };
    let withheld = run.step.records[0].withheld(policy).unwrap().to_json();
    assert!(!withheld.contains("bob"), "{withheld}");
    assert!(withheld.contains("advised"), "{withheld}");
}
