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
fn a_text_of_a_form_is_the_answer_once_nobody_minds_it() {
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
fn an_answer_that_is_turned_down_is_told_and_asked_for_again_so_often() {
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
fn an_answer_that_was_cut_off_is_asked_about_and_ends_as_cut_off_and_a_withheld_one_is_not() {
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
fn a_message_that_comes_while_an_answer_is_looked_at_is_answered_first() {
    let mut run = Script::start(held(1));
    run.reply(says("{}")).steer("And the river?");
    run.advise(Advice::Continue);
    assert_eq!(run.model_call().turn.0, 2);
    run.reply(says("{}")).advise(Advice::Continue);
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_restores(&run);
}

#[test]
fn a_message_that_comes_before_an_answer_is_delivered_is_answered_first() {
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
fn an_answer_that_is_delivered_in_the_last_turn_stands_although_a_message_came() {
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
fn an_answer_that_fits_no_form_for_good_ends_the_run_although_a_message_came() {
    let mut run = Script::start(delivering(0));
    run.steer("And the river?");
    run.reply(calls("", &[(NOTE, "{}")])).vet([invalid()]);
    assert_eq!(run.step.status, RunStatus::Failed);
    assert_restores(&run);
}

#[test]
fn a_hook_may_turn_answers_down_and_nothing_else() {
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
fn the_arguments_of_the_tool_that_delivers_are_the_answer() {
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
fn a_delivery_that_does_not_fit_is_an_error_for_the_model_so_often() {
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
fn texts_and_deliveries_that_are_turned_down_count_together() {
    let mut run = Script::start(delivering(1));
    run.reply(says("Delft.")).advise(turn_down());
    run.reply(calls("", &[(NOTE, "{}")])).vet([invalid()]);
    assert!(matches!(
        run.outcome().finish_reason,
        FinishReason::InvalidAnswer(_)
    ));
}

#[test]
fn a_delivery_counts_toward_no_limit_on_tool_calls() {
    let mut spec = delivering(1);
    spec.root.limits.max_tool_calls = Some(1);
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ, NOTE])).allow();
    run.finish(0, done("1")).finish(1, done("1"));
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
}

#[test]
fn an_answer_that_was_delivered_stands_although_a_limit_is_reached() {
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
fn an_answer_that_is_delivered_when_time_is_nearly_up_stands_and_nothing_else_runs() {
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
fn an_answer_that_is_still_looked_at_stands_when_time_is_up() {
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
fn where_no_tool_may_be_called_the_form_of_the_delivery_is_that_of_the_text() {
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
fn what_an_opening_gathers_has_no_form() {
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
fn a_delivery_in_doubt_is_made_again_after_a_crash() {
    let mut run = Script::start(delivering(1));
    run.reply(calls("", &[(NOTE, "{}")])).allow();
    run.resume_checking().vet([reads()]);
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("1"));
    assert_eq!(run.outcome().content, "{}");
    assert_restores(&run);
}

#[test]
fn unknown_tools_and_repeats_end_a_run_that_is_to_deliver_as_any_other() {
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
