//! What `neuraxis eval` shows and writes of its results.

use std::fs;

use serde_json::Value;

use crate::machine::Done;
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
