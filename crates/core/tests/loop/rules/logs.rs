//! One log: what it contains, and that it reproduces the run and its messages whatever the inputs were.

use std::sync::Arc;

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{
    Channel, ContentHash, Decision, Input, JsonText, Keep, LlmCall, Message, Mode, NextAttempt,
    Opening, PrefixDigest, RecordBody, RestoreError, Role, RunId, RunSpec, RunTree, ToolSignal,
    Transcript,
};

use crate::support::*;

/// Checks the log of a run that began without history.
fn assert_log(run: &Script) {
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
    assert_tells_messages(&run.records, &run.tree, 0);
}

fn model_calls(run: &Script) -> Vec<&LlmCall> {
    let calls = run.records.iter().filter_map(|record| match &record.body {
        RecordBody::LlmCall(call) => Some(&**call),
        _ => None,
    });
    calls.collect()
}

fn gathering() -> RunSpec {
    spec_with_profile(|profile| {
        profile.opening = Opening::Gather {
            role: Role::ROUTER,
            tool: READ.parse().unwrap(),
            default_arguments: JsonText::from_text("{}"),
        };
    })
}

#[test]
fn each_step_starts_with_its_cause_which_alone_has_the_active_time() {
    let mut run = Script::start(spec());
    assert_eq!(run.step.records[0].active_ms, Some(0));
    run.at(120).reply(calls_to(&[READ, READ]));
    run.at(130).allow();
    let times: Vec<_> = run
        .step
        .records
        .iter()
        .map(|record| record.active_ms)
        .collect();
    assert_eq!(times, [Some(130), None, None]);
    assert_eq!(run.step.records[0].cause().unwrap().kind(), "verdict");
    assert!(run.step.records[1].cause().is_none());
}

#[test]
fn a_policy_decision_directly_follows_the_start() {
    let mut spec = spec();
    let hash = ContentHash::of(b"policy");
    spec.decision =
        Some(Decision::new(Mode::MODERATE, Channel::CHAT, Role::REASONING, hash).into());
    let run = Script::start(spec);
    assert_eq!(run.just_recorded(), ["run_started", "decision"]);
    assert_log(&run);
}

#[test]
fn a_model_call_record_holds_new_messages_and_the_digest_of_earlier_ones() {
    let history: Transcript = [Message::user("Hi."), Message::assistant("Hello.")]
        .into_iter()
        .collect();
    let mut run = Script::start_after(spec(), history.clone());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    let sent = run.model_call().request.messages.clone();
    run.reply(says("Blue."));
    let calls = model_calls(&run);
    assert_eq!(calls[0].prefix, history.digest());
    assert_eq!(calls[0].messages, [Arc::new(Message::user("Please help."))]);
    let before: Transcript = sent.messages()[..4].iter().cloned().collect();
    assert_eq!(calls[1].prefix, before.digest());
    assert_eq!(calls[1].results, [run.result(0).tool_call_id.clone()]);
    assert_eq!(calls[1].messages, [] as [Arc<Message>; 0]);
}

#[test]
fn the_digest_covers_what_was_sent_even_if_the_opening_failed() {
    let mut run = Script::start(gathering());
    run.fail_model(1, NextAttempt::None)
        .allow()
        .finish(0, done("1"));
    let sent = run.model_call().request.messages.clone();
    run.reply(says("All is well."));
    let call = model_calls(&run)[0];
    let new = call.results.len() + call.messages.len();
    let before: Transcript = sent.messages()[..sent.len() - new]
        .iter()
        .cloned()
        .collect();
    assert_eq!(call.prefix, before.digest());
    assert_log(&run);
}

#[test]
fn values_with_surrounding_whitespace_round_trip_unchanged() {
    for value in [" 42 ", "\t[1, 2]\t", "{\"a\": 1} ", "\"x\"\n"] {
        let mut run = Script::start(spec());
        let mut raw = done("null");
        raw.output.value = JsonText::from_text(value);
        raw.output.metadata = Some(JsonText::from_text(value));
        run.reply(calls_to(&[READ])).allow().finish(0, raw);
        run.reply(says("Blue."));
        assert_log(&run);
    }
}

#[test]
fn a_tool_result_record_holds_the_complete_tool_output() {
    let mut run = Script::start(spec());
    let mut said = done("[1,2]");
    said.output.metadata = Some(JsonText::from_text(r#"{"source":"cache"}"#));
    said.output.keep = Keep::Summary;
    said.output.summary = Some("two numbers".to_owned());
    let plan = JsonText::from_text("[\"read\"]");
    said.output.signal = Some(ToolSignal::Plan { plan });
    run.reply(calls_to(&[READ])).allow().finish(0, said.clone());
    assert_eq!(run.just_recorded(), ["tool_result", "plan"]);
    let result = run.result(0);
    assert_eq!(result.outcome(), said);
    assert_eq!(result.duration, Some(std::time::Duration::from_millis(3)));
    assert_eq!(
        run.tool_messages(),
        ["[1,2]"],
        "the model reads the value alone"
    );
}

#[test]
fn null_metadata_round_trips_to_the_same_bytes() {
    let mut run = Script::start(spec());
    let mut raw = done("null");
    raw.output.metadata = Some(JsonText::from_text("null"));
    run.reply(calls_to(&[READ])).allow().finish(0, raw);
    run.reply(says("Blue."));
    assert_log(&run);
}

#[test]
fn a_steered_message_at_the_turn_limit_appears_at_its_position() {
    let mut run = Script::start(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.reply(calls_to(&[READ])).allow().steer("Quick.");
    run.finish(0, done("1"));
    assert_log(&run);
    run.reply(says("Blue."));
    assert_log(&run);
}

#[test]
fn a_steered_message_is_logged_even_if_no_later_model_call_succeeds() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow().steer("Quick.");
    run.finish(0, done("1")).fail_model(1, NextAttempt::None);
    assert_log(&run);
    let mut run = Script::start(spec());
    run.steer("Quick.").reply(says("Blue.")).cancel();
    assert_log(&run);
}

#[test]
fn a_message_that_steered_the_opening_is_logged_even_if_the_opening_failed() {
    let mut run = Script::start(gathering());
    run.steer("Quick.").fail_model(1, NextAttempt::None).allow();
    run.finish(0, done("1")).reply(says("All is well."));
    assert_log(&run);
}

#[test]
fn a_log_is_not_restored_with_another_history() {
    let run = Script::start(spec());
    let other: Transcript = [Message::user("Hi.")].into_iter().collect();
    let error = RunTree::restore(other, &run.records).unwrap_err();
    assert_eq!(error, RestoreError::OtherHistory);
}

#[test]
fn a_log_without_its_start_is_refused() {
    let mut run = Script::start(spec());
    run.reply(says("Blue."));
    for records in [&run.records[1..], &[]] {
        let error = RunTree::restore(Transcript::default(), records).unwrap_err();
        assert_eq!(error, RestoreError::NoStart);
    }
}

#[test]
fn a_log_with_a_modified_record_is_refused_at_that_record() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run.reply(says("Blue."));
    for index in 0..run.records.len() {
        let mut records = run.records.clone();
        let mut record = (*records[index]).clone();
        record.run_id = RunId(Uuid::nil());
        records[index] = Arc::new(record);
        let error = RunTree::restore(Transcript::default(), &records).unwrap_err();
        let RestoreError::Diverged { seq, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(usize::try_from(seq.0), Ok(index + 1));
    }
}

#[test]
fn a_log_with_a_missing_record_is_refused() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    for missing in 1..run.records.len() - 1 {
        let mut records = run.records.clone();
        records.remove(missing);
        assert!(RunTree::restore(Transcript::default(), &records).is_err());
    }
}

#[test]
fn a_log_of_another_rules_version_is_not_replayed() {
    let run = Script::start(spec());
    let line = run.records[0].to_json();
    let other = line.replace(r#""loop_version":4"#, r#""loop_version":99"#);
    let error = RunTree::restore(Transcript::default(), &[read_line(&other)]).unwrap_err();
    assert_eq!(error, RestoreError::OtherVersion { found: 99, ours: 4 });
}

#[test]
fn a_line_that_is_not_a_record_is_refused_with_a_reason() {
    for (line, reason) in [
        ("", "EOF"),
        ("{\"seq\":1}", "missing field"),
        ("[]", "invalid"),
    ] {
        let error = neuraxis_core::Record::from_json(line)
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    let line = Script::start(spec()).records[0].to_json();
    let unknown = line.replace("\"run_started\"", "\"run_exploded\"");
    let error = neuraxis_core::Record::from_json(&unknown)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("unknown record type \"run_exploded\""),
        "{error}"
    );
}

#[test]
fn an_empty_prefix_has_no_messages_and_no_hash() {
    let empty = PrefixDigest {
        count: 0,
        hash: ContentHash::EMPTY,
    };
    assert_eq!(Transcript::default().digest(), empty);
}

#[test]
fn durations_finer_than_the_log_resolution_are_accepted() {
    let mut run = Script::start(spec());
    let mut replied = run.replied(says("Blue."));
    if let Input::ModelReplied(replied) = &mut replied {
        replied.duration = std::time::Duration::from_nanos(1_234_567);
    }
    run.send(replied);
    assert_log(&run);
}
