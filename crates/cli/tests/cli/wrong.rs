//! What is reported about wrong usage, wrong configuration and wrong arguments, with which exit code.

use crate::machine::Machine;

/// Runs each command and returns its error message.
fn complaints(code: i32, commands: &[&[&str]]) -> String {
    let machine = Machine::new()
        .with_file("unknown.toml", "[modes.moderate]\nmax_turn = 5\n")
        .with_file("type.toml", "\n[modes.moderate]\nmax_turns = 'five'\n")
        .with_file("syntax.toml", "[store\n")
        .with_file("latin1.toml", b"# caf\xe9\n")
        .with_file("policy.toml", "[channels.chat]\nrole = 'reasonig'\n")
        .with_file("provider.toml", "[models.reasoning]\nprovider = 'opnai'\n")
        .with_file(
            "store.toml",
            "[store]\nurl = 'mongodb://me:hunter2@host/db'\n",
        )
        .with_file("root.toml", "[tools]\nroot = 'no/such/folder'\n");
    let complain = |arguments: &&[&str]| {
        let complaint = machine.run(*arguments).complaint(code);
        format!("$ neuraxis {}\n{complaint}", arguments.join(" "))
    };
    let complaints: Vec<String> = commands.iter().map(complain).collect();
    let complaints = complaints.join("\n");
    assert!(!complaints.contains("hunter2"), "{complaints}");
    complaints.replace(&machine.root().display().to_string(), "~")
}

#[test]
fn usage_errors_exit_with_code_2_and_a_hint() {
    insta::assert_snapshot!(complaints(
        2,
        &[
            &["ask", "--mode", "modrate", "Hi"],
            &["ask", "--mode", "yolo", "Hi"],
            &["ask", "--channel", "chatt", "Hi"],
            &["ask", "--channel", "deep_research", "Hi"],
            &["ask", " \n "],
            &["ask"],
            &["ask", "--session", "a b", "Hi"],
            &["ask", "--format", "xml", "Hi"],
            &["ask", "--set", "x", "Hi"],
            &["ask", "--loud", "Hi"],
            &["aks", "Hi"],
            &["completions", "cobol"],
            &["tools", "call"],
            &["tools", "call", "read_fil"],
            &["tools", "call", "../x\u{1b}[2J"],
            &["tools", "call", "read_file", "README.md"],
            &["tools", "call", "read_file", "{\"path\": "],
            &["tools", "call", "read_file", "{\"path\": 7}"],
            &["tools", "call", "read_file", "{\"pth\": \"x\"}"],
            &["tools", "call", "read_file"],
            &["tools", "call", "read_file", "[]"],
        ]
    ));
}

#[test]
fn configuration_errors_exit_with_code_2_and_name_the_location_and_nearest_key() {
    insta::assert_snapshot!(complaints(
        2,
        &[
            &["ask", "--config", "nope.toml", "Hi"],
            &["--config", "no/such/folder/neuraxis.toml", "config", "show"],
            &["ask", "--config", "unknown.toml", "Hi"],
            &["ask", "--config", "type.toml", "Hi"],
            &["ask", "--config", "syntax.toml", "Hi"],
            &["ask", "--config", "latin1.toml", "Hi"],
            &["ask", "--config", "policy.toml", "Hi"],
            &["ask", "--config", "provider.toml", "Hi"],
            &["ask", "--config", "store.toml", "Hi"],
            &["ask", "--config", "root.toml", "Hi"],
            &["tools", "list", "--config", "unknown.toml"],
            &["config", "show", "--config", "unknown.toml"],
            &["ask", "--set", "modes.moderate.max_turn=5", "Hi"],
        ]
    ));
}

/// One rule: anything named on the command line or in the configuration that cannot be used is wrong usage.
#[test]
fn a_missing_or_unusable_argument_exits_with_code_2_in_every_command() {
    let machine = Machine::new().with_file("taken", "something");
    machine
        .run(["ask", "--session", "s", "What time is it?"])
        .stdout_of(0);
    let run = machine.runs("s").swap_remove(0);
    let run = run.as_str();
    let nowhere = "store.url=sqlite://no/such/folder/sessions.db";
    let table: &[&[&str]] = &[
        &["ask", "--config", "missing", "Hi"],
        &["ask", "--config", ".", "Hi"],
        &["ask", "--plan", "missing", "Hi"],
        &["ask", "--replay", "missing", "Hi"],
        &["ask", "--replay", ".", "Hi"],
        &["ask", "--record", "missing/file", "Hi"],
        &["ask", "--record", "taken", "Hi"],
        &["ask", "--set", nowhere, "Hi"],
        &["chat", "--config", "missing"],
        &["chat", "--plan", "missing"],
        &["chat", "--channel", "deep_research"],
        &["chat", "--set", nowhere],
        &["policy", "check", "missing"],
        &["policy", "check", "."],
        &["policy", "test", "missing"],
        &["policy", "test", "."],
        &["sessions", "import", "missing"],
        &["sessions", "import", "."],
        &["sessions", "export", "s", "--output", "missing/file"],
        &["sessions", "export", "s", "--output", "taken"],
        &["sessions", "export", "s", "--output", "."],
        &["sessions", "list", "--set", nowhere],
        &["sessions", "show", "missing"],
        &["runs", "show", "missing"],
        &["runs", "resume", "missing"],
        &["runs", "fork", run, "--at-turn", "9"],
        &["runs", "replay", "missing.jsonl"],
        &["runs", "replay", "./"],
        &["runs", "cassette", run, "missing/file"],
        &["runs", "cassette", run, "taken"],
        &["approvals", "show", "missing"],
        &["approvals", "approve", "missing"],
        &["config", "init", "--config", "missing/file"],
        &["config", "init", "--config", "taken"],
        &["config", "show", "--config", "missing"],
        &["tools", "list", "--config", "missing"],
        &["tools", "call", "missing"],
    ];
    let codes: Vec<_> = table.iter().map(|line| machine.run(*line).code).collect();
    let others = table
        .iter()
        .zip(&codes)
        .filter(|(_, code)| **code != Some(2));
    let others: Vec<_> = others.collect();
    assert!(others.is_empty(), "{others:#?}");
    let complaint = machine.run(["ask", "--set", nowhere, "Hi"]).complaint(2);
    let expected =
        "error: wrong configuration: --set: store.url: there is no folder no/such/folder\n";
    assert!(complaint.starts_with(expected), "{complaint}");
    assert!(
        !machine.path("no").exists(),
        "a folder was made that nobody asked for"
    );
    assert_eq!(std::fs::read(machine.path("taken")).unwrap(), b"something");
}

#[test]
fn a_variable_for_an_unknown_key_is_refused_by_name() {
    let machine = Machine::new();
    let mut command = machine.command(["ask", "Hi"]);
    command.env("NEURAXIS_MODELS__REASONING__PROVIDR", "offline");
    let complaint = crate::machine::Done::from(command.output().unwrap()).complaint(2);
    let expected = "error: wrong configuration: NEURAXIS_MODELS__REASONING__PROVIDR: unknown key \"providr\" in \
                    [models.reasoning] (did you mean provider?); known: ";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn an_error_in_the_file_of_the_working_directory_is_found() {
    let machine = Machine::new().with_file("neuraxis.toml", "[modles.reasoning]\n");
    let complaint = machine.run(["ask", "Hi"]).complaint(2);
    let expected = "error: wrong configuration: neuraxis.toml:1:2: unknown key \"modles\" (did you mean models?)";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn a_failing_tool_exits_with_code_1_and_prints_only_the_reason() {
    let machine = Machine::new();
    for (tool, arguments, cause) in [
        ("read_file", r#"{"path": "missing.txt"}"#, "missing.txt"),
        (
            "list_files",
            r#"{"path": "no/such/folder"}"#,
            "no/such/folder",
        ),
        ("read_file", r#"{"path": "../secret"}"#, "../secret"),
        (
            "current_time",
            r#"{"time_zone": "Europa/Berlin"}"#,
            "Europe/Berlin",
        ),
    ] {
        let complaint = machine.run(["tools", "call", tool, arguments]).complaint(1);
        let expected = format!("error: {tool} failed\n  because: ");
        assert!(complaint.starts_with(&expected), "{complaint}");
        assert!(complaint.contains(cause), "{complaint}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_deleted_working_directory_is_named() {
    let machine = Machine::new();
    let binary = machine.command([""; 0]);
    let mut shell = std::process::Command::new("sh");
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" ask Hi";
    shell.args(["-c", script]).arg(binary.get_program());
    let output = shell.current_dir(machine.root()).output().unwrap();
    let complaint = crate::machine::Done::from(output).complaint(2);
    let expected = "error: wrong configuration: cannot read the working directory\n  because: ";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn a_question_that_is_too_large_empty_or_not_text_is_refused() {
    let machine = Machine::new();
    let complaint = machine
        .run_with_input(["ask", "-"], "x".repeat(1024 * 1024 + 1))
        .complaint(2);
    let expected =
        "error: wrong usage: the question on standard input is larger than 1048576 bytes\n";
    assert!(complaint.starts_with(expected), "{complaint}");
    let complaint = machine
        .run_with_input(["ask", "-"], [b'a', 0xff])
        .complaint(2);
    let expected = "error: wrong usage: the question on standard input is not text\n";
    assert!(complaint.starts_with(expected), "{complaint}");
    let complaint = machine.run_with_input(["ask"], "").complaint(2);
    assert!(
        complaint.starts_with("error: wrong usage: the message is empty\n"),
        "{complaint}"
    );
}
