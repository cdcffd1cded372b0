//! A model that is asked first which role serves, and the rules that stand in for it.

use neuraxis_core::{Audience, LlmErrorKind, Purpose, Role, ToolChoice};

use crate::support::*;

#[test]
fn the_model_is_asked_aside_unstreamed_and_without_tools() {
    let run = Script::start(governed(routes));
    let call = run.model_call();
    assert_eq!(
        (call.purpose, &call.role),
        (Purpose::Routing, &Role::ROUTER)
    );
    assert_eq!(call.audience, Audience::Component);
    assert!(call.request.tools.is_empty());
    assert_eq!(call.request.tool_choice, ToolChoice::None);
    assert_eq!(call.request.max_output_tokens, Some(16));
    let texts: Vec<_> = call
        .request
        .messages
        .messages()
        .iter()
        .map(|it| it.text())
        .collect();
    assert_eq!(texts, ["Which role?", "Please help."]);
}

#[test]
fn the_role_it_names_serves_and_its_text_is_no_part_of_the_conversation() {
    let mut run = Script::start(governed(routes));
    run.reply(says("\"Coding\""));
    assert_eq!(run.model_call().role, Role::CODING);
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().role, Role::CODING, "in later turns, too");
    run.reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
    assert!(!run.conversation().contains("Coding"));
    run.assert_replays();
}

#[test]
fn a_last_answer_is_given_by_the_role_that_was_chosen() {
    let mut spec = governed(routes);
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.reply(says("coding"));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(run.model_call().role, Role::CODING);
}

#[test]
fn nonsense_is_warned_of_and_the_rules_choice_serves() {
    let mut run = Script::start(governed(routes));
    run.reply(says("I would say: root"));
    assert_eq!(run.kinds()[2..], ["llm_call", "warning"]);
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn a_choice_that_fails_leaves_it_to_the_rules() {
    let mut run = Script::start(governed(routes));
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.kinds()[2..], ["llm_failed"]);
    assert_eq!(run.model_call().role, Role::REASONING);
    run.reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
}
