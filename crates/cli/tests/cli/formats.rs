//! The content of the formats, and how the flags of `neuraxis ask` change it.

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

fn ask<const N: usize>(flags: [&str; N]) -> Vec<Value> {
    let question = ["ask", "--format", "events", "What time is it?"];
    Machine::new()
        .run(question.into_iter().chain(flags))
        .events()
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

#[test]
fn json_is_exactly_one_result() {
    let question = ["ask", "--format", "json", "What time is it?"];
    let done = Machine::new().run(question).stdout_of(0);
    assert_eq!(done.lines().count(), 1);
    let result: Value = serde_json::from_str(&done).unwrap();
    let fields: Vec<&String> = result.as_object().unwrap().keys().collect();
    insta::assert_debug_snapshot!(fields);
    assert!(result["reply"].as_str().unwrap().starts_with("It is "));
    assert_eq!(result["status"], "done");
    assert_eq!(result["finish_reason"], "stop");
    assert_eq!(result["steps"].as_array().unwrap().len(), 3);
}

#[test]
fn events_are_one_json_object_per_line_and_records_have_no_gaps() {
    let events = ask([]);
    let records: Vec<&Value> = events
        .iter()
        .filter(|event| event["seq"].is_u64())
        .collect();
    let numbers: Vec<u64> = records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect();
    assert!(numbers.into_iter().eq(1..=records.len() as u64));
    assert_eq!(records[0]["type"], "run_started");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["finish_reason"]),
        (&"final".into(), &"stop".into())
    );
    let mut live = events.iter().filter(|event| event["seq"].is_null());
    assert!(live.all(|event| event["after"].is_u64()));
}

#[test]
fn unicode_line_separators_are_escaped_in_events_and_json() {
    let says = || Turn::Says(&["one\u{2028}two\u{2029}three\u{85}four\n"]);
    for format in ["events", "json"] {
        let model = Scripted::start([says()]);
        let machine = model.machine();
        let question = ["ask", "--format", format, "Say it."];
        let mut command = machine.command(question);
        let done: Done = command.env("MY_KEY", "k").output().unwrap().into();
        let said = done.stdout_of(0);
        assert!(!said.contains(['\u{2028}', '\u{2029}', '\u{85}']), "{said}");
        assert!(
            said.contains(r"one\u2028two\u2029three\u0085four"),
            "{said}"
        );
        for line in said.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
}

#[test]
fn the_text_streams_before_the_final_record_and_adds_up_to_the_reply() {
    let events = ask([]);
    let deltas = of_type(&events, "text_delta");
    let text: String = deltas
        .iter()
        .map(|delta| delta["text"].as_str().unwrap())
        .collect();
    assert!(!text.is_empty());
    assert_eq!(events.last().unwrap()["content"], text);
}

#[test]
fn without_streaming_the_answer_is_the_same_and_there_are_no_deltas() {
    let events = ask(["--no-stream"]);
    assert!(of_type(&events, "text_delta").is_empty());
    let machine = Machine::new().with_file("notes.txt", "the treasure is under the oak\n");
    let question = ["ask", "--channel", "code_task", "Read notes.txt"];
    let streamed = machine.run(question).stdout_of(0);
    let whole = machine
        .run(question.into_iter().chain(["--no-stream"]))
        .stdout_of(0);
    assert_eq!(streamed, whole);
}

#[test]
fn mode_channel_and_session_options_are_used() {
    let flags = [
        "--mode",
        "conservative",
        "--channel",
        "system_health",
        "--session",
        "my:session-1",
    ];
    let events = ask(flags);
    let decision = of_type(&events, "decision")[0];
    assert_eq!(
        (&decision["mode"], &decision["channel"]),
        (&"conservative".into(), &"system_health".into())
    );
    assert_eq!(
        of_type(&events, "run_started")[0]["session_id"],
        "my:session-1"
    );
}

#[test]
fn without_a_session_option_each_question_has_its_own_session() {
    let session = || of_type(&ask([]), "run_started")[0]["session_id"].clone();
    let (one, other) = (session(), session());
    assert!(one.is_string());
    assert_ne!(one, other);
}

#[test]
fn mode_and_channel_are_moderate_and_chat_by_default() {
    let events = ask([]);
    let decision = of_type(&events, "decision")[0];
    assert_eq!(
        (&decision["mode"], &decision["channel"]),
        (&"moderate".into(), &"chat".into())
    );
}

#[test]
fn a_custom_mode_and_channel_can_be_used() {
    let config = "[modes.quick]\nmax_turns = 2\ntools.read_only = 'allow'\n\
                  [channels.clock]\nrole = 'router'\ntools = ['current_time']";
    let machine = Machine::new().with_file("neuraxis.toml", config);
    let question = [
        "ask",
        "--mode",
        "quick",
        "--channel",
        "clock",
        "What time is it?",
    ];
    assert!(machine.run(question).stdout_of(0).starts_with("It is "));
}
