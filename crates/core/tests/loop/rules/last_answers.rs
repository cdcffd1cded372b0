//! Rule 6: the turn limit ends with one more model call that may not use tools.

use neuraxis_core::{
    Effect, FinishReason, JsonText, LimitReached, LlmCall, MAX_TURNS_PROMPT, Message, NextAttempt,
    Opening, Purpose, RecordBody, Reply, ReplyFinish, Role, RunStatus, ToolChoice,
};

use crate::support::*;

/// A run whose only turn called a tool and produced text, so that its last answer is requested.
fn at_the_limit() -> Script {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls("The file is short.", &[(READ, "{}")]));
    run.allow().finish(0, done("1"));
    run
}

/// Like [`at_the_limit`], but the model has produced no text.
fn at_the_limit_without_text() -> Script {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run
}

fn markup() -> Reply {
    says("<tool_call>\n{\"name\": \"read_file\", \"arguments\": {}}\n</tool_call>")
}

fn last_call(run: &Script) -> &LlmCall {
    let mut calls = run.records.iter().filter_map(|record| match &record.body {
        RecordBody::LlmCall(call) => Some(&**call),
        _ => None,
    });
    calls.next_back().unwrap()
}

#[test]
fn the_turn_limit_is_recorded_with_turns_and_text_after_the_results() {
    let run = at_the_limit();
    assert_eq!(
        run.just_recorded(),
        [
            "tool_result",
            "max_turns_reached",
            "max_turns_prompt_injected"
        ]
    );
    let RecordBody::MaxTurnsReached(reached) = &run.step.records[1].body else {
        panic!("the limit is on record")
    };
    assert_eq!(
        (reached.turns, reached.content.as_str()),
        (1, "The file is short.")
    );
    let RecordBody::MaxTurnsPromptInjected(injected) = &run.step.records[2].body else {
        panic!("the prompt is on record")
    };
    assert_eq!(injected.message, MAX_TURNS_PROMPT);
}

#[test]
fn the_turn_limit_prompt_is_a_system_message_with_the_exact_text() {
    let run = at_the_limit();
    let text = "You have reached the maximum number of turns. Please provide an answer based on the \
                information you have gathered so far.";
    let sent = run.model_call().request.messages.messages();
    assert_eq!(**sent.last().unwrap(), Message::system(text));
    assert!(matches!(&*sent[sent.len() - 2], Message::Tool(_)));
}

#[test]
fn the_last_answer_keeps_the_tool_definitions_but_may_not_call_them() {
    let run = at_the_limit();
    let call = run.model_call();
    assert_eq!(call.purpose, Purpose::LastAnswer);
    assert_eq!(call.role, Role::REASONING);
    assert_eq!(*call.request.tools, *tools());
    assert_eq!(call.request.tool_choice, ToolChoice::None);
}

#[test]
fn the_last_answer_is_recorded_counts_as_no_turn_and_ends_the_run() {
    let mut run = at_the_limit();
    run.reply(says("All is well."));
    assert_eq!(run.just_recorded(), ["llm_call", "final"]);
    assert_eq!(last_call(&run).purpose, Purpose::LastAnswer);
    assert_eq!(run.step.records[0].turn.0, 1);
    assert_eq!(run.outcome().content, "All is well.");
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
    assert_eq!(run.outcome().turns, 1);
    assert_eq!(run.step.status, RunStatus::Done);
    insta::assert_snapshot!(run.conversation(), @"
    user: Please help.
    assistant: The file is short. [read_file {}]
    tool: 1
    system: You have reached the maximum number of turns. Please provide an answer based on the information you have gathered so far.
    assistant: All is well.
    ");
}

#[test]
fn an_answer_in_the_last_turn_needs_no_last_answer() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(says("Blue."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_eq!(run.just_recorded(), ["llm_call", "final"]);
}

#[test]
fn the_default_limit_is_ten_turns() {
    let mut run = Script::start(spec());
    for turn in 0..10 {
        assert_eq!(run.model_call().purpose, Purpose::Turn);
        run.reply(another_call_to(READ, turn))
            .allow()
            .finish(0, done("1"));
    }
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
}

#[test]
fn calls_next_to_the_text_of_a_last_answer_are_dropped() {
    let mut run = at_the_limit();
    run.reply(calls("All is well.", &[(SEND, "{}")]));
    assert_eq!(run.just_recorded(), ["llm_call", "final"]);
    assert_eq!(run.outcome().content, "All is well.");
    assert_valid(run.tree.messages());
}

#[test]
fn a_last_answer_with_only_calls_is_requested_again_without_tools() {
    for useless in [calls_to(&[READ]), markup()] {
        let mut run = at_the_limit();
        let sent = run.model_call().request.messages.clone();
        run.reply(useless);
        assert_eq!(run.just_recorded(), ["llm_call"]);
        let retry = run.model_call();
        assert_eq!(retry.purpose, Purpose::LastAnswer);
        assert!(retry.request.tools.is_empty());
        assert_eq!(retry.request.messages, sent, "the useless reply is dropped");
        run.reply(says("All is well."));
        assert_eq!(run.outcome().content, "All is well.");
        assert_valid(run.tree.messages());
    }
}

#[test]
fn after_two_useless_last_answers_the_text_so_far_is_the_answer() {
    let mut run = at_the_limit();
    run.reply(calls_to(&[READ])).reply(markup());
    assert_eq!(run.outcome().content, "The file is short.");
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
    assert_eq!(run.step.status, RunStatus::Done);
}

#[test]
fn without_any_text_a_sentence_names_the_limit() {
    let mut run = at_the_limit_without_text();
    run.reply(markup()).reply(calls_to(&[READ]));
    insta::assert_snapshot!(run.outcome().content, @"I reached the maximum number of turns before I could answer. Ask me to continue, or ask for less at once.");
    let last = run.tree.messages().last().unwrap();
    assert_eq!(last.text(), run.outcome().content);
}

#[test]
fn a_last_answer_that_fails_leaves_the_text_so_far_and_the_error_on_record() {
    let mut run = at_the_limit();
    run.fail_model(1, NextAttempt::None);
    assert_eq!(run.just_recorded(), ["llm_failed", "final"]);
    assert_eq!(run.outcome().content, "The file is short.");
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
    assert_eq!(run.step.status, RunStatus::Done);
}

#[test]
fn a_last_answer_whose_retry_fails_leaves_the_text_so_far() {
    let mut run = at_the_limit();
    run.reply(markup()).fail_model(1, NextAttempt::None);
    assert_eq!(run.outcome().content, "The file is short.");
}

#[test]
fn an_empty_last_answer_leaves_the_text_so_far() {
    for empty in ["", " \n"] {
        let mut run = at_the_limit();
        run.reply(says(empty));
        assert_eq!(run.just_recorded(), ["llm_call", "final"]);
        assert_eq!(run.outcome().content, "The file is short.");
    }
}

#[test]
fn a_last_answer_cut_off_at_its_length_is_still_the_answer() {
    let mut run = at_the_limit();
    run.reply(ended(says("All is"), ReplyFinish::Length));
    assert_eq!(run.outcome().content, "All is");
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
}

#[test]
fn a_retry_cycle_completes_before_the_limit_ends_the_run() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.fail_model(1, NextAttempt::Follows);
    run.reply(calls_to(&[SEND])).vet([asks()]);
    run.decide(approve_with("{\"to\":\"bob\"}")).vet([writes()]);
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
}

#[test]
fn the_text_so_far_contains_the_text_of_all_turns() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(2)));
    run.reply(calls("First.", &[(READ, "{}")])).allow();
    run.finish(0, done("1"));
    run.reply(calls("Second.", &[(READ, "{}")])).allow();
    run.finish(0, done("2")).reply(says(""));
    assert_eq!(run.outcome().content, "First.\n\nSecond.");
}

#[test]
fn a_profile_may_end_at_the_limit_with_the_text_so_far_instead() {
    let mut spec = spec_with_limits(|limits| limits.max_turns = Some(1));
    spec.root.profile.limit_reached = LimitReached::Finish;
    let mut run = Script::start(spec);
    run.reply(calls("The file is short.", &[(READ, "{}")]));
    run.allow().finish(0, done("1"));
    assert_eq!(
        run.just_recorded(),
        ["tool_result", "max_turns_reached", "final"]
    );
    assert!(matches!(&run.step.effects[..], [Effect::Finish(_)]));
    assert_eq!(run.outcome().content, "The file is short.");
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
}

#[test]
fn a_gathering_run_offers_no_tools_in_its_last_answer() {
    let mut spec = spec_with_limits(|limits| limits.max_turns = Some(1));
    spec.root.profile.opening = Opening::Gather {
        role: Role::ROUTER,
        tool: READ.parse().unwrap(),
        default_arguments: JsonText::from_text("{}"),
    };
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert!(run.model_call().request.tools.is_empty());
}
