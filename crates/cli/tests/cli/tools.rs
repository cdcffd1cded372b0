//! `neuraxis tools`.

use serde_json::{Value, json};

use crate::machine::Machine;

/// The tools, and what a call of each may change.
const TOOLS: [(&str, &str); 14] = [
    ("current_time", "read_only"),
    ("calculate", "read_only"),
    ("ask_user", "read_only"),
    ("update_plan", "read_only"),
    ("system_health", "read_only"),
    ("web_fetch", "read_only"),
    ("list_files", "read_only"),
    ("read_file", "read_only"),
    ("search_files", "read_only"),
    ("write_file", "idempotent"),
    ("apply_patch", "irreversible"),
    ("run_command", "irreversible"),
    ("research", "read_only"),
    ("read_output", "read_only"),
];

#[test]
fn tools_are_listed_with_their_class_and_whether_they_run() {
    let list = Machine::new().run(["tools", "list"]).stdout_of(0);
    let names: Vec<&str> = list.lines().filter(|line| !line.starts_with(' ')).collect();
    let listed = TOOLS.map(|(name, class)| {
        let may = match name {
            // It returns untrusted content.
            "web_fetch" => "ask",
            _ if class == "read_only" => "allow",
            _ => "ask",
        };
        format!("{name} ({class}) · {may}")
    });
    assert_eq!(names, listed);
}

#[test]
fn in_json_tools_are_listed_with_their_schemas() {
    let list = Machine::new()
        .run(["tools", "list", "--format", "json"])
        .stdout_of(0);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let names: Vec<&str> = list
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, TOOLS.map(|(name, _)| name));
    for (tool, (_, class)) in list.iter().zip(TOOLS) {
        assert_eq!(tool["parameters"]["type"], "object", "{tool}");
        assert_eq!(tool["class"], class, "{tool}");
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
fn arguments_may_be_omitted() {
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

/// Calls a tool, which must succeed, and returns its result.
fn call(machine: &Machine, tool: &str, arguments: &str) -> Value {
    let result = machine.run(["tools", "call", tool, arguments]).stdout_of(0);
    serde_json::from_str(&result).unwrap()
}

#[test]
fn tools_that_only_need_this_machine_can_be_called() {
    let machine = Machine::new();
    let result = call(&machine, "calculate", r#"{"expression": "0.1 + 0.2"}"#);
    assert_eq!(result["result"], "0.3");
    let result = call(&machine, "ask_user", r#"{"question": "Which?"}"#);
    assert_eq!(result["question"], "Which?");
    let plan = r#"{"steps": [{"step": "Look", "status": "in_progress"}]}"#;
    assert_eq!(call(&machine, "update_plan", plan)["in_progress"], 1);
    let refused = machine.run(["tools", "call", "calculate", r#"{"expression": "1 / 0"}"#]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("calculate failed"),
        "{}",
        refused.stderr
    );
}

#[test]
fn files_can_be_written_and_patched_only_inside_the_root() {
    let machine = Machine::new();
    let write = r#"{"path": "a.txt", "content": "one\ntwo\n"}"#;
    assert_eq!(call(&machine, "write_file", write)["change"], "created");
    let patch = r#"{"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n"}"#;
    call(&machine, "apply_patch", patch);
    let content = std::fs::read_to_string(machine.path("a.txt")).unwrap();
    assert_eq!(content, "ONE\ntwo\n");
    let out = r#"{"path": "../out.txt", "content": "x"}"#;
    let refused = machine.run(["tools", "call", "write_file", out]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("outside_root"),
        "{}",
        refused.stderr
    );
    assert!(!machine.path("../out.txt").exists());
}

#[test]
fn lines_quoted_in_an_error_keep_their_whitespace() {
    let machine = Machine::new();
    let write = r#"{"path": "a.txt", "content": "if x:\n    y\n"}"#;
    call(&machine, "write_file", write);
    let patch = r#"{"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1 @@\n if x:\n-  y\n"}"#;
    let refused = machine.run(["tools", "call", "apply_patch", patch]);
    let complaint = refused.complaint(1);
    let expected = r#"where the hunk expects "  y\n", in line 2, the file has "    y\n""#;
    assert!(complaint.contains(expected), "{complaint}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_runs_in_the_sandbox_and_without_secrets_from_the_environment() {
    let machine = Machine::new();
    let command = r#"{"command": "pwd >> ran; echo \"[$MY_SECRET_TOKEN]\"; echo x > ../escaped; cat ran | wc -l"}"#;
    let done = machine
        .command(["tools", "call", "run_command", command])
        .env("MY_SECRET_TOKEN", "hunter2")
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(result["exit_code"], 0, "{result}");
    assert_eq!(result["stdout"], "[]\n1\n", "{result}");
    assert!(!machine.path("../escaped").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_ends_with_the_program_even_if_that_is_killed() {
    use std::time::{Duration, Instant};

    let machine = Machine::new();
    let time = format!("1000.{}", std::process::id());
    let command = json!({ "command": format!("env -i setsid sleep {time} & echo \"$TMPDIR\" > begun; mv begun child; wait") });
    let command = &command.to_string();
    let mut program = machine
        .command(["tools", "call", "run_command", command])
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !machine.path("child").exists() {
        assert!(Instant::now() < deadline, "the command did not begin");
        std::thread::yield_now();
    }
    let child = std::fs::read_to_string(machine.path("child")).unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    let is_there = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
        lines.any(|line| String::from_utf8_lossy(&line).contains(&time))
    };
    let deadline = Instant::now() + Duration::from_secs(3);
    while is_there() || std::path::Path::new(child.trim()).exists() {
        assert!(
            Instant::now() < deadline,
            "it, or its folder, is still there"
        );
        std::thread::yield_now();
    }
}
