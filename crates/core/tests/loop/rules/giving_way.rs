//! Rule 13 since version 4: the reasoning of earlier turns gives way before messages, and a message that fits no context
//! before the others.

use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, Compaction, ContextTrimmed, LlmErrorKind, Message, Part, Purpose,
    ReasoningPart, Record, RecordBody, Reply, ReplyPart, RunSpec, RunStatus, RunTree, Span,
    Transcript, Usage, continued_history,
};

use crate::support::*;

/// A context of 1,000 tokens beside the tool definitions, 50 of them for the reply: trimmed from 807 on, to 570. The
/// question takes 7.
fn small() -> RunSpec {
    let mut spec = spec();
    spec.root.context_tokens = Some(1_000 + DEFINITIONS);
    spec.root.max_output_tokens = Some(50);
    spec.root.limits.max_turns = Some(30);
    spec.root.profile.compaction = Compaction::Drop;
    spec
}

fn thought(bytes: usize) -> ReasoningPart {
    ReasoningPart {
        text: "t".repeat(bytes),
        signature: Some("signed".to_owned()),
        ..ReasoningPart::default()
    }
}

/// Exchanges of two messages with 104 tokens each, and 200 of reasoning before each answer.
fn thought_through(exchanges: usize) -> Transcript {
    let text = "x".repeat(400);
    let exchange = || {
        let answer = AssistantMessage {
            parts: vec![Part::Reasoning(thought(800)), Part::text(text.as_str())],
            model: None,
        };
        [Message::user(text.as_str()), Message::Assistant(answer)]
    };
    (0..exchanges).flat_map(|_| exchange()).collect()
}

/// A call whose model thought for 100 tokens first; its provider does not report the size of the conversation.
fn thoughtful_call(turn: u32) -> Reply {
    let mut reply = another_call_to(READ, turn);
    reply.usage = Usage::default();
    reply.parts.insert(0, ReplyPart::Reasoning(thought(400)));
    reply
}

fn trims(run: &Script) -> Vec<&ContextTrimmed> {
    let records = run.step.records.iter();
    let trims = records.filter_map(|record| match &record.body {
        RecordBody::ContextTrimmed(trimmed) => Some(trimmed.as_ref()),
        _ => None,
    });
    trims.collect()
}

/// Returns how many messages of the last model call have reasoning.
fn thoughts_sent(run: &Script) -> usize {
    let messages = run.model_call().request.messages.messages();
    let has_reasoning = |message: &&Arc<Message>| match &***message {
        Message::Assistant(reply) => {
            let mut parts = reply.parts.iter();
            parts.any(|part| matches!(part, Part::Reasoning(_)))
        }
        _ => false,
    };
    messages.iter().filter(has_reasoning).count()
}

fn assert_told(run: &Script, history: &Transcript) {
    assert_gives_back(history, &run.records, &run.tree);
    assert_valid(run.tree.messages());
    assert_continues(run, history);
}

/// The log's first record, as a run of another version would have written it.
fn begun_by(version: u32, run: &Script) -> Arc<Record> {
    let begun = run.records[0].to_json();
    let other = format!(r#""loop_version":{version}"#);
    read_line(&begun.replace(r#""loop_version":4"#, &other))
}

#[test]
fn reasoning_of_earlier_turns_goes_before_any_message() {
    let history = thought_through(2);
    let run = Script::start_after(small(), history.clone());
    let expected = ContextTrimmed {
        messages: 0,
        tokens: 2 * 200,
        removed: Vec::new(),
        shortened: Vec::new(),
        without_reasoning: vec![Span { start: 1, end: 2 }, Span { start: 3, end: 4 }],
        summary: None,
    };
    assert_eq!(trims(&run), [&expected]);
    assert_eq!(run.model_call().request.messages.len(), 5);
    assert_eq!(thoughts_sent(&run), 0);
    assert_told(&run, &history);

    // As runs of version 3 continued: an exchange was removed.
    let mut cut = Record::clone(&run.records[1]);
    cut.body = RecordBody::ContextTrimmed(Box::new(ContextTrimmed {
        messages: 2,
        tokens: 2 * 104 + 200,
        removed: vec![Span { start: 0, end: 2 }],
        without_reasoning: Vec::new(),
        ..expected
    }));
    let former = [begun_by(3, &run), Arc::new(cut)];
    let (restored, _) = RunTree::restore(history, &former).unwrap();
    assert_eq!(restored.messages().len(), 3);
}

#[test]
fn no_more_reasoning_goes_than_is_needed_and_the_oldest_first() {
    let mut spec = small();
    // Trimmed from 1,190 on, to 840; there are 1,231.
    spec.root.context_tokens = Some(1_450 + DEFINITIONS);
    let run = Script::start_after(spec, thought_through(3));
    let gone = [Span { start: 1, end: 2 }, Span { start: 3, end: 4 }];
    assert_eq!(trims(&run)[0].without_reasoning, gone);
    assert_eq!(trims(&run)[0].messages, 0);
    assert_eq!(thoughts_sent(&run), 1);
}

#[test]
fn where_reasoning_is_not_enough_the_messages_that_stay_lose_theirs_too() {
    let history = thought_through(4);
    let run = Script::start_after(small(), history.clone());
    let trimmed = trims(&run)[0];
    assert_eq!(trimmed.removed, [Span { start: 0, end: 4 }]);
    let stay = [Span { start: 5, end: 6 }, Span { start: 7, end: 8 }];
    assert_eq!(trimmed.without_reasoning, stay);
    assert_eq!(thoughts_sent(&run), 0);
    assert_told(&run, &history);
}

#[test]
fn a_summary_replaces_messages_and_not_the_reasoning_of_those_that_stay() {
    let history = thought_through(4);
    let mut spec = small();
    spec.root.profile.compaction = Compaction::default();
    let mut run = Script::start_after(spec, history.clone());
    assert_eq!(run.model_call().purpose, Purpose::Compaction);
    run.reply(says("Much x."));
    let trimmed = trims(&run)[0];
    assert_eq!(trimmed.removed, [Span { start: 0, end: 4 }]);
    assert_eq!(trimmed.without_reasoning.len(), 2);
    assert!(trimmed.summary.is_some());
    assert_eq!(thoughts_sent(&run), 0);
    assert_told(&run, &history);
}

#[test]
fn the_reasoning_about_the_current_question_stays_as_long_as_its_messages() {
    let mut run = Script::start(small());
    let mut trimmed = 0;
    for turn in 10..16 {
        run.reply(thoughtful_call(turn)).allow();
        run.finish(0, done(&format!("{:?}", "x".repeat(400))));
        assert!(
            trims(&run)
                .iter()
                .all(|cut| cut.without_reasoning.is_empty())
        );
        trimmed += trims(&run).len();
        let calls = run.tree.messages().iter();
        let calls = calls.filter(|message| message.tool_calls().next().is_some());
        assert_eq!(thoughts_sent(&run), calls.count());
    }
    assert!(trimmed > 0, "messages went");
    assert_told(&run, &Transcript::default());
}

#[test]
fn reasoning_that_is_not_sent_anyway_frees_no_room() {
    let mut spec = small();
    spec.root.drops_reasoning = true;
    let run = Script::start_after(spec, thought_through(4));
    let trimmed = trims(&run)[0];
    assert!(trimmed.without_reasoning.is_empty(), "{trimmed:?}");
    assert_eq!(trimmed.removed, [Span { start: 0, end: 4 }]);
}

#[test]
fn a_question_that_fits_no_context_displaces_nothing_and_the_run_says_so() {
    let history = thought_through(1);
    let mut spec = small();
    spec.messages = vec![Arc::new(Message::user("q".repeat(8_000)))];
    let mut run = Script::start_after(spec, history.clone());
    assert_eq!(run.just_recorded(), ["run_started", "warning"]);
    let RecordBody::Warning(warning) = &run.step.records[1].body else {
        panic!("a warning")
    };
    assert_eq!(warning.code, "message_too_long");
    assert!(warning.message.contains("about 2004 tokens"), "{warning:?}");
    assert_eq!(run.model_call().request.messages.len(), 3);
    run.fail_for(LlmErrorKind::ContextOverflow {
        limit: Some(1_000 + DEFINITIONS),
        needed: Some(2_412 + DEFINITIONS),
    });
    assert_eq!(run.just_recorded(), ["llm_failed", "run_failed"]);
    assert_told(&run, &history);

    // In the next run, it is what goes.
    let history = continued_history(&history, &run.records);
    assert_eq!(history.len(), 3);
    let next = Script::start_after(small(), history.clone());
    assert_eq!(trims(&next)[0].removed, [Span { start: 2, end: 3 }]);
    assert_told(&next, &history);
}

#[test]
fn as_runs_of_version_3_continued_such_a_question_displaced_everything() {
    let history = thought_through(1);
    let mut spec = small();
    spec.messages = vec![Arc::new(Message::user("q".repeat(8_000)))];
    let run = Script::start_after(spec, history.clone());
    let mut cut = Record::clone(&run.records[1]);
    cut.body = RecordBody::ContextTrimmed(Box::new(ContextTrimmed {
        messages: 2,
        tokens: 2 * 104 + 200,
        removed: vec![Span { start: 0, end: 2 }],
        shortened: Vec::new(),
        without_reasoning: Vec::new(),
        summary: None,
    }));
    let former = [begun_by(3, &run), Arc::new(cut)];
    let (restored, _) = RunTree::restore(history, &former).unwrap();
    assert_eq!(restored.messages().len(), 1);
}

#[test]
fn a_message_that_fits_no_context_is_left_out_of_the_run_that_it_came_to() {
    let mut run = Script::start_after(small(), thought_through(1));
    run.reply(thoughtful_call(1)).allow();
    run.steer(&"q".repeat(8_000)).finish(0, done("1"));
    assert_eq!(
        run.just_recorded(),
        ["tool_result", "warning", "context_trimmed"]
    );
    assert_eq!(trims(&run)[0].removed, [Span { start: 5, end: 6 }]);
    assert_eq!(run.model_call().request.messages.len(), 5);
    assert_eq!(run.step.status, RunStatus::Running);
    assert_told(&run, &thought_through(1));
    run.reply(says("Blue."));
    assert_eq!(run.step.status, RunStatus::Done);
    assert_told(&run, &thought_through(1));
}
