//! A model that is asked first which role serves, and the rules that apply if it fails.

use std::time::Duration;

use neuraxis_core::{
    Audience, BudgetKind, FinishReason, LlmErrorKind, Message, Purpose, Role, ToolChoice,
};

use crate::support::*;

#[test]
fn the_router_is_called_separately_unstreamed_and_without_tools() {
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
fn the_chosen_role_serves_and_the_routing_reply_stays_out_of_the_conversation() {
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
fn the_chosen_role_also_gives_the_last_answer() {
    let mut spec = governed(routes);
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.reply(says("coding"));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(run.model_call().role, Role::CODING);
}

#[test]
fn an_invalid_choice_causes_a_warning_and_the_default_role_serves() {
    let mut run = Script::start(governed(routes));
    run.reply(says("I would say: root"));
    assert_eq!(run.kinds()[2..], ["llm_call", "warning"]);
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn a_failed_choice_leaves_the_default_role() {
    let mut run = Script::start(governed(routes));
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.kinds()[2..], ["llm_failed"]);
    assert_eq!(run.model_call().role, Role::REASONING);
    run.reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
}

#[test]
fn the_router_sees_only_the_users_message() {
    let history = [Message::user("Hello."), Message::assistant("Hello!")];
    let run = Script::start_after(governed(routes), history.into_iter().collect());
    let messages = run.model_call().request.messages.messages();
    let texts: Vec<_> = messages.iter().map(|it| it.text()).collect();
    assert_eq!(texts, ["Which role?", "Please help."]);
}

#[test]
fn the_routing_call_does_not_count_toward_the_model_call_limit() {
    let mut spec = governed(routes);
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.reply(says("coding"));
    for turn in 0..3 {
        assert_eq!(run.model_call().purpose, Purpose::Turn);
        run.reply(another_call_to(NOTE, turn)).allow();
        run.finish(0, done("1"));
    }
    run.reply(says("So far."));
    let spent = FinishReason::Budget(BudgetKind::ModelCalls);
    assert_eq!(run.outcome().finish_reason, spent);
}

#[test]
fn no_routing_call_is_made_if_the_budget_is_insufficient() {
    let mut spec = governed(routes);
    spec.root.limits.max_tokens = Some(10);
    let run = Script::start(spec);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
}

#[test]
fn a_role_chosen_near_the_deadline_gives_the_last_answer() {
    let mut spec = governed(routes);
    spec.root.limits.deadline = Some(Duration::from_secs(10));
    let mut run = Script::start(spec);
    run.at(8_000).pass().reply(says("coding"));
    let call = run.model_call();
    assert_eq!(
        (call.purpose, &call.role),
        (Purpose::LastAnswer, &Role::CODING)
    );
}

#[test]
fn a_chosen_role_does_not_escalate_to_itself() {
    let mut run = Script::start(governed(|decision| {
        routes(decision);
        escalates(decision, 1, true);
    }));
    run.reply(says("coding"));
    run.fail_for(LlmErrorKind::Connection);
    assert_eq!(run.outcome().finish_reason, FinishReason::Clarify);
    run.assert_replays();
}
