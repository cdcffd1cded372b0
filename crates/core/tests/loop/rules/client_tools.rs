//! Tools of kind `Client`: the caller runs them, while the run waits or after it.

use std::sync::Arc;

use neuraxis_core::{
    ClientTools, Compaction, Effect, FinishReason, JsonText, Message, PendingKind, RecordBody,
    RunSpec, RunStatus, ToolFailure, ToolKind, Transcript, continued_history,
};

use super::trimming::exchanges;
use crate::support::*;

fn handing_over() -> RunSpec {
    let mut spec = spec();
    spec.client_tools = ClientTools::HandOver;
    spec
}

#[test]
fn a_client_tool_call_is_journaled_without_an_effect_and_the_run_waits_for_it() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[PICK])).allow();
    assert_eq!(run.just_recorded(), ["verdict", "tool_call", "waiting"]);
    assert_eq!(run.step.effects, []);
    assert_eq!(run.step.status, RunStatus::Waiting);
    assert_eq!(run.started(0).kind, ToolKind::Client);
    let RecordBody::Waiting(waiting) = &run.step.records[2].body else {
        panic!("the run waits")
    };
    assert_eq!(waiting.pending[0].kind, PendingKind::ClientTool);
    assert_eq!(waiting.pending[0].effect_id, run.started(0).effect_id);
    run.finish(0, done("\"blue\""));
    assert_eq!(run.step.status, RunStatus::Running);
    assert_eq!(run.tool_messages(), ["\"blue\""]);
}

#[test]
fn a_client_tool_can_require_approval() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[PICK])).vet([asks()]);
    run.decide(approve()).vet([asks()]);
    assert_eq!(run.step.status, RunStatus::Waiting);
    run.finish(0, failed("the window was closed"));
    assert_eq!(run.model_call().turn.0, 2);
}

#[test]
fn a_client_call_is_refused_if_the_log_withholds_what_resuming_needs() {
    let mut run = Script::start(spec_with_profile(|profile| profile.data.text = false));
    run.reply(calls_to(&[PICK])).allow();
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert_eq!(run.step.status, RunStatus::Running);
    assert_eq!(run.model_call().turn.0, 2);
}

#[test]
fn handing_over_a_client_call_ends_the_run_with_the_call_open() {
    let mut run = Script::start(handing_over());
    run.reply(calls("Choose.", &[(PICK, "{}")])).allow();
    assert_eq!(run.just_recorded(), ["verdict", "final"]);
    assert_eq!(run.outcome().finish_reason, FinishReason::ClientTools);
    assert_eq!(run.outcome().content, "Choose.");
    assert_eq!(run.step.status, RunStatus::Done);
    assert_eq!(run.tree.messages().last().unwrap().tool_calls().count(), 1);
}

/// The history of a run that handed over a call while a message had arrived that no model received, and the result of
/// the call.
fn handed_over(color: &str) -> (Transcript, Vec<Arc<Message>>) {
    let mut run = Script::start(handing_over());
    run.reply(calls_to(&[PICK])).steer("A warm one.").allow();
    assert_eq!(run.outcome().finish_reason, FinishReason::ClientTools);
    let call = run.tree.messages()[1].tool_calls().next().unwrap();
    let result = Message::tool_result(call.id.clone(), PICK, JsonText::string(color));
    let history = continued_history(&Transcript::default(), &run.records);
    (history, vec![Arc::new(result)])
}

#[test]
fn a_message_sent_before_calls_were_handed_over_follows_their_results() {
    let (history, results) = handed_over("red");
    let mut spec = handing_over();
    spec.messages = results;
    let next = Script::start_after(spec, history.clone());
    assert_eq!(next.just_recorded(), ["run_started"], "nothing is repaired");
    assert_gives_back(&history, &next.records, &next.tree);
    insta::assert_snapshot!(next.conversation(), @r#"
    user: Please help.
    assistant:  [pick_color {}]
    tool: "red"
    user: A warm one.
    "#);
    let sent = next.model_call().request.messages.messages();
    assert_eq!(sent, next.tree.messages());
}

#[test]
fn results_of_handed_over_calls_remain_until_a_model_has_read_them() {
    let (asked, results) = handed_over(&"red".repeat(1_150));
    let said = exchanges(1);
    let history: Transcript = said
        .messages()
        .iter()
        .chain(asked.messages())
        .cloned()
        .collect();
    let mut spec = handing_over();
    spec.messages = results;
    spec.root.context_tokens = Some(1_000 + DEFINITIONS);
    spec.root.max_output_tokens = Some(50);
    spec.root.profile.compaction = Compaction::Drop;
    let next = Script::start_after(spec, history.clone());
    assert_eq!(next.just_recorded(), ["run_started", "context_trimmed"]);
    assert_eq!(next.tool_messages().len(), 1, "{}", next.conversation());
    // The question that they were made for stays as well.
    assert_eq!(next.tree.messages().len(), 4, "{}", next.conversation());
    assert_gives_back(&history, &next.records, &next.tree);
}

#[test]
fn other_tools_of_the_same_reply_run_before_client_calls_are_handed_over() {
    let mut run = Script::start(handing_over());
    run.reply(calls_to(&[READ, PICK, SEND, PICK])).allow();
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("0"));
    assert_eq!(run.just_started(), [2]);
    run.finish(2, done("2"));
    assert_eq!(run.outcome().finish_reason, FinishReason::ClientTools);
    assert_eq!(run.tool_messages(), ["0", "2"]);
}

#[test]
fn a_client_call_denied_by_policy_is_not_handed_over() {
    let mut run = Script::start(handing_over());
    run.reply(calls_to(&[PICK])).vet([denies()]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::Denied));
    assert_eq!(run.model_call().turn.0, 2);
}

#[test]
fn cancelling_a_pending_client_call_emits_no_cancel_effect() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[PICK])).allow().cancel();
    assert!(matches!(&run.step.effects[..], [Effect::Finish(_)]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    assert_valid(run.tree.messages());
}
