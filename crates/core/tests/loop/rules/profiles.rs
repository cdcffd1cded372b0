//! The settings of a profile, tested one by one.

use neuraxis_core::{
    Arguments, FinishReason, Input, JsonText, Keep, Message, NoCalls, Offer, PromptReason, Purpose,
    RecordBody, ResultRule, Role, RunStatus, ToolChoice, ToolFailure, ToolOutcome, ToolSignal,
    Transcript, continued_history,
};

use crate::support::*;

fn rule(tool: &str, change: impl FnOnce(&mut ResultRule)) -> ResultRule {
    let mut rule = ResultRule::new(tool.parse().unwrap());
    change(&mut rule);
    rule
}

fn ruled(rule: ResultRule) -> Script {
    Script::start(spec_with_profile(|profile| profile.results = vec![rule]))
}

fn told(run: &Script) -> Vec<PromptReason> {
    let told = run
        .step
        .records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::PromptInjected(told) => Some(told.reason),
            _ => None,
        });
    told.collect()
}

fn assert_told(run: &Script) {
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
    assert_tells_messages(&run.records, &run.tree, 0);
}

#[test]
fn an_agent_that_must_call_a_tool_is_reminded_a_limited_number_of_times() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.no_calls = NoCalls::Remind {
            prompt: "Call send_mail.".to_owned(),
            at_most: 2,
        };
    }));
    for turn in 2..4 {
        run.reply(says("I think so."));
        assert_eq!(told(&run), [PromptReason::NoCalls]);
        assert_eq!(run.model_call().turn.0, turn);
        let sent = run.model_call().request.messages.messages();
        assert_eq!(**sent.last().unwrap(), Message::system("Call send_mail."));
        assert_told(&run);
    }
    run.reply(says("It is done."));
    assert_eq!(
        run.outcome().content,
        "It is done.",
        "then the text is the answer"
    );
    assert_eq!(run.outcome().turns, 3);
    assert_told(&run);
}

#[test]
fn no_reminder_is_sent_if_tools_may_not_be_called() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.offer = Offer::Never;
        profile.no_calls = NoCalls::Remind {
            prompt: "Call send_mail.".to_owned(),
            at_most: 2,
        };
    }));
    run.reply(says("Blue."));
    assert_eq!(run.outcome().content, "Blue.");
}

#[test]
fn reminders_count_as_turns() {
    let mut spec = spec_with_limits(|limits| limits.max_turns = Some(1));
    spec.root.profile.no_calls = NoCalls::Remind {
        prompt: "Call send_mail.".to_owned(),
        at_most: 9,
    };
    let mut run = Script::start(spec);
    run.reply(says("Hm."));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_told(&run);
}

#[test]
fn tools_are_offered_always_never_or_only_in_the_first_turns() {
    let mut run = Script::start(spec_with_profile(|profile| profile.offer = Offer::Never));
    assert_eq!(run.model_call().request.tools.len(), 0);
    assert_eq!(run.model_call().request.tool_choice, ToolChoice::None);
    run.reply(calls_to(&[READ]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));

    let mut run = Script::start(spec_with_profile(|profile| {
        profile.offer = Offer::FirstTurns(1);
    }));
    assert_eq!(run.model_call().request.tool_choice, ToolChoice::Auto);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    let request = &run.model_call().request;
    assert_eq!(
        request.tools.len(),
        tools().len(),
        "shown, for the cached prefix"
    );
    assert_eq!(request.tool_choice, ToolChoice::None);
    run.reply(calls_to(&[READ]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert!(run.result(0).value.as_str().contains("TOOL_NOT_ENABLED"));
}

#[test]
fn first_and_later_turns_may_have_their_own_roles() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.roles.first = Some(Role::ROUTER);
        profile.roles.after_calls = Some(Role::CODING);
    }));
    assert_eq!(run.model_call().role, Role::ROUTER);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().role, Role::CODING);
    let run = Script::start(spec());
    assert_eq!(run.model_call().role, Role::REASONING);
}

#[test]
fn the_result_of_a_stopping_tool_is_the_answer() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.stop_after = vec![SEND.parse().unwrap()];
    }));
    run.reply(calls_to(&[READ, SEND]))
        .allow()
        .finish(0, done("1"));
    run.finish(1, done(r#""It is sent.""#));
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_eq!(run.outcome().content, "It is sent.");
    assert_valid(run.tree.messages());
}

#[test]
fn a_failed_call_of_a_stopping_tool_does_not_end_the_run() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.stop_after = vec![SEND.parse().unwrap()];
    }));
    run.reply(calls_to(&[SEND]))
        .allow()
        .finish(0, failed("no network"));
    assert_eq!(run.model_call().turn.0, 2);
}

#[test]
fn a_sub_agent_answer_can_be_the_answer_and_follows_result_rules() {
    let mut spec = researching();
    spec.root.profile.stop_after = vec![RESEARCH.parse().unwrap()];
    researcher(&mut spec).fan_out = None;
    let mut run = Script::start(spec);
    run.reply(calls_to(&[RESEARCH]))
        .allow()
        .reply_as(1, says("It is cheap."));
    assert_eq!(run.outcome().content, "It is cheap.");

    let mut spec = researching();
    spec.root.profile.results = vec![rule(RESEARCH, |rule| {
        rule.keep = Some(Keep::Summary);
        rule.then = Some(ToolChoice::Required);
        rule.note = Some("Cite it.".to_owned());
    })];
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow().reply_as(1, says("A."));
    assert_eq!(told(&run), [PromptReason::ResultRule]);
    assert_eq!(run.model_call().request.tool_choice, ToolChoice::Required);
    run.reply(says("Done."));
    assert_told(&run);
}

#[test]
fn a_model_reads_part_of_a_long_result_and_the_record_holds_all_of_it() {
    let mut run = ruled(rule(READ, |rule| rule.max_chars = Some(4)));
    run.reply(calls_to(&[READ, NOTE])).allow();
    run.finish(0, done(r#""abcdefgh""#))
        .finish(1, done(r#""abcdefgh""#));
    assert_eq!(
        run.tool_messages(),
        [r#""\"abc… [cut: 10 characters in all]""#, r#""abcdefgh""#]
    );
    assert_eq!(run.result(0).value.as_str(), r#""abcdefgh""#);
    assert_told(&run);
}

#[test]
fn an_error_is_never_edited() {
    let mut run = ruled(rule(READ, |rule| rule.max_chars = Some(4)));
    run.reply(calls_to(&[READ]))
        .allow()
        .finish(0, failed("no such file"));
    assert_eq!(run.tool_messages(), [r#"{"error":"no such file"}"#]);
    assert_told(&run);
}

#[test]
fn a_result_rule_may_keep_a_result_in_or_out_of_later_history() {
    let left = |keep: Option<Keep>, says: Keep| {
        let mut run = ruled(rule(READ, |rule| rule.keep = keep));
        let mut outcome = done("[1,2,3]");
        outcome.output.keep = says;
        outcome.output.summary = Some("three numbers".to_owned());
        run.reply(calls_to(&[READ])).allow().finish(0, outcome);
        assert_eq!(run.tool_messages(), ["[1,2,3]"], "this run reads it");
        run.reply(says_blue());
        let later = continued_history(&Transcript::default(), &run.records);
        later.messages()[2].text()
    };
    assert_eq!(left(None, Keep::Result), "[1,2,3]");
    assert_eq!(left(None, Keep::Summary), "\"three numbers\"");
    assert_eq!(left(Some(Keep::Summary), Keep::Result), "\"three numbers\"");
    assert_eq!(left(Some(Keep::Result), Keep::Summary), "[1,2,3]");
}

fn says_blue() -> neuraxis_core::Reply {
    says("Blue.")
}

#[test]
fn a_result_rule_forces_the_next_tool_choice_and_adds_a_note() {
    let send = ToolChoice::Named(SEND.parse().unwrap());
    let mut run = ruled(rule(READ, |rule| {
        rule.then = Some(send.clone());
        rule.note = Some("Send it on.".to_owned());
    }));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(told(&run), [PromptReason::ResultRule]);
    assert_eq!(run.model_call().request.tool_choice, send);
    run.reply(calls_to(&[SEND])).allow().finish(0, done("2"));
    assert_eq!(run.model_call().request.tool_choice, ToolChoice::Auto);
    assert_told(&run);
}

#[test]
fn lenient_arguments_are_corrected_before_the_check_but_not_in_the_history() {
    let written = "```json\n{\"path\":\"a\"}\n```";
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.arguments = Arguments::Lenient;
    }));
    run.reply(calls("", &[(READ, written), (READ, "")]));
    let checked: Vec<_> = run
        .to_vet()
        .calls
        .iter()
        .map(|call| call.arguments.as_str())
        .collect();
    assert_eq!(checked, [r#"{"path":"a"}"#, "{}"]);
    run.allow();
    assert_eq!(run.started(0).arguments.as_str(), r#"{"path":"a"}"#);
    assert_eq!(
        run.started(0).arguments_hash,
        JsonText::from_text(r#"{"path":"a"}"#).hash()
    );
    let said: Vec<_> = run.tree.messages()[1]
        .tool_calls()
        .map(|call| call.arguments.as_str())
        .collect();
    assert_eq!(said, [written, ""]);
    assert_told(&run);

    let mut run = Script::start(spec());
    run.reply(calls("", &[(READ, written)]));
    assert_eq!(run.to_vet().calls[0].arguments.as_str(), written);
}

#[test]
fn a_turn_with_more_than_two_results_is_followed_by_a_digest_prompt() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ]))
        .allow()
        .finish(0, done("1"))
        .finish(1, done("2"));
    assert_eq!(told(&run), []);
    run.reply(calls_to(&[PUT, NOTE, SEND])).allow();
    run.finish(0, done("1"))
        .finish(1, done("2"))
        .finish(2, failed("no"));
    assert_eq!(told(&run), [PromptReason::DigestResults]);
    assert!(matches!(
        &**run.tree.messages().last().unwrap(),
        Message::System { .. }
    ));
    assert_told(&run);
}

#[test]
fn digesting_is_configurable_and_skipped_for_a_last_answer() {
    let three = |mut run: Script| {
        run.reply(calls_to(&[READ, READ, READ])).allow();
        run.finish(0, done("1"))
            .finish(1, done("2"))
            .finish(2, done("3"));
        told(&run).len()
    };
    assert_eq!(
        three(Script::start(spec_with_profile(|p| p.digest_after = None))),
        0
    );
    assert_eq!(
        three(Script::start(spec_with_profile(
            |p| p.digest_after = Some(3)
        ))),
        0
    );
    let mut spec = spec();
    spec.root.limits.deadline = Some(std::time::Duration::from_secs(10));
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ, READ, READ])).allow();
    run.at(8_000).send(Input::TimePassed);
    assert_eq!(told(&run), []);
}

#[test]
fn a_steered_message_follows_the_prompts_of_the_loop() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ, READ]))
        .allow()
        .steer("Quick.");
    run.finish(0, done("1"))
        .finish(1, done("2"))
        .finish(2, done("3"));
    let messages = run.tree.messages();
    assert_eq!(*messages[messages.len() - 1], Message::user("Quick."));
    assert!(matches!(
        *messages[messages.len() - 2],
        Message::System { .. }
    ));
    assert_told(&run);
}

#[test]
fn a_tool_that_needs_clarification_ends_the_run_with_its_question() {
    let question = || -> ToolOutcome {
        let mut outcome = done("\"asked\"");
        outcome.output.signal = Some(ToolSignal::Clarify {
            question: "Which color?".to_owned(),
        });
        outcome
    };
    let mut run = Script::start(spec());
    run.reply(calls("One moment.", &[(NOTE, "{}"), (READ, "{}")]))
        .allow();
    run.finish(0, question());
    assert_eq!(run.step.status, RunStatus::Running, "the batch ends first");
    run.finish(1, done("1"));
    assert_eq!(run.outcome().finish_reason, FinishReason::Clarify);
    assert_eq!(run.outcome().content, "Which color?");
    assert_eq!(run.step.status, RunStatus::Done);
    assert_valid(run.tree.messages());
    assert_told(&run);
}

#[test]
fn a_clarifying_question_of_a_sub_agent_is_its_answer() {
    let mut run = Script::start(researching());
    run.reply(research(&["a"])).allow();
    run.reply_as(1, calls_to(&[NOTE])).allow_as(1);
    let mut outcome = done("null");
    outcome.output.signal = Some(ToolSignal::Clarify {
        question: "Which cells?".to_owned(),
    });
    run.finish_as(1, 0, outcome);
    assert_eq!(run.answer_of(1).finish_reason, FinishReason::Clarify);
    assert_eq!(run.tool_messages(), [r#"["Which cells?"]"#]);
}
