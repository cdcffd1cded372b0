//! Answers with a form: checked before the agent ends, rejected a limited number of times, delivered by a tool.

use neuraxis_core::{
    Advice, AnswerRule, BudgetKind, FinishReason, Hook, Input, InputError, JsonText, Limits,
    Opening, PromptReason, Purpose, RecordBody, ReplyFinish, ReplyFormat, Role, RunSpec, RunStatus,
    ToolFailure, Transcript, Vetting,
};

use crate::support::*;

/// An agent that delivers its answer by taking a note.
fn delivering(retries: u32) -> RunSpec {
    let mut spec = spec();
    spec.root.answer = Some(AnswerRule::tool(NOTE.parse().unwrap(), retries));
    spec
}

/// An agent whose answer text has a form.
fn held(retries: u32) -> RunSpec {
    let mut spec = spec();
    spec.root.answer = Some(AnswerRule::text(retries));
    spec.root.reply_format = form();
    spec
}

fn form() -> ReplyFormat {
    ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(r#"{"type":"object"}"#),
    }
}

fn turn_down() -> Advice {
    Advice::TurnDown {
        message: "It has no city.".to_owned(),
    }
}

fn invalid() -> Vetting {
    Vetting::Invalid {
        message: "it has no city".to_owned(),
    }
}

fn assert_restores(run: &Script) {
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
    assert_tells_messages(&run.records, &run.tree, 0);
}

#[test]
fn a_text_with_a_required_format_is_the_answer_once_the_hook_accepts_it() {
    let mut run = Script::start(held(2));
    assert_eq!(run.model_call().request.reply_format, form());
    run.reply(says("{}"));
    let asked = run.consulted();
    assert_eq!(
        (asked.hook, asked.subject.as_str()),
        (Hook::Answer, r#"{"text":"{}","finish_reason":"stop"}"#)
    );
    run.advise(Advice::Continue);
    assert_eq!(
        (run.outcome().content.as_str(), run.outcome().turns),
        ("{}", 1)
    );
    assert_restores(&run);
}

#[test]
fn a_rejected_answer_is_requested_again_a_limited_number_of_times() {
    let mut run = Script::start(held(2));
    for turn in 2..4 {
        run.reply(says("no")).advise(turn_down());
        let RecordBody::PromptInjected(told) = &run.step.records[1].body else {
            panic!("{:?}", run.just_recorded())
        };
        assert_eq!(told.reason, PromptReason::AnswerAgain);
        assert_eq!(run.model_call().turn.0, turn);
        assert_restores(&run);
    }
    run.reply(says("no")).advise(turn_down());
    let outcome = run.outcome();
    assert_eq!(
        (outcome.status(), outcome.content.as_str()),
        (RunStatus::Failed, "no")
    );
    let why = "It has no city.".to_owned();
    assert_eq!(outcome.finish_reason, FinishReason::InvalidAnswer(why));
    assert_restores(&run);
}

#[test]
fn a_truncated_answer_is_shown_to_the_hook_and_a_filtered_one_is_not() {
    let cut = || ended(says("{"), ReplyFinish::Length);
    let mut run = Script::start(held(1));
    run.reply(cut());
    assert!(run.consulted().subject.as_str().contains("length"));
    run.advise(turn_down()).reply(cut()).advise(turn_down());
    assert_eq!(run.outcome().finish_reason, FinishReason::Length);

    let mut run = Script::start(held(1));
    run.reply(ended(says("I can't."), ReplyFinish::ContentFilter));
    assert_eq!(run.outcome().finish_reason, FinishReason::ContentFilter);
}

#[test]
fn a_message_that_arrives_while_an_answer_is_checked_is_answered_first() {
    let mut run = Script::start(held(1));
    run.reply(says("{}")).steer("And the river?");
    run.advise(Advice::Continue);
    assert_eq!(run.model_call().turn.0, 2);
    run.reply(says("{}")).advise(Advice::Continue);
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_restores(&run);
}

#[test]
fn a_message_that_arrives_before_an_answer_is_delivered_is_answered_first() {
    let mut run = Script::start(delivering(1));
    run.steer("And the river?");
    run.reply(calls("", &[(NOTE, r#"{"n":1}"#)])).allow();
    run.finish(0, done("1"));
    assert_eq!(run.model_call().turn.0, 2);
    let sent = run.model_call().request.messages.messages();
    assert!(sent[sent.len() - 2].text().contains("Answer again"));
    assert_eq!(sent[sent.len() - 1].text(), "And the river?");
    assert_restores(&run);
    run.reply(calls("", &[(NOTE, r#"{"n":2}"#)])).allow();
    run.finish(0, done("1"));
    assert_eq!(
        (run.outcome().content.as_str(), &run.outcome().finish_reason),
        (r#"{"n":2}"#, &FinishReason::Stop)
    );
    assert_restores(&run);
}

#[test]
fn an_answer_delivered_in_the_last_turn_is_final_despite_a_new_message() {
    let mut spec = spec();
    spec.root.answer = Some(AnswerRule::tool(READ.parse().unwrap(), 1));
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.steer("And the river?");
    run.reply(calls("", &[(READ, r#"{"n":1}"#)])).allow();
    run.finish(0, done("1"));
    assert_eq!(
        (run.outcome().content.as_str(), &run.outcome().finish_reason),
        (r#"{"n":1}"#, &FinishReason::Stop)
    );
    assert_restores(&run);
}

#[test]
fn a_permanently_invalid_answer_ends_the_run_despite_a_new_message() {
    let mut run = Script::start(delivering(0));
    run.steer("And the river?");
    run.reply(calls("", &[(NOTE, "{}")])).vet([invalid()]);
    assert_eq!(run.step.status, RunStatus::Failed);
    assert_restores(&run);
}

#[test]
fn a_hook_may_reject_only_answers() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.hooks = vec![Hook::Answer];
    }));
    for _ in 0..AnswerRule::RETRIES {
        run.reply(says("Blue.")).advise(turn_down());
    }
    run.reply(says("Blue.")).advise(turn_down());
    assert!(matches!(
        run.outcome().finish_reason,
        FinishReason::InvalidAnswer(_)
    ));

    let mut run = Script::start(spec_with_profile(|profile| {
        profile.hooks = vec![Hook::Progress];
    }));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    let effect = run.consulted().effect_id;
    let advised = run.advised(turn_down());
    assert_eq!(run.refused(advised), InputError::WrongAdvice(effect));
}

#[test]
fn the_arguments_of_the_delivering_tool_are_the_answer() {
    let mut run = Script::start(delivering(2));
    assert!(run.model_call().request.reply_format.is_text());
    let city = r#"{"city":"Delft"}"#;
    run.reply(calls("Here:", &[(NOTE, city)])).allow();
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done(r#"{"delivered":true}"#));
    let outcome = run.outcome();
    assert_eq!(
        (outcome.content.as_str(), &outcome.finish_reason),
        (city, &FinishReason::Stop)
    );
    assert_restores(&run);
}

#[test]
fn an_invalid_delivery_is_an_error_for_the_model_a_limited_number_of_times() {
    let mut run = Script::start(delivering(1));
    run.reply(calls("", &[(NOTE, r#"{"n":1}"#)]))
        .vet([invalid()]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::InvalidArguments));
    assert_eq!(run.model_call().turn.0, 2);
    run.reply(calls("", &[(NOTE, r#"{"n":2}"#)]))
        .vet([invalid()]);
    let outcome = run.outcome();
    assert_eq!(outcome.content, r#"{"n":2}"#);
    assert!(
        matches!(&outcome.finish_reason, FinishReason::InvalidAnswer(why) if why.contains("no city"))
    );
    assert_restores(&run);
}

#[test]
fn rejected_texts_and_deliveries_count_together() {
    let mut run = Script::start(delivering(1));
    run.reply(says("Delft.")).advise(turn_down());
    run.reply(calls("", &[(NOTE, "{}")])).vet([invalid()]);
    assert!(matches!(
        run.outcome().finish_reason,
        FinishReason::InvalidAnswer(_)
    ));
}

#[test]
fn a_delivery_does_not_count_toward_the_tool_call_limit() {
    let mut spec = delivering(1);
    spec.root.limits.max_tool_calls = Some(1);
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ, NOTE])).allow();
    run.finish(0, done("1")).finish(1, done("1"));
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
}

#[test]
fn a_delivered_answer_is_final_even_if_a_limit_is_reached() {
    let mut spec = delivering(1);
    spec.root.limits = Limits {
        deadline: Some(std::time::Duration::from_secs(10)),
        ..spec.root.limits
    };
    let mut run = Script::start(spec);
    run.reply(calls("", &[(NOTE, "{}"), (SEND, "{}")])).allow();
    run.finish(0, done("1"));
    run.at(8_000).send(Input::TimePassed);
    assert_eq!(run.outcome().content, "{}");
    assert_restores(&run);
}

#[test]
fn an_answer_delivered_near_the_deadline_is_final_and_no_other_call_runs() {
    let mut spec = delivering(1);
    spec.root.limits.deadline = Some(std::time::Duration::from_secs(10));
    let mut run = Script::start(spec.clone());
    run.at(8_000).pass();
    run.reply(calls("", &[(SEND, "{}"), (NOTE, "{}")]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
    run.allow();
    assert_eq!(run.just_started(), [1]);
    run.finish(1, done("1"));
    assert_eq!(
        (run.outcome().content.as_str(), &run.outcome().finish_reason),
        ("{}", &FinishReason::Stop)
    );
    assert_restores(&run);

    // An invalid one gives way to the last answer.
    let mut run = Script::start(spec.clone());
    run.at(8_000).pass();
    run.reply(calls("", &[(NOTE, "{}")])).vet([invalid()]);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_restores(&run);

    // One that came too late and was not on offer is refused once.
    spec.root.profile.hooks = vec![Hook::ToolsSelected];
    let mut run = Script::start(spec);
    let tools = vec![READ.parse().unwrap()];
    run.advise(Advice::Offer { tools }).at(8_000).pass();
    run.reply(calls("", &[(SEND, "{}"), (NOTE, "{}")])).allow();
    assert_eq!(run.recorded("tool_result").len(), 1);
}

#[test]
fn an_answer_still_being_checked_is_final_at_the_deadline() {
    for now in [8_000, 10_000] {
        let mut spec = held(1);
        spec.root.limits.deadline = Some(std::time::Duration::from_secs(10));
        let mut run = Script::start(spec);
        run.reply(says("{}")).at(now).send(Input::TimePassed);
        assert_eq!(run.just_recorded(), ["limit_reached", "final"]);
        let outcome = run.outcome();
        assert_eq!(
            (outcome.content.as_str(), &outcome.finish_reason),
            ("{}", &FinishReason::Stop)
        );
        let late = run.advised(turn_down());
        run.send_in_vain(late);
        assert_restores(&run);
    }
}

#[test]
fn without_tool_calls_the_format_of_the_delivery_applies_to_the_text() {
    let mut spec = delivering(1);
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    let call = run.model_call();
    assert_eq!(call.purpose, Purpose::LastAnswer);
    let format = ReplyFormat::JsonSchema {
        name: NOTE.into(),
        schema: JsonText::from_text(r#"{"type":"object"}"#),
    };
    assert_eq!(call.request.reply_format, format);
    // A model that delivers anyway has answered.
    run.reply(calls("", &[(NOTE, r#"{"n":1}"#)]));
    assert_eq!(
        (run.outcome().content.as_str(), &run.outcome().finish_reason),
        (r#"{"n":1}"#, &FinishReason::MaxTurns)
    );
    assert_restores(&run);
}

#[test]
fn a_gathering_opening_has_no_required_format() {
    let mut spec = held(1);
    spec.root.profile.opening = Opening::Gather {
        role: Role::ROUTER,
        tool: READ.parse().unwrap(),
        default_arguments: JsonText::from_text("{}"),
    };
    let mut run = Script::start(spec);
    assert!(run.model_call().request.reply_format.is_text());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().request.reply_format, form());
}

#[test]
fn a_delivery_in_doubt_is_repeated_after_a_crash() {
    let mut run = Script::start(delivering(1));
    run.reply(calls("", &[(NOTE, "{}")])).allow();
    run.resume_checking().vet([reads()]);
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("1"));
    assert_eq!(run.outcome().content, "{}");
    assert_restores(&run);
}

#[test]
fn repeated_calls_end_a_delivering_run_like_any_other() {
    let mut run = Script::start(delivering(9));
    for _ in 0..2 {
        run.reply(calls("", &[(NOTE, "{}")])).vet([invalid()]);
    }
    run.reply(calls("", &[(NOTE, "{}")]));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("{}"));
    let repeated = FinishReason::Budget(BudgetKind::RepeatedCalls);
    assert_eq!(run.outcome().finish_reason, repeated);
}
