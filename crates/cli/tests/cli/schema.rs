//! `neuraxis ask --schema` end to end, with a model behind a real adapter.

use std::fs;

use serde_json::{Value, json};

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

const SCHEMA: &str = r#"{"title":"Place","type":"object","required":["city"],
    "properties":{"city":{"type":"string"}}}"#;

const DELFT: Turn = Turn::Calls(&[("final_answer", r#"{"city":"Delft"}"#)]);

const LOOKS: Turn = Turn::Calls(&[("current_time", "{}")]);

const ASK: [&str; 4] = ["ask", "--schema", "place.json", "Where is the TU Delft?"];

fn machine(model: &Scripted) -> Machine {
    model.machine().with_file("place.json", SCHEMA)
}

fn ask(model: &Scripted, arguments: &[&str]) -> Done {
    let machine = machine(model);
    let mut command = machine.command(arguments);
    command.env("MY_KEY", "k").output().unwrap().into()
}

#[test]
fn standard_output_is_only_the_json_after_tool_calls_and_a_corrected_answer() {
    let model = Scripted::start([
        LOOKS,
        Turn::Says(&["It is ", "in Delft."]),
        Turn::Calls(&[("final_answer", r#"{"city":4}"#)]),
        DELFT,
    ]);
    let done = ask(&model, &ASK);
    assert_eq!(done.stdout_of(0), "{\"city\":\"Delft\"}\n");
    assert_eq!(model.asked(), 4);
    assert!(model.results().contains("at /city"), "{}", model.results());
}

#[test]
fn the_result_contains_the_answer() {
    let model = Scripted::start([DELFT]);
    let arguments = [
        "ask",
        "--format",
        "json",
        "--schema",
        "place.json",
        "Where?",
    ];
    // Editors on Windows begin files with this mark.
    let marked = format!("\u{feff}{SCHEMA}");
    let machine = model.machine().with_file("place.json", marked);
    let result = machine.run_with_key(arguments).stdout_of(0);
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["answer"], json!({"city": "Delft"}));
}

#[test]
fn an_answer_that_never_fits_the_schema_is_an_error_with_empty_standard_output() {
    let model = Scripted::start([(); 3].map(|()| Turn::Says(&["In Delft."])));
    let done = ask(&model, &ASK);
    assert_eq!(done.stdout, "");
    let told = done.complaint(1);
    assert!(
        told.contains("there is no answer that fits the schema"),
        "{told}"
    );
    assert!(told.contains("not JSON"), "{told}");
    assert!(told.contains("In Delft."), "{told}");
    assert_eq!(model.asked(), 3);
}

#[test]
fn a_limit_reached_before_a_fitting_answer_is_reported_as_a_limit() {
    let turn = ["--set", "modes.moderate.max_turns=1"];
    let day = ["--plan", "p", "--set", "plans.p.day.max_tokens=1"];
    let cut = [(); 4].map(|()| Turn::IsCut("{\"city\":"));
    for (turns, limit) in [
        (&cut[..], &[][..]),
        (&[LOOKS, Turn::Says(&["In Delft."])][..], &turn[..]),
        (&[][..], &day[..]),
    ] {
        let model = Scripted::start(turns.iter().cloned());
        let told = ask(&model, &[&ASK[..], limit].concat()).complaint(3);
        assert!(told.contains("policy explain"), "{told}");
        assert!(!told.contains("the model said"), "{told}");
    }
}

#[test]
fn a_stored_run_shows_whether_its_answer_fits_the_schema() {
    let cut = [(); 4].map(|()| Turn::IsCut("{\"city\":"));
    for (turns, code, status, answer) in [
        (&cut[..], 3, "done (length)", Value::Null),
        (&[DELFT][..], 0, "done  ", json!({"city": "Delft"})),
    ] {
        let model = Scripted::start(turns.iter().cloned());
        let machine = machine(&model);
        machine.run_with_key(ASK).stdout_of(code);
        let list = machine.run(["runs", "list"]).stdout_of(0);
        assert!(list.contains(status), "{list}");
        let show = ["runs", "show", "last", "--format", "json"];
        let shown: Value = serde_json::from_str(&machine.run(show).stdout_of(0)).unwrap();
        assert_eq!(shown["answer"], answer);
        assert_eq!(shown["answer_fault"].is_string(), code == 3, "{shown}");
    }
}

#[test]
fn the_reply_of_the_model_is_shown_without_the_validation_error() {
    let model = Scripted::start([(); 3].map(|()| Turn::Says(&["In Delft."])));
    let told = ask(&model, &ASK).complaint(1);
    assert!(told.ends_with("the model said: In Delft.\n"), "{told}");
}

#[test]
fn a_fork_with_a_schema_also_prints_only_the_json() {
    let mended = [Turn::Says(&["{\"city\":4}"]), DELFT];
    let model = Scripted::start([&mended[..], &mended[..]].concat());
    let machine = machine(&model);
    let fork = ["runs", "fork", "last", "--at-turn", "0"];
    for arguments in [&ASK[..], &fork] {
        let answer = machine.run_with_key(arguments).stdout_of(0);
        assert_eq!(answer, "{\"city\":\"Delft\"}\n", "{arguments:?}");
    }
    assert_eq!(model.asked(), 4);
}

#[test]
fn an_invalid_schema_file_is_a_usage_error_that_names_file_and_fault() {
    let large = format!("\"{}\"", "é".repeat(600_000));
    for (content, wrong) in [
        (large.as_str(), "larger than 1048576 bytes"),
        ("{", "not JSON"),
        (r#"{"type":"objekt"}"#, "objekt"),
        (r#"{"type":"array"}"#, "an object"),
    ] {
        let machine = Machine::new().with_file("place.json", content);
        let told = machine.run(ASK).complaint(2);
        assert!(
            told.contains("place.json") && told.contains(wrong),
            "{told}"
        );
    }
    let told = Machine::new().run(ASK).complaint(2);
    assert!(told.contains("place.json"), "{told}");
}

#[test]
fn a_case_uses_the_schema_of_its_agent_and_notes_a_missing_schema_option() {
    let model = Scripted::start([DELFT, DELFT]);
    let machine = machine(&model);
    let run = |arguments: &[&str]| -> Done {
        let mut command = machine.command(arguments);
        command.env("MY_KEY", "k").output().unwrap().into()
    };
    run(&ASK).stdout_of(0);
    let add = ["eval", "add", "made.toml", "last"];
    let told = run(&[&add[..], &["--cassette", "it.cassette"]].concat()).complaint(1);
    assert!(
        told.contains("--schema") && told.contains("--stored"),
        "{told}"
    );
    assert!(!machine.path("it.cassette").exists());
    run(&add).stdout_of(0);
    let text = fs::read_to_string(machine.path("made.toml")).unwrap();
    let note = text.lines().find(|line| line.contains("--schema"));
    assert!(note.is_some_and(|note| note.starts_with("# ")), "{text}");
    assert!(!text.contains("final_answer"), "{text}");

    let config = fs::read_to_string(machine.path("neuraxis.toml")).unwrap();
    let place = "[agents.place]\ninstructions = 'You know places.'\n[agents.place.answer]\nschema = { type = 'object', required = ['city'], \
        properties = { city = { type = 'string' } } }\n";
    fs::write(machine.path("place.toml"), format!("{config}{place}")).unwrap();
    let place = |arguments: &[&str]| run(&[&["--config", "place.toml"][..], arguments].concat());
    place(&["ask", "--agent", "place", "Where?"]).stdout_of(0);
    let add = [
        "eval",
        "add",
        "its.toml",
        "last",
        "--cassette",
        "it.cassette",
    ];
    place(&add).stdout_of(0);
    place(&["eval", "its.toml"]).stdout_of(0);
    assert_eq!(model.asked(), 2);
}
