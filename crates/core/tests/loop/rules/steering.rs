//! Rule 16: a message for a run at work.

use std::sync::Arc;

use neuraxis_core::{
    BudgetKind, Cancelled, FinishReason, Input, InputError, InputId, Interruption, LimitReached,
    LogEnd, Message, Purpose, RecordBody, RunStatus, RunTree, Steered, ToolSignal, Transcript,
    closing_records, continued_history,
};

use crate::support::*;

#[test]
fn a_steered_message_joins_after_the_current_tool_batch() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ])).allow();
    run.steer("Only the first one.");
    assert_eq!(run.just_recorded(), ["steered"]);
    assert_eq!(run.step.effects, []);
    run.finish(0, done("0")).finish(1, done("1"));
    insta::assert_snapshot!(run.conversation(), @"
    user: Please help.
    assistant:  [read_file {}] [read_file {}]
    tool: 0
    tool: 1
    user: Only the first one.
    ");
    assert_eq!(
        run.model_call().request.messages.messages(),
        run.tree.messages()
    );
}

#[test]
fn who_sent_something_is_on_record_and_where_nobody_is_known_nothing_is() {
    let mut run = Script::start(spec());
    let ada = || Some("ada, over HTTP".to_owned());
    run.steer("One.");
    let (id, message) = (run.new_id(), Arc::new(Message::user("Two.")));
    run.send(Input::Steered(Steered::new(id, message).by(ada())));
    let id = run.new_id();
    run.send(Input::Cancelled(Cancelled::new(id, "enough").by(ada())));
    let lines: Vec<String> = run.records.iter().map(|record| record.to_json()).collect();
    let sent = lines.iter().filter(|line| {
        line.contains(r#""type":"steered""#) || line.contains(r#""type":"cancelled""#)
    });
    let named = r#""by":"ada, over HTTP""#;
    let named: Vec<bool> = sent.map(|line| line.contains(named)).collect();
    assert_eq!(named, [false, true, true]);
    assert!(!lines.iter().any(|line| line.contains(r#""by":null"#)));
}

#[test]
fn steered_messages_join_in_the_order_they_arrived() {
    let mut run = Script::start(spec());
    run.steer("One.").steer("Two.");
    run.reply(calls_to(&[READ])).allow().steer("Three.");
    run.finish(0, done("0"));
    let messages = run.tree.messages();
    let texts: Vec<_> = messages[3..].iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["One.", "Two.", "Three."]);
}

#[test]
fn a_message_that_arrives_while_the_model_responds_gets_its_own_turn() {
    let mut run = Script::start(spec());
    run.steer("And why?").reply(says("Blue."));
    assert_eq!(run.step.status, RunStatus::Running);
    assert_eq!(run.model_call().turn.0, 2);
    run.reply(says("Because."));
    assert_eq!(run.outcome().content, "Because.");
    assert_eq!(run.outcome().turns, 2);
    insta::assert_snapshot!(run.conversation(), @"
    user: Please help.
    assistant: Blue.
    user: And why?
    assistant: Because.
    ");
}

#[test]
fn a_message_that_arrives_before_a_clarifying_question_is_answered_first() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[NOTE])).allow().steer("The blue one.");
    let mut outcome = done("\"asked\"");
    outcome.output.signal = Some(ToolSignal::Clarify {
        question: "Which color?".to_owned(),
    });
    run.finish(0, outcome);
    assert_eq!(run.model_call().turn.0, 2);
    assert_tells_messages(&run.records, &run.tree, 0);
    run.reply(says("Blue it is."));
    assert_eq!(run.outcome().content, "Blue it is.");
    insta::assert_snapshot!(run.conversation(), @r#"
    user: Please help.
    assistant:  [take_note {}]
    tool: "asked"
    user: The blue one.
    assistant: Blue it is.
    "#);
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
    assert_tells_messages(&run.records, &run.tree, 0);
}

#[test]
fn a_message_that_arrives_before_a_stopping_result_is_answered_first() {
    let mut spec = spec_with_limits(|limits| limits.max_turns = Some(1));
    spec.root.profile.stop_after = vec![SEND.parse().unwrap()];
    let sent = |spec| {
        let mut run = Script::start(spec);
        run.reply(calls_to(&[SEND])).allow().steer("And to Bob.");
        run.finish(0, done(r#""It is sent.""#));
        run
    };
    let mut unlimited = spec.clone();
    unlimited.root.limits.max_turns = Some(9);
    let run = sent(unlimited);
    assert_eq!(run.model_call().turn.0, 2);
    let messages = run.tree.messages();
    assert_eq!(messages.last().unwrap().text(), "And to Bob.");

    let run = sent(spec.clone());
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);

    // If nothing more is asked, nothing replaces the existing text.
    spec.root.profile.limit_reached = LimitReached::Finish;
    let run = sent(spec);
    assert_eq!(run.outcome().content, "It is sent.");
}

#[test]
fn a_message_in_the_last_turn_is_covered_by_the_last_answer() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.steer("And why?").reply(says("Blue."));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    let sent = run.model_call().request.messages.messages();
    assert_eq!(*sent[sent.len() - 2], Message::user("And why?"));
    run.reply(says("Because."));
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
}

#[test]
fn a_steered_message_is_in_the_record_of_the_model_call_that_sends_it() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow().steer("Quick.");
    run.finish(0, done("0")).reply(says("Blue."));
    let RecordBody::LlmCall(call) = &run.step.records[0].body else {
        panic!("a model call")
    };
    assert_eq!(call.results.len(), 1);
    assert_eq!(call.messages, [Arc::new(Message::user("Quick."))]);
}

#[test]
fn a_waiting_run_accepts_a_message_and_continues_to_wait() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([asks()]).steer("Quick.");
    assert_eq!(run.step.status, RunStatus::Waiting);
    assert_eq!(run.just_recorded(), ["steered"]);
}

#[test]
fn an_unread_message_is_sent_by_the_next_run_of_the_session() {
    let mut answering = Script::start(spec());
    answering.steer("In German.").cancel();
    let mut working = Script::start(spec());
    working.reply(calls_to(&[READ])).allow();
    working.steer("In German.").cancel();
    for run in [answering, working] {
        assert_eq!(run.outcome().finish_reason, FinishReason::Cancelled);
        assert_valid(run.tree.messages());
        assert_gives_back(&Transcript::default(), &run.records, &run.tree);
        assert_tells_messages(&run.records, &run.tree, 0);
        let history = continued_history(&Transcript::default(), &run.records);
        let next = Script::start_after(spec(), history);
        let sent = next.model_call().request.messages.messages();
        assert_valid(sent);
        let [.., unheard, asked] = sent else {
            panic!("{sent:?}")
        };
        assert_eq!(unheard.text(), "In German.");
        assert_eq!(asked.text(), "Please help.");
    }
}

#[test]
fn a_session_continues_without_a_message_its_log_does_not_mark_as_unread() {
    let mut first = Script::start(spec());
    first.steer("In German.").cancel();
    let mark = r#","unheard":1"#;
    let lines = to_lines(&first.records);
    assert!(lines.last().unwrap().contains(mark), "{lines:?}");
    let unmarked = lines.iter().map(|line| read_line(&line.replace(mark, "")));
    let unmarked: Vec<_> = unmarked.collect();
    let (replayed, _) = RunTree::restore(Transcript::default(), &unmarked).unwrap();
    assert_eq!(replayed.status(), RunStatus::Interrupted);
    let before: Transcript = [Message::user("Please help.")].into_iter().collect();
    let mut second = Script::start_after(spec(), before);
    second.reply(calls_to(&[PICK])).allow();
    assert_eq!(second.step.status, RunStatus::Waiting);
    let history = continued_history(&Transcript::default(), &unmarked);
    assert_gives_back(&history, &second.records, &second.tree);
}

#[test]
fn closing_a_log_records_unread_messages() {
    let mut run = Script::start(spec());
    run.steer("In German.");
    let last = run.records.last().unwrap();
    let end = LogEnd {
        run_id: last.run_id,
        last: last.seq,
        at: last.at,
    };
    let mut records = run.records.clone();
    records.extend(closing_records(
        &run.records,
        end,
        Interruption::OtherVersion,
        "of another version",
    ));
    let history = continued_history(&Transcript::default(), &records);
    assert_eq!(history.last_user_text(), "In German.");
}

#[test]
fn an_answer_cut_by_a_limit_precedes_an_unread_message() {
    let mut run = Script::start(spec());
    run.reply(calls("One moment.", &[(READ, "{}")])).allow();
    run.steer("In German.");
    let full = Cancelled::at_limit(InputId::new("full"), BudgetKind::Log);
    run.send(Input::Cancelled(full));
    assert_eq!(run.step.status, RunStatus::Done);
    let [.., left, unheard] = run.tree.messages() else {
        panic!("{}", run.conversation())
    };
    assert_eq!(left.text(), "One moment.");
    assert_eq!(unheard.text(), "In German.");
    assert_tells_messages(&run.records, &run.tree, 0);
}

#[test]
fn the_same_message_sent_twice_joins_once() {
    let mut run = Script::start(spec());
    let steered = Input::Steered(Steered::new(
        InputId::new("s1"),
        Arc::new(Message::user("Quick.")),
    ));
    run.send(steered.clone()).send_in_vain(steered);
}

#[test]
fn a_run_that_has_ended_accepts_no_message() {
    let mut run = Script::start(spec());
    run.reply(says("Blue."));
    let late = Input::Steered(Steered::new(
        InputId::new("s1"),
        Arc::new(Message::user("Quick.")),
    ));
    assert_eq!(run.refused(late), InputError::RunEnded);
}

#[test]
fn only_a_user_message_steers_a_run() {
    let mut run = Script::start(spec());
    let forged = Input::Steered(Steered::new(
        InputId::new("s1"),
        Arc::new(Message::assistant("I have answered already.")),
    ));
    assert_eq!(run.refused(forged), InputError::NotFromUser);
}
