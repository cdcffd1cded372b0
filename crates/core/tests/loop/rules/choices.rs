//! Rule 18, and how a call is changed after a reply that could not be parsed.

use neuraxis_core::{
    Advice, AnswerRule, Hook, LlmErrorKind, Purpose, ReplyFormat, RunSpec, RunStatus, ToolChoice,
    ToolFailure,
};

use crate::support::*;

fn forced() -> RunSpec {
    let mut spec = spec();
    spec.root.tool_choice = Some(ToolChoice::Required);
    spec
}

/// A run whose hook is asked which tools to offer, and answers.
fn forced_to(choice: ToolChoice, offered: &[&str]) -> Script {
    let mut spec = spec_with_profile(|profile| profile.hooks = vec![Hook::ToolsSelected]);
    spec.root.tool_choice = Some(choice);
    let mut run = Script::start(spec);
    let tools = offered.iter().map(|name| name.parse().unwrap()).collect();
    run.advise(Advice::Offer { tools });
    run
}

#[test]
fn a_tool_choice_that_is_not_offered_is_not_forced() {
    let read = || ToolChoice::Named(READ.parse().unwrap());
    assert_eq!(choice(&forced_to(read(), &[READ, PUT])), &read());
    assert_eq!(choice(&forced_to(read(), &[PUT])), &ToolChoice::Auto);
    assert_eq!(
        choice(&forced_to(ToolChoice::Required, &[PUT])),
        &ToolChoice::Required
    );
    assert_eq!(
        choice(&forced_to(ToolChoice::Required, &[])),
        &ToolChoice::Auto
    );
}

fn choice(run: &Script) -> &ToolChoice {
    &run.model_call().request.tool_choice
}

#[test]
fn a_forced_tool_choice_applies_to_one_model_call() {
    let mut run = Script::start(forced());
    assert_eq!(choice(&run), &ToolChoice::Required);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(choice(&run), &ToolChoice::Auto);
}

#[test]
fn the_tool_choice_none_applies_to_all_turns() {
    let mut spec = spec();
    spec.root.tool_choice = Some(ToolChoice::None);
    let mut run = Script::start(spec);
    assert_eq!(choice(&run), &ToolChoice::None);
    run.reply(calls_to(&[READ]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert_eq!(choice(&run), &ToolChoice::None);
    assert_eq!(run.model_call().request.tools.len(), tools().len());
    run.reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
}

#[test]
fn without_tool_calls_a_formatted_answer_is_requested_as_text() {
    let mut spec = spec();
    spec.root.tool_choice = Some(ToolChoice::None);
    spec.root.answer = Some(AnswerRule::tool(READ.parse().unwrap(), 2));
    let run = Script::start(spec);
    let format = &run.model_call().request.reply_format;
    assert!(
        matches!(format, ReplyFormat::JsonSchema { .. }),
        "{format:?}"
    );
}

#[test]
fn a_forced_tool_choice_remains_for_another_attempt_of_the_same_call() {
    let mut run = Script::start(forced());
    run.resume();
    assert_eq!(choice(&run), &ToolChoice::Required);
}

#[test]
fn the_tool_choice_of_a_sub_agent_is_its_own() {
    let mut spec = researching();
    researcher(&mut spec).tool_choice = Some(ToolChoice::Required);
    let mut run = Script::start(spec);
    assert_eq!(choice(&run), &ToolChoice::Auto);
    run.reply(research(&["a", "b"])).allow();
    for agent in [1, 2] {
        assert_eq!(run.call_of(agent).request.tool_choice, ToolChoice::Required);
        run.reply_as(agent, calls_to(&[READ])).allow_as(agent);
        run.finish_as(agent, 0, done("1"));
        assert_eq!(run.call_of(agent).request.tool_choice, ToolChoice::Auto);
    }
}

#[test]
fn an_unreadable_reply_is_requested_again_without_tools() {
    let mut run = Script::start(forced());
    run.fail_for(LlmErrorKind::InvalidResponse);
    assert_eq!(run.just_recorded(), ["llm_failed", "warning"]);
    let call = run.model_call();
    assert_eq!(
        (call.purpose, call.turn.0, call.attempt.0),
        (Purpose::Turn, 1, 1)
    );
    assert_eq!(call.request.tools.len(), 0);
    assert_eq!(call.request.tool_choice, ToolChoice::None);
    run.reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
}

#[test]
fn a_second_unreadable_reply_ends_the_run() {
    let mut run = Script::start(spec());
    run.fail_for(LlmErrorKind::InvalidResponse);
    run.fail_for(LlmErrorKind::InvalidResponse);
    assert_eq!(run.step.status, RunStatus::Failed);
    assert_valid(run.tree.messages());
}

#[test]
fn each_turn_has_one_retry_without_tools() {
    let mut run = Script::start(spec());
    run.fail_for(LlmErrorKind::InvalidResponse);
    run.reply(calls_to(&[READ]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert_eq!(run.model_call().request.tools.len(), tools().len());
    run.fail_for(LlmErrorKind::InvalidResponse);
    assert_eq!(run.step.status, RunStatus::Running);
}

#[test]
fn an_unreadable_last_answer_is_also_requested_again() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run.fail_for(LlmErrorKind::InvalidResponse);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
}

#[test]
fn other_failures_are_not_retried_without_tools() {
    for kind in [
        LlmErrorKind::BadRequest,
        LlmErrorKind::Timeout,
        LlmErrorKind::ContentFiltered,
    ] {
        let mut run = Script::start(spec());
        run.fail_for(kind);
        assert_eq!(run.step.status, RunStatus::Failed);
    }
}
