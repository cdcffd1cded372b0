//! What `neuraxis eval` shows and writes of its results.

use std::fs;

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

#[test]
fn under_a_case_that_did_not_pass_stands_a_run_that_did_not() {
    let model = Scripted::start([Turn::Says(&["yes"]), Turn::Says(&["no"])]);
    let case = "[[case]]\nname = 'a'\nmessage = 'Hello'\nrepeat = 2\ncheck = [{ exact = 'yes' }]\n";
    let machine = model.machine().with_file("evals.toml", case);
    let mut eval = machine.command(["eval", "evals.toml", "--jobs", "1", "--out", "now.json"]);
    let done: Done = eval
        .env("MY_KEY", "canary-key-1234")
        .output()
        .unwrap()
        .into();
    assert_eq!(done.code, Some(1), "{done:?}");
    let report = fs::read_to_string(machine.path("now.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let attempts = &report["cases"][0]["attempts"];
    assert_eq!(attempts[1]["verdict"], "failed", "{report}");
    let run = attempts[1]["run_id"].as_str().unwrap();
    let line = format!("runs show {run}\n");
    assert!(done.stdout.contains(&line), "{}", done.stdout);
}

#[test]
fn results_are_clean_and_can_be_compared_with_whatever_a_pattern_matches() {
    let case = ["CUST-17", "CUST-18"].map(|of| {
        format!("[[case]]\nname = 'of {of}'\nmessage = 'Hello'\ncheck = [{{ exact = '{of}' }}]\n")
    });
    let patterns = "[telemetry]\nredact = ['CUST-\\d+', '\\d{4}-\\d{2}-\\d{2}']\n";
    let machine = Machine::new()
        .with_file(
            "neuraxis.toml",
            format!("[models.reasoning]\nprovider = 'offline'\n{patterns}"),
        )
        .with_file("evals.toml", case.concat());
    let eval = ["eval", "evals.toml"];
    let written = ["--out", "now.json", "--junit", "now.xml"];
    let table = machine.run([&eval[..], &written].concat()).stdout_of(1);
    let read = |name: &str| fs::read_to_string(machine.path(name)).unwrap();
    for text in [table, read("now.json"), read("now.xml")] {
        assert!(text.contains("of [redacted]"), "{text}");
        assert!(!text.contains("CUST-1"), "{text}");
    }
    let compare = ["--compare", "now.json", "--format", "json"];
    let compared = machine.run([&eval[..], &compare].concat()).stdout_of(0);
    let report: Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(
        report["comparison"]["still_failing"],
        serde_json::json!(["of [redacted]", "of [redacted]"])
    );
}

#[test]
fn what_goes_on_is_what_a_person_asked_last_though_an_eval_ran_since() {
    let case =
        "[[case]]\nname = 'a'\nmessage = 'What time is it?'\ncheck = [{ contains = 'It is' }]\n";
    let machine = Machine::new().with_file("evals.toml", case);
    let ask = ["ask", "--session", "mine", "What time is it in Asia/Tokyo?"];
    machine.run(ask).stdout_of(0);
    machine.run(["eval", "evals.toml"]).stdout_of(0);
    let said = machine.run(["-c", "And in Asia/Kathmandu?"]).stdout_of(0);
    assert!(said.contains("Asia/Kathmandu"), "{said}");
    machine.run(["eval", "evals.toml"]).stdout_of(0);
    let last = ["ask", "--session", "last", "And in Europe/Berlin?"];
    machine.run(last).stdout_of(0);
    assert_eq!(machine.runs("mine").len(), 3);
    machine.run(["eval", "evals.toml"]).stdout_of(0);
    let shown = machine.run(["runs", "show", "last"]).stdout_of(0);
    assert!(shown.contains("Europe/Berlin"), "{shown}");
}
