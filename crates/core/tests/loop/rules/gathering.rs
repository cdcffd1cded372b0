//! The opening `Gather`: a small model chooses what to read, and the agent's own model answers from it.

use neuraxis_core::{
    Audience, FinishReason, JsonText, NextAttempt, Opening, Origin, Purpose, ReplyFinish, Role,
    RunSpec, ToolChoice, ToolFailure,
};

use crate::support::*;

fn gathering() -> RunSpec {
    spec_with_profile(|profile| {
        profile.opening = Opening::Gather {
            role: Role::ROUTER,
            tool: READ.parse().unwrap(),
            default_arguments: JsonText::from_text(r#"{"path":"all"}"#),
        };
    })
}

#[test]
fn the_router_is_called_first_unstreamed_and_with_only_one_tool() {
    let run = Script::start(gathering());
    let call = run.model_call();
    assert_eq!((call.purpose, &call.role), (Purpose::Gather, &Role::ROUTER));
    assert_eq!(call.audience, Audience::Component);
    assert_eq!(call.request.tool_choice, ToolChoice::Auto);
    let names: Vec<_> = call
        .request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names, [READ]);
}

#[test]
fn the_text_of_the_router_is_dropped_and_its_first_call_is_kept() {
    let mut run = Script::start(gathering());
    run.reply(calls(
        "I'd say:",
        &[(READ, r#"{"path":"a"}"#), (READ, r#"{"path":"b"}"#)],
    ));
    insta::assert_snapshot!(run.conversation(), @r#"
    user: Please help.
    assistant:  [read_file {"path":"a"}]
    "#);
    run.allow();
    assert_eq!(run.just_started(), [0]);
    assert_eq!(run.started(0).origin, Origin::Model);
}

#[test]
fn policy_adds_a_call_if_the_router_makes_none() {
    let mut run = Script::start(gathering());
    run.reply(says("No need to look.")).allow();
    assert_eq!(run.started(0).origin, Origin::Policy);
    insta::assert_snapshot!(run.conversation(), @r#"
    user: Please help.
    assistant:  [read_file {"path":"all"}]
    "#);
}

#[test]
fn a_truncated_router_call_is_replaced_by_the_one_from_policy() {
    let mut run = Script::start(gathering());
    let cut = calls("", &[(READ, r#"{"path":"etc"}"#)]);
    run.reply(ended(cut, ReplyFinish::Length)).allow();
    assert_eq!(run.started(0).origin, Origin::Policy);
    assert_eq!(run.started(0).arguments.as_str(), r#"{"path":"all"}"#);
}

#[test]
fn a_failing_router_does_not_prevent_gathering() {
    let mut run = Script::start(gathering());
    run.fail_model(1, NextAttempt::Follows);
    run.fail_model(2, NextAttempt::None);
    run.allow();
    assert_eq!(run.started(0).origin, Origin::Policy);
    run.finish(0, done("1")).reply(says("All is well."));
    assert_eq!(run.outcome().content, "All is well.");
}

#[test]
fn the_role_of_the_agent_then_answers_without_tools() {
    let mut run = Script::start(gathering());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    let call = run.model_call();
    assert_eq!(
        (call.purpose, &call.role),
        (Purpose::Turn, &Role::REASONING)
    );
    assert_eq!(call.audience, Audience::Person);
    assert!(call.request.tools.is_empty());
    run.reply(says("All is well."));
    assert_eq!(run.outcome().content, "All is well.");
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_valid(run.tree.messages());
}

#[test]
fn a_tool_call_in_an_answer_without_tools_is_not_run() {
    let mut run = Script::start(gathering());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run.reply(calls("", &[(SEND, r#"{"to":"all"}"#)]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert!(run.just_recorded().contains(&"tool_result"));
    assert_eq!(
        run.model_call().turn.0,
        3,
        "the model is told and answers again"
    );
    assert_valid(run.tree.messages());
}

#[test]
fn a_denied_gathering_call_is_reported_to_the_answering_agent() {
    let mut run = Script::start(gathering());
    run.reply(calls_to(&[READ])).vet([denies()]);
    assert_eq!(
        run.tool_messages(),
        [r#"{"error":"denied: not in this mode"}"#]
    );
    assert_eq!(run.model_call().role, Role::REASONING);
}
