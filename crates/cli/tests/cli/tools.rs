//! `neuraxis tools`.

use serde_json::Value;

use crate::machine::Machine;

const NAMES: [&str; 5] = [
    "current_time",
    "system_health",
    "list_files",
    "read_file",
    "search_files",
];

#[test]
fn tools_are_listed_with_what_they_may_change() {
    let list = Machine::new().run(["tools", "list"]).stdout_of(0);
    let names: Vec<&str> = list.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(names, NAMES.map(|name| format!("{name} (read-only)")));
}

#[test]
fn as_json_tools_are_listed_with_their_schemas() {
    let list = Machine::new()
        .run(["tools", "list", "--format", "json"])
        .stdout_of(0);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let names: Vec<&str> = list
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, NAMES);
    for tool in &list {
        assert_eq!(tool["parameters"]["type"], "object", "{tool}");
        assert_eq!(tool["class"], "read_only", "{tool}");
        assert!(tool["description"].is_string(), "{tool}");
    }
}

#[test]
fn a_result_is_pretty_json_on_standard_output() {
    let machine = Machine::new().with_file("notes.txt", "one\ntwo\n");
    let done = machine.run(["tools", "call", "read_file", r#"{"path": "notes.txt"}"#]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(done.stdout.starts_with("{\n  \""), "{}", done.stdout);
    let result: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(result.to_string().contains("one"), "{result}");
}

#[test]
fn arguments_may_be_left_out() {
    let result = Machine::new()
        .run(["tools", "call", "current_time"])
        .stdout_of(0);
    let result: Value = serde_json::from_str(&result).unwrap();
    assert!(result["unix_seconds"].as_i64().unwrap() > 1_700_000_000);
}

#[test]
fn the_root_of_the_file_tools_can_be_configured() {
    let machine = Machine::new();
    std::fs::create_dir(machine.path("project")).unwrap();
    let machine = machine
        .with_file("project/inside.txt", "in")
        .with_file("outside.txt", "out")
        .with_file("neuraxis.toml", "[tools]\nroot = 'project'\n");
    let list = machine.run(["tools", "call", "list_files"]).stdout_of(0);
    assert!(
        list.contains("inside.txt") && !list.contains("outside.txt"),
        "{list}"
    );
}
