//! `neuraxis runs`, with a real database file.

use serde_json::Value;

use crate::machine::Machine;
use crate::sessions::{transcript, used_machine};

#[test]
fn runs_are_listed_and_drawn_as_trees() {
    let machine = used_machine();
    let trip = &machine.runs("trip")[1];
    let health = &machine.runs("health")[0];
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["runs", "list"],
            &["runs", "list", "--session", "trip", "--limit", "1"],
            &["runs", "list", "--after", trip],
            &["runs", "show", trip],
            &["runs", "show", health],
            &["runs", "replay", trip],
            &["runs", "replay", trip, "--format", "json"],
        ]
    ));
}

#[test]
fn a_prefix_of_a_run_id_is_sufficient() {
    let machine = used_machine();
    let run = &machine.runs("trip")[0];
    let whole = machine.run(["runs", "show", run]).stdout_of(0);
    let beginning = machine.run(["runs", "show", &run[..30]]).stdout_of(0);
    assert_eq!(whole, beginning);
}

#[test]
fn in_json_a_run_has_its_steps_and_in_events_its_records() {
    let machine = used_machine();
    let run = &machine.runs("trip")[0];
    let shown = machine
        .run(["runs", "show", run, "--format", "json"])
        .stdout_of(0);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["run_id"], run.as_str());
    assert_eq!(
        (&shown["mode"], &shown["channel"]),
        (&"moderate".into(), &"chat".into())
    );
    assert!(!shown["steps"].as_array().unwrap().is_empty(), "{shown}");
    let events = machine
        .run(["runs", "show", run, "--format", "events"])
        .events();
    assert_eq!(events.first().unwrap()["type"], "run_started");
    assert_eq!(events.last().unwrap()["type"], "final");
    assert_eq!(shown["records"], events.len());
}

#[test]
fn replaying_a_modified_log_reports_its_first_difference() {
    let machine = used_machine();
    let exported = machine.run(["sessions", "export", "trip"]).stdout_of(0);
    let run = &machine.runs("trip")[1];
    let log = machine
        .run(["runs", "show", run, "--format", "events"])
        .stdout_of(0);
    let events = machine
        .run(["ask", "--format", "events", "What time is it?"])
        .stdout_of(0);
    let machine = machine
        .with_file(
            "answer.jsonl",
            exported.replacen(r#""turns":2"#, r#""turns":3"#, 1),
        )
        .with_file("gap.jsonl", {
            let mut lines: Vec<&str> = log.lines().collect();
            lines.remove(2);
            lines.join("\n")
        })
        .with_file(
            "version.jsonl",
            log.replacen(r#""loop_version":4"#, r#""loop_version":0"#, 1),
        )
        .with_file("events.jsonl", events)
        .with_file("garbage.jsonl", "{}\n");
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["runs", "replay", "answer.jsonl"],
            &["runs", "replay", "answer.jsonl", "--format", "json"],
            &["runs", "replay", "gap.jsonl"],
            &["runs", "replay", "version.jsonl"],
            &["runs", "replay", "events.jsonl"],
            &["runs", "replay", "garbage.jsonl"],
        ]
    ));
}

#[test]
fn a_later_run_alone_cannot_be_replayed_because_its_history_is_missing() {
    let machine = used_machine();
    let run = &machine.runs("trip")[0];
    let log = machine
        .run(["runs", "show", run, "--format", "events"])
        .stdout_of(0);
    let machine = machine.with_file("later.jsonl", log);
    let replayed = machine.run(["runs", "replay", "later.jsonl"]);
    assert_eq!(replayed.code, Some(1));
    assert!(
        replayed.stdout.contains("that the file does not contain"),
        "{replayed:?}"
    );
}

#[test]
fn a_log_with_withheld_text_reports_that_it_cannot_be_replayed() {
    let machine = Machine::new();
    let withheld = "channels.chat.data.text=false";
    let asked = [
        "ask",
        "--session",
        "s",
        "--set",
        withheld,
        "What time is it?",
    ];
    machine.run(asked).stdout_of(0);
    let run = &machine.runs("s")[0];
    for format in ["text", "json"] {
        let replayed = machine.run(["runs", "replay", run, "--format", format]);
        assert_eq!(replayed.code, Some(1), "{replayed:?}");
        let why = "the data policy withheld text: the log contains only hashes instead";
        assert!(replayed.stdout.contains(why), "{replayed:?}");
    }
    let shown = machine.run(["runs", "show", run]).stdout_of(0);
    assert!(shown.contains("user [withheld: 16 bytes"), "{shown}");
}

#[test]
fn a_fork_continues_in_a_new_session_and_the_original_is_unchanged() {
    let machine = used_machine();
    let before = machine.run(["sessions", "show", "trip"]).stdout_of(0);
    let run = &machine.runs("trip")[1];
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["runs", "fork", run],
            &["runs", "fork", run, "--at-turn", "0", "--mode", "nope"],
            &["runs", "fork", run, "--at-turn", "0", "--model", "gpt-nope"],
            &["runs", "fork", run, "--at-turn", "0", "--model", "coding"],
            &["runs", "fork", run, "--at-turn", "0", "--session", "trip"],
            &[
                "runs",
                "fork",
                run,
                "--at-turn",
                "0",
                "--model",
                "router",
                "--session",
                "again"
            ],
            &[
                "runs",
                "fork",
                run,
                "--message",
                "And in Europe/Paris?",
                "--session",
                "paris"
            ],
            &["sessions", "verify", "paris"],
            &["runs", "show", &machine.runs("trip")[0]],
        ]
    ));
    assert_eq!(
        machine.run(["sessions", "show", "trip"]).stdout_of(0),
        before
    );
}

#[test]
fn forking_at_a_missing_turn_is_refused_with_the_number_of_turns() {
    let machine = used_machine();
    let run = &machine.runs("trip")[1];
    let fork = ["runs", "fork", run, "--at-turn", "7", "--message", "Hi"];
    let complaint = machine.run(fork).complaint(2);
    let expected = format!(
        "error: wrong usage: run {run} has 2 turns, so there is no turn 7\n\
         hint: omit --at-turn to continue from the end of the run\n"
    );
    assert_eq!(complaint, expected);
    let ask = "What time is it?";
    let last = ["runs", "fork", run, "--at-turn", "2", "--message", ask];
    machine.run(last).stdout_of(0);
}

#[test]
fn a_finished_run_is_not_resumed() {
    let machine = used_machine();
    let run = &machine.runs("trip")[0];
    insta::assert_snapshot!(transcript(&machine, &[&["runs", "resume", run]]));
    let resumed = machine.run(["runs", "resume", run]).complaint(2);
    let cancelled = machine.run(["runs", "resume", run, "--cancel"]);
    assert_eq!(cancelled.complaint(2), resumed);
}

/// Truncates a run after its first tool call was recorded, as if its process had died there.
#[test]
fn a_run_that_was_left_behind_is_resumed_or_cancelled() {
    let machine = used_machine();
    let exported = machine.run(["sessions", "export", "health"]).stdout_of(0);
    machine.run(["sessions", "delete", "health"]).stdout_of(0);
    let lines: Vec<&str> = exported.lines().collect();
    let parsed: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let call = parsed
        .iter()
        .position(|line| line["record"]["type"] == "tool_call")
        .unwrap();
    let end = format!(
        r#"{{"type":"session_end","runs":1,"records":{call},"head":{}}}"#,
        parsed[call]["head"]
    );
    let cut = format!("{}\n{end}\n", lines[..=call].join("\n"));
    let machine = machine.with_file("cut.jsonl", cut);
    let run = parsed[call]["record"]["run_id"].as_str().unwrap();
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["sessions", "import", "cut.jsonl"],
            &["sessions", "import", "cut.jsonl", "--unfinished"],
            &["ask", "--session", "health", "Hello?"],
            &["sessions", "delete", "health"],
            &["sessions", "prune", "--older-than", "0s", "--dry-run"],
            &["runs", "resume", run],
            &["runs", "resume", run, "--yes"],
            &["runs", "replay", run],
            &["sessions", "delete", "health"],
            &["sessions", "import", "cut.jsonl", "--unfinished"],
            &["runs", "resume", run, "--cancel"],
            &["sessions", "show", "health"],
        ]
    ));
}

#[test]
fn a_run_becomes_a_recording_that_names_what_is_missing() {
    let machine = used_machine();
    let run = &machine.runs("health")[0];
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["runs", "cassette", run, "health.cassette"],
            &["runs", "cassette", run, "health.cassette"],
        ]
    ));
    let replay = [
        "ask",
        "--replay",
        "health.cassette",
        "--channel",
        "code_task",
        "Read missing.txt",
    ];
    let done = machine.run(replay);
    assert_eq!(done.code, Some(0), "{done:?}");
}
