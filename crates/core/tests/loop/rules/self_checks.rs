//! Drafts that a model checks before they become the answer.

use neuraxis_core::{
    Audience, Effect, FinishReason, JsonText, LlmErrorKind, Purpose, ReplyFinish, ReplyFormat,
    Role, RunSpec, ToolChoice,
};

use crate::support::*;

fn checked(text: &str) -> Script {
    let mut run = Script::start(governed(checks));
    run.reply(says(text));
    run
}

#[test]
fn a_draft_is_hidden_and_checked_unstreamed_with_the_whole_conversation() {
    let mut run = Script::start(governed(checks));
    assert_eq!(run.model_call().audience, Audience::Component);
    run.reply(says("Blue."));
    let call = run.model_call();
    assert_eq!(
        (call.purpose, &call.role),
        (Purpose::SelfCheck, &Role::ROUTER)
    );
    assert_eq!(call.audience, Audience::Component);
    assert_eq!(call.request.tool_choice, ToolChoice::None);
    let texts: Vec<_> = call
        .request
        .messages
        .messages()
        .iter()
        .map(|it| it.text())
        .collect();
    assert_eq!(texts, ["Please help.", "Blue.", "Check it."]);
}

#[test]
fn an_accepted_draft_is_the_answer() {
    let mut run = checked("Blue.");
    run.reply(says("ACCEPT"));
    assert_eq!(
        run.kinds()[2..],
        ["llm_call", "llm_call", "summary", "final"]
    );
    assert_eq!(run.outcome().content, "Blue.");
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_eq!(run.outcome().turns, 1, "a check is no turn");
    run.assert_replays();
}

#[test]
fn a_correction_replaces_the_draft_in_answer_and_history() {
    let mut run = checked("Blue.");
    run.reply(says("Red."));
    assert_eq!(run.outcome().content, "Red.");
    insta::assert_snapshot!(run.conversation(), @r"
    user: Please help.
    assistant: Red.
    ");
    assert_tells_messages(&run.records, &run.tree, 0);
    run.assert_replays();
}

#[test]
fn a_failed_empty_or_truncated_check_accepts_the_draft() {
    let mut failed = checked("Blue.");
    failed.fail_for(LlmErrorKind::Timeout);
    assert_eq!(failed.outcome().content, "Blue.");
    assert_eq!(failed.kinds()[3..], ["llm_failed", "final"]);
    let mut cut = says("Perhaps it is");
    cut.finish = ReplyFinish::Length;
    for reply in [
        says(" "),
        calls_to(&[READ]),
        cut,
        says("<tool_call>{}</tool_call>"),
    ] {
        let mut run = checked("Blue.");
        run.reply(reply);
        assert_eq!(run.outcome().content, "Blue.");
    }
}

#[test]
fn only_drafts_are_checked_not_calls_last_answers_or_formatted_answers() {
    let mut run = Script::start(governed(checks));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    let mut spec = governed(checks);
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run.reply(says("So far."));
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
    let mut spec = governed(checks);
    spec.root.reply_format = ReplyFormat::JsonSchema {
        name: "color".into(),
        schema: JsonText::from_text("{}"),
    };
    let mut run = Script::start(spec);
    assert_eq!(run.model_call().audience, Audience::Person);
    run.reply(says("{\"color\":\"blue\"}"));
    assert_eq!(run.outcome().content, "{\"color\":\"blue\"}");
}

#[test]
fn a_truncated_answer_is_not_a_draft_and_has_its_own_finish_reason() {
    for (finish, reason) in [
        (ReplyFinish::Length, FinishReason::Length),
        (ReplyFinish::ContentFilter, FinishReason::ContentFilter),
    ] {
        let mut run = Script::start(governed(checks));
        run.reply(ended(says("Bl"), finish));
        assert_eq!(run.outcome().finish_reason, reason);
    }
}

#[test]
fn the_answer_of_a_sub_agent_is_not_checked() {
    let mut spec = researching();
    spec.decision = Some(decided(checks).into());
    let mut run = Script::start(spec);
    run.reply(research(&["sky"])).allow();
    run.reply_as(1, says("Blue."));
    assert_eq!(run.answer_of(1).content, "Blue.");
    assert_eq!(run.call_of(0).purpose, Purpose::Turn);
    run.reply(says("Blue it is."));
    assert_eq!(run.model_call().purpose, Purpose::SelfCheck);
}

#[test]
fn a_message_sent_during_the_check_is_answered_before_the_run_ends() {
    let mut run = checked("Blue.");
    run.steer("And green?").reply(says("ACCEPT"));
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    insta::assert_snapshot!(run.conversation(), @r"
    user: Please help.
    assistant: Blue.
    user: And green?
    ");
    assert_tells_messages(&run.records, &run.tree, 0);
}

fn in_time() -> RunSpec {
    let mut spec = governed(checks);
    spec.root.limits.deadline = Some(std::time::Duration::from_secs(10));
    spec
}

#[test]
fn near_the_deadline_the_draft_is_the_answer() {
    for now in [8_000, 10_000] {
        let mut run = Script::start(in_time());
        run.reply(says("Blue.")).at(now).pass();
        assert_eq!(run.outcome().content, "Blue.");
        assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
        let stops = |effect: &Effect| matches!(effect, Effect::CancelModel(_));
        assert!(run.step.effects.iter().any(stops), "nobody waits for it");
        assert_tells_messages(&run.records, &run.tree, 0);
    }
}

#[test]
fn an_answer_that_arrives_near_the_deadline_is_not_checked() {
    let mut run = Script::start(in_time());
    run.at(8_000).pass().reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
}

#[test]
fn an_insufficient_budget_for_the_check_accepts_the_draft_with_a_warning() {
    let mut spec = governed(checks);
    // Enough for the turn and its reserve, but not for another call.
    spec.root.limits.max_cost = Some(neuraxis_core::MicroUsd(20));
    let mut run = Script::start(spec);
    let mut reply = run.replied(says("Blue."));
    if let neuraxis_core::Input::ModelReplied(reply) = &mut reply {
        reply.cost = Some(neuraxis_core::MicroUsd(10));
    }
    run.send(reply);
    assert_eq!(run.kinds()[2..], ["llm_call", "warning", "final"]);
    assert_eq!(run.outcome().content, "Blue.");
}
