//! `neuraxis stats` and `neuraxis runs tail`, with a real database file.

use serde_json::Value;

use crate::machine::Machine;
use crate::sessions::{redacted, used_machine};

fn stats(machine: &Machine, arguments: &[&str]) -> Value {
    let all = [&["stats", "--format", "json"], arguments].concat();
    serde_json::from_str(&machine.run(all).stdout_of(0)).unwrap()
}

#[test]
fn figures_are_those_of_the_runs_that_are_listed() {
    let machine = used_machine();
    let listed = machine
        .run(["runs", "list", "--format", "json"])
        .stdout_of(0);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let sum = |key: &str| {
        let used = listed.iter().map(|run| run["used"][key].as_u64().unwrap());
        used.sum::<u64>()
    };
    let found = stats(&machine, &[]);
    assert_eq!(found["total"]["runs"], listed.len());
    assert_eq!(found["total"]["calls"], sum("llm_calls"));
    let calls = |kind: &str| {
        let rows = found[kind].as_array().unwrap().iter();
        rows.map(|row| row["calls"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(calls("models"), sum("llm_calls"));
    assert_eq!(calls("roles"), sum("llm_calls"));
    assert_eq!(calls("tools"), sum("tool_calls"));
    assert_eq!(calls("agents"), 3);
    assert_eq!(found["models"][0]["name"], "offline/rules");
    assert_eq!(found["models"][0]["cost_label"], "unknown");
    assert_eq!(stats(&machine, &["--since", "all"])["days"], found["days"]);
    assert_eq!(
        stats(&machine, &["--since", "2999-01-01"])["total"]["runs"],
        0
    );
    assert_eq!(stats(&machine, &["--owner", "nobody"])["total"]["runs"], 0);
}

#[test]
fn a_period_ends_before_a_day() {
    let machine = used_machine();
    let all = stats(&machine, &[]);
    let until = |day| stats(&machine, &["--before", day]);
    assert_eq!(until("2999-01-01")["total"], all["total"]);
    assert_eq!(until("2020-01-01")["total"]["runs"], 0);
    assert!(until("2020-01-01")["before"].is_string());
    let backwards = ["stats", "--since", "2026-02-01", "--before", "2026-02-01"];
    let complaint = machine.run(backwards).complaint(2);
    assert!(complaint.contains("before it begins"), "{complaint}");
}

#[test]
fn prices_determine_the_cost_of_a_run_and_of_all_runs() {
    let machine = Machine::new().with_file(
        "neuraxis.toml",
        "[prices.'offline/*']\nprompt = 1_000.0\ncompletion = 2_000.0\n",
    );
    let asked = ["ask", "--format", "json", "What time is it?"];
    let result: Value = serde_json::from_str(&machine.run(asked).stdout_of(0)).unwrap();
    let used = &result["usage"];
    let found = stats(&machine, &[]);
    assert_eq!(
        found["total"]["usage"]["total_tokens"],
        used["total_tokens"]
    );
    assert_eq!(found["total"]["cost_label"], result["cost_label"]);
    assert_eq!(found["total"]["cost_micro_usd"], result["cost_micro_usd"]);
    assert_eq!(
        found["models"][0]["cost_micro_usd"],
        result["cost_micro_usd"]
    );
}

#[test]
fn text_output_has_one_table_per_kind_and_names_its_start() {
    let machine = used_machine();
    let shown = machine.run(["stats", "--since", "7d"]).stdout_of(0);
    assert!(shown.starts_with("since "), "{shown}");
    for heading in ["DAY", "MODEL", "ROLE", "TOOL", "AGENT"] {
        assert!(
            shown.lines().any(|line| line.starts_with(heading)),
            "{shown}"
        );
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let empty = machine.run(["stats", "--since", "2999-01-01"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), ""));
    assert!(empty.stderr.contains("--since all"), "{empty:?}");
    let wrong = machine.run(["stats", "--since", "yesterday"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("an age such as 7d"), "{wrong:?}");
}

#[test]
fn tail_follows_the_newest_or_the_named_run_to_its_end() {
    let machine = used_machine();
    let tailed = machine.run(["runs", "tail"]);
    let shown = redacted(&machine, &tailed.stdout_of(0));
    assert!(shown.contains("missing.txt"), "{shown}");
    let answer = shown.rsplit("\n\n").next().unwrap();
    assert!(
        !answer.trim().is_empty() && !answer.contains("  a0 "),
        "{shown}"
    );
    let last = machine.run(["runs", "tail", "last"]).stdout_of(0);
    assert_eq!(redacted(&machine, &last), shown);
    let run = &machine.runs("trip")[0];
    let events = ["runs", "tail", run, "--format", "events"];
    let followed = machine.run(events).stdout_of(0);
    let shown = machine
        .run(["runs", "show", run, "--format", "events"])
        .stdout_of(0);
    assert_eq!(followed, shown);
    let none = Machine::new().run(["runs", "tail"]);
    assert_eq!(none.code, Some(0));
    assert!(none.stderr.contains("there are no runs yet"), "{none:?}");
}

#[test]
fn in_json_a_run_has_a_tree_with_times() {
    let machine = used_machine();
    let run = &machine.runs("trip")[0];
    let shown = machine
        .run(["runs", "show", run, "--format", "json"])
        .stdout_of(0);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let tree = shown["tree"].as_array().unwrap();
    let turn = tree.iter().find(|node| node["line"] == "turn 1").unwrap();
    let call = &turn["children"][0];
    assert!(
        call["begin_ms"].as_u64() <= call["end_ms"].as_u64(),
        "{call}"
    );
    assert!(turn["end_ms"].as_u64() >= call["end_ms"].as_u64(), "{turn}");
}
