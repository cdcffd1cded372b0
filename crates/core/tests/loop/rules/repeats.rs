//! Rule 14: repeating the same call.

use neuraxis_core::{
    BudgetKind, FinishReason, LimitKind, Message, PromptReason, Purpose, RecordBody, Repeats,
    Reply, ReplyFinish, ToolFailure,
};

use crate::support::*;

/// The same call, and its result.
fn again(run: &mut Script) {
    run.reply(calls("", &[(READ, r#"{"path":"a"}"#)]));
    run.allow().finish(0, done("1"));
}

fn warned(run: &Script) -> bool {
    run.step.records.iter().any(|record| {
        matches!(&record.body, RecordBody::PromptInjected(told) if told.reason == PromptReason::RepeatedCalls)
    })
}

#[test]
fn a_second_consecutive_repeat_warns_the_model_after_the_results() {
    let mut run = Script::start(spec());
    again(&mut run);
    assert!(run.recorded("warning").is_empty() && !warned(&run));
    again(&mut run);
    assert!(warned(&run));
    assert_eq!(run.recorded("warning").len(), 1);
    let messages = run.tree.messages();
    let Message::System { text } = &*messages[messages.len() - 1] else {
        panic!("a note of the loop comes last")
    };
    let said = "You called read_file with the same arguments in 2 turns in a row.";
    assert!(text.starts_with(said), "{text}");
    assert!(matches!(&*messages[messages.len() - 2], Message::Tool(_)));
}

#[test]
fn a_third_consecutive_repeat_is_not_run_and_leads_to_the_last_answer() {
    let mut run = Script::start(spec());
    for _ in 0..2 {
        again(&mut run);
    }
    run.reply(calls("", &[(READ, r#"{"path":"a"}"#), (SEND, "{}")]));
    assert_eq!(
        run.just_recorded(),
        [
            "llm_call",
            "warning",
            "tool_result",
            "tool_result",
            "limit_reached"
        ]
    );
    assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
    assert_eq!(
        run.result(1).failure,
        Some(ToolFailure::LimitReached),
        "none of the batch runs"
    );
    let RecordBody::LimitReached(reached) = &run.step.records[4].body else {
        panic!("a limit")
    };
    assert_eq!(reached.limit, LimitKind::Budget(BudgetKind::RepeatedCalls));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("It says 1."));
    let reason = FinishReason::Budget(BudgetKind::RepeatedCalls);
    assert_eq!(run.outcome().finish_reason, reason);
    assert_valid(run.tree.messages());
}

#[test]
fn other_arguments_another_tool_or_a_turn_without_it_reset_the_repeat_count() {
    let others = [
        calls("", &[(READ, r#"{"path":"b"}"#)]),
        calls("", &[(PUT, r#"{"path":"a"}"#)]),
    ];
    for other in others {
        let mut run = Script::start(spec());
        again(&mut run);
        run.reply(other).allow().finish(0, done("2"));
        again(&mut run);
        assert!(!warned(&run));
        again(&mut run);
        assert!(warned(&run));
    }
}

#[test]
fn a_repeated_call_counts_next_to_others_and_once_per_reply() {
    let mut run = Script::start(spec());
    for turn in 0..2 {
        let other = format!("{{\"turn\":{turn}}}");
        let same = r#"{"path":"a"}"#;
        run.reply(calls("", &[(READ, same), (READ, &other), (READ, same)]))
            .allow();
        run.finish(0, done("1"))
            .finish(1, done("2"))
            .finish(2, done("3"));
        assert_eq!(warned(&run), turn == 1);
    }
}

#[test]
fn approvals_do_not_reset_the_repeat_count() {
    let mut run = Script::start(spec());
    for turn in 1..=2 {
        run.reply(calls("", &[(SEND, "{}")])).vet([asks()]);
        run.decide(approve()).vet([asks()]);
        run.finish(0, done("1"));
        assert_eq!(warned(&run), turn == 2);
    }
    run.reply(calls("", &[(SEND, "{}")]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
}

#[test]
fn failures_messages_and_crashes_do_not_reset_the_repeat_count() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow().finish(0, failed("no"));
    run.steer("Try again.");
    run.resume();
    run.reply(calls_to(&[READ])).allow().finish(0, failed("no"));
    assert!(warned(&run));
}

#[test]
fn a_profile_sets_or_disables_the_repeat_limits() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.repeats = Repeats { warn: 0, stop: 0 };
    }));
    for _ in 0..6 {
        again(&mut run);
    }
    assert!(run.recorded("warning").is_empty());
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.repeats = Repeats { warn: 0, stop: 2 };
    }));
    again(&mut run);
    run.reply(calls("", &[(READ, r#"{"path":"a"}"#)]));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
}

/// A call whose reply was cut off in its arguments.
fn cut(arguments: &str) -> Reply {
    ended(calls("", &[(PUT, arguments)]), ReplyFinish::Length)
}

#[test]
fn a_call_that_is_cut_off_each_time_is_the_same_wherever_it_was_cut() {
    let mut run = Script::start(spec());
    run.reply(cut(r#"{"text":"one two"#));
    assert!(!warned(&run));
    run.reply(cut(r#"{"text":"one two three"#));
    assert!(warned(&run));
    assert_eq!(run.result(0).failure, Some(ToolFailure::InvalidArguments));
    run.reply(cut(r#"{"text":"one"#));
    assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.assert_replays();
}

#[test]
fn a_cut_call_that_differs_or_that_is_whole_the_next_time_begins_the_count_anew() {
    let mut run = Script::start(spec());
    run.reply(cut(r#"{"text":"one two"#));
    run.reply(cut(r#"{"text":"three"#));
    assert!(!warned(&run));
    run.reply(calls("", &[(PUT, r#"{"text":"three"}"#)]));
    run.allow().finish(0, done("1"));
    assert!(!warned(&run));
}
