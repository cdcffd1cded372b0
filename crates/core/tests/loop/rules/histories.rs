//! Rules 11 and 15: the history a run begins with, and the history for the next run or a fork.

use neuraxis_core::{
    AssistantMessage, Effect, FinishReason, Input, JsonText, Keep, Message, NextAttempt, Part,
    Purpose, RecordBody, RunTree, Stamp, ToolCall, ToolCallId, ToolMessage, Transcript, Turn,
    continued_history, forked_history,
};

use crate::support::*;

fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: ToolCallId::from_text(id),
        name: READ.into(),
        arguments: JsonText::from_text("{}"),
        provider_id: None,
        state: None,
    })
}

fn called(ids: &[&str]) -> Message {
    Message::Assistant(AssistantMessage {
        parts: ids.iter().map(|id| call(id)).collect(),
        model: None,
    })
}

fn result(id: &str) -> Message {
    Message::Tool(ToolMessage {
        tool_call_id: ToolCallId::from_text(id),
        name: READ.into(),
        content: JsonText::string(id),
        media: Vec::new(),
    })
}

fn history(messages: Vec<Message>) -> Transcript {
    messages.into_iter().collect()
}

/// A history with every possible defect.
fn broken() -> Transcript {
    history(vec![
        result("nobody"),
        Message::user("Hi."),
        called(&["b", "a", "b", "c"]),
        Message::user("Well?"),
        result("a"),
        result("b"),
        result("a"),
        called(&[]),
        Message::assistant("Done."),
    ])
}

fn repairs(run: &Script) -> Vec<String> {
    let repaired = run.records.iter().find_map(|record| match &record.body {
        RecordBody::HistoryRepaired(repaired) => Some(repaired.repairs.clone()),
        _ => None,
    });
    repaired.unwrap_or_default()
}

#[test]
fn a_broken_history_is_repaired_before_it_is_sent_and_the_repair_is_recorded() {
    let run = Script::start_after(spec(), broken());
    assert_eq!(run.just_recorded(), ["run_started", "history_repaired"]);
    assert_eq!(repairs(&run).len(), 6, "{:#?}", repairs(&run));
    let sent = run.model_call().request.messages.messages();
    assert_valid(sent);
    assert_eq!(sent.len(), 8);
    assert!(sent[4].text().contains("outcome is unknown"));
    assert_gives_back(&broken(), &run.records, &run.tree);
    assert_continues(&run, &broken());
}

#[test]
fn the_same_history_is_always_repaired_the_same_way() {
    let first = Script::start_after(spec(), broken());
    let second = Script::start_after(spec(), broken());
    assert_eq!(to_lines(&first.records), to_lines(&second.records));
    assert_eq!(first.tree.messages(), second.tree.messages());
}

#[test]
fn a_history_that_continues_a_repaired_one_needs_no_repair() {
    let mut run = Script::start_after(spec(), broken());
    run.reply(says("Blue."));
    let later = continued_history(&broken(), &run.records);
    let next = Script::start_after(spec(), later);
    assert_eq!(next.just_recorded(), ["run_started"]);
}

#[test]
fn a_complete_history_is_unchanged() {
    let whole = history(vec![
        Message::user("Hi."),
        called(&["a", "b"]),
        result("a"),
        result("b"),
    ]);
    let run = Script::start_after(spec(), whole.clone());
    assert_eq!(run.just_recorded(), ["run_started"]);
    assert_eq!(run.tree.messages()[..4], *whole.messages());
}

/// A run with calls, a failure, a steering message, and an answer.
fn long_run() -> Script {
    let mut run = Script::start(spec());
    let mut outcome = done("[1,2,3]");
    outcome.output.keep = Keep::Summary;
    outcome.output.summary = Some("numbers".to_owned());
    run.reply(calls("One.", &[(READ, "{}"), (SEND, "{}")]))
        .vet([reads(), asks()]);
    run.finish(0, outcome)
        .steer("Quick.")
        .decide(approve())
        .vet([asks()]);
    run.finish(1, failed("no network"));
    run.reply(calls_to(&[NOTE])).allow().finish(0, done("2"));
    run.reply(says("Blue."));
    run
}

#[test]
fn a_result_that_is_not_kept_leaves_its_summary_in_later_history() {
    let run = long_run();
    let later = continued_history(&Transcript::default(), &run.records);
    assert_eq!(run.tree.messages()[2].text(), "[1,2,3]");
    assert_eq!(later.messages()[2].text(), "\"numbers\"");
    assert_eq!(later.messages()[3..], run.tree.messages()[3..]);
    assert_continues(&run, &Transcript::default());
}

#[test]
fn the_system_prompt_of_an_agent_is_not_part_of_its_history() {
    let mut spec = spec();
    spec.root.system_prompt = Some("Be brief.".into());
    let mut run = Script::start(spec.clone());
    run.reply(says("Blue."));
    let later = continued_history(&Transcript::default(), &run.records);
    assert_eq!(later.messages(), &run.tree.messages()[1..]);
    let next = Script::start_after(spec, later);
    let prompts = next
        .tree
        .messages()
        .iter()
        .filter(|m| matches!(***m, Message::System { .. }));
    assert_eq!(prompts.count(), 1);
}

#[test]
fn a_log_truncated_anywhere_still_gives_a_history_to_continue_from() {
    let run = long_run();
    for end in 1..=run.records.len() {
        let later = continued_history(&Transcript::default(), &run.records[..end]);
        let (tree, step) = RunTree::start(
            spec(),
            later,
            Stamp::new(run.records[0].at, std::time::Duration::ZERO),
        );
        assert_valid(tree.messages());
        let [Effect::CallModel(call)] = &step.effects[..] else {
            panic!("a model call")
        };
        assert_eq!(call.request.messages.messages(), tree.messages());
    }
}

#[test]
fn a_fork_has_the_history_at_the_end_of_the_given_turn() {
    let run = long_run();
    let at = |turn: u32| forked_history(&Transcript::default(), &run.records, Turn(turn));
    assert_eq!(at(0).messages(), &run.tree.messages()[..1]);
    // The question, the reply, its two results, and the steering message.
    assert_eq!(at(1).len(), 5);
    assert_eq!(at(1).messages()[4], run.tree.messages()[4]);
    assert_eq!(at(2).len(), 7);
    assert_eq!(
        at(3),
        continued_history(&Transcript::default(), &run.records)
    );
    assert_eq!(at(99), at(3), "a turn it never came to");
}

#[test]
fn a_fork_includes_unread_messages_of_its_turn_but_not_of_later_ones() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run.steer("In German.").cancel();
    let at = |turn: u32| forked_history(&Transcript::default(), &run.records, Turn(turn));
    assert_eq!(at(1).messages(), &run.tree.messages()[..3]);
    assert_eq!(at(2).messages(), run.tree.messages());
    assert_eq!(at(2).last_user_text(), "In German.");
}

#[test]
fn a_fork_leaves_out_what_a_limit_added_to_the_turn() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls("One.", &[(READ, "{}")]))
        .allow()
        .finish(0, done("1"));
    let before = run.tree.messages()[..3].to_vec();
    run.reply(says("The end."));
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
    let forked = forked_history(&Transcript::default(), &run.records, Turn(1));
    assert_eq!(forked.messages(), before);
}

#[test]
fn a_fork_includes_an_answer_that_arrived_near_the_deadline() {
    let mut spec = spec();
    spec.root.limits.deadline = Some(std::time::Duration::from_secs(10));
    let mut run = Script::start(spec);
    run.at(8_000).send(Input::TimePassed).reply(says("Blue."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    let forked = forked_history(&Transcript::default(), &run.records, Turn(1));
    assert_eq!(forked.messages(), run.tree.messages());
}

#[test]
fn a_fork_marks_undecided_calls_as_not_run_and_keeps_other_results() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, SEND, SEND]))
        .vet([reads(), asks(), asks()])
        .finish(0, done("1"));
    let forked = forked_history(&Transcript::default(), &run.records, Turn(1));
    assert_eq!(forked.messages()[..2], run.tree.messages()[..2]);
    let results = forked.messages()[2..].iter().map(|it| it.text());
    let not_run = r#"{"error":"not run: the user has not decided about this call"}"#;
    assert_eq!(results.collect::<Vec<_>>(), ["1", not_run, not_run]);
}

#[test]
fn a_fork_ignores_the_records_of_sub_agents() {
    let mut run = Script::start(researching());
    run.reply(research(&["a"])).allow();
    run.reply_as(1, calls_to(&[READ]))
        .allow_as(1)
        .finish_as(1, 0, done("1"));
    run.reply_as(1, calls_to(&[NOTE]))
        .allow_as(1)
        .finish_as(1, 0, done("1"));
    run.reply_as(1, says("A.")).reply(says("Done."));
    let forked = forked_history(&Transcript::default(), &run.records, Turn(1));
    assert_eq!(forked.messages(), &run.tree.messages()[..3]);
}

#[test]
fn a_failed_run_leaves_a_history_to_continue_from() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run.fail_model(1, NextAttempt::None);
    assert_continues(&run, &Transcript::default());
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.fail_model(1, NextAttempt::None);
    assert_continues(&run, &Transcript::default());
}
