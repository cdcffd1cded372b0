//! Tools that write, run, plan and ask, called in a run and therefore subject to the policy.

use serde_json::Value;

use crate::machine::Machine;

const WRITE: &str = r#"write_file {"path": "new.txt", "content": "x"}"#;

fn in_mode(machine: &Machine, mode: &str, message: &str) {
    machine.run(["ask", "--channel", "code_task", "--mode", mode, message]);
}

#[test]
fn a_question_to_the_user_is_the_reply_and_ends_the_run() {
    let question = r#"ask_user {"question": "Which branch?", "options": ["main", "next"]}"#;
    let done = Machine::new()
        .run(["ask", "--format", "json", question])
        .stdout_of(0);
    let result: Value = serde_json::from_str(&done).unwrap();
    assert_eq!(result["reply"], "Which branch?\n1. main\n2. next");
    assert_eq!(result["finish_reason"], "clarify");
    assert_eq!(result["status"], "done");
}

#[test]
fn a_plan_is_a_record_of_the_run() {
    let plan = r#"update_plan {"steps": [{"step": "Look", "status": "pending"}]}"#;
    let events = Machine::new()
        .run(["ask", "--format", "events", plan])
        .events();
    let kept = events.iter().find(|event| event["type"] == "plan").unwrap();
    assert_eq!(kept["plan"]["steps"][0]["step"], "Look");
}

#[test]
fn only_exploratory_mode_writes_a_file_without_approval() {
    for (mode, written) in [
        ("conservative", false),
        ("moderate", false),
        ("exploratory", true),
    ] {
        let machine = Machine::new();
        in_mode(&machine, mode, WRITE);
        assert_eq!(machine.path("new.txt").exists(), written, "{mode}");
    }
}

#[test]
fn a_fork_of_an_imported_run_does_not_inherit_its_mode() {
    let elsewhere = Machine::new();
    let free = ["--channel", "code_task", "--mode", "exploratory", "Hello"];
    let ask = ["ask", "--session", "trip"].into_iter().chain(free);
    // Whether there is an answer does not matter.
    elsewhere.run(ask);
    let exported = elsewhere.run(["sessions", "export", "trip"]).stdout_of(0);
    let machine = Machine::new().with_file("trip.jsonl", &exported);
    machine
        .run(["sessions", "import", "trip.jsonl"])
        .stdout_of(0);
    let forked = machine.run(["runs", "fork", "last", "--message", WRITE]);
    assert!(
        forked.stderr.contains("was imported, so its mode"),
        "{forked:?}"
    );
    assert!(!machine.path("new.txt").exists(), "{forked:?}");
}

#[test]
fn a_run_of_another_folder_is_not_offered_for_resumption_here() {
    let machine = Machine::new();
    std::fs::create_dir(machine.path("other")).unwrap();
    let waits = ["ask", "--session", "s", "--wait", "--channel", "code_task"];
    machine.run(waits.into_iter().chain([WRITE])).complaint(5);
    let elsewhere = ["chat", "--session", "s", "--set", "tools.root=other"];
    let done = machine.run_with_input(elsewhere, "And now?\n");
    let way = "--cancel` ends it from any folder; in its own folder, /resume continues it";
    assert_eq!(done.stderr.matches(way).count(), 2, "{done:?}");
}

#[test]
fn a_refused_chat_does_not_announce_a_session_to_continue() {
    let machine = Machine::new();
    in_mode(&machine, "moderate", "Hello");
    let refused = machine.run(["chat", "-c", "--plan", "none"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("none"), "{refused:?}");
    assert!(!refused.stderr.contains("continuing like"), "{refused:?}");
}

#[test]
fn undo_and_retry_report_calls_that_are_not_undone() {
    let chat = ["chat", "--channel", "code_task", "--mode", "exploratory"];
    let stays = "its calls are not undone: write_file new.txt\n";
    let machine = Machine::new();
    let lines = format!("{WRITE}\n/retry\n/undo\n");
    let done = machine.run_with_input(chat, lines);
    assert!(done.stderr.contains(&format!("note: {stays}")), "{done:?}");
    assert!(done.stdout.contains(stays), "{done:?}");
    let read = r#"read_file {"path": "new.txt"}"#;
    let done = machine.run_with_input(chat, format!("{read}\n/undo\n"));
    let seen = done.stdout_of(0);
    assert!(
        seen.contains("undone: ") && !seen.contains("not undone"),
        "{seen}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_runs_in_no_built_in_mode_unless_a_rule_allows_it() {
    let command = r#"run_command {"command": "touch ran"}"#;
    let rule =
        "[rules.touch]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['touch ran']\n";
    for mode in ["conservative", "moderate", "exploratory"] {
        let machine = Machine::new();
        in_mode(&machine, mode, command);
        assert!(!machine.path("ran").exists(), "{mode}");

        let machine = Machine::new().with_file("neuraxis.toml", rule);
        in_mode(&machine, mode, command);
        assert_eq!(
            machine.path("ran").exists(),
            mode != "conservative",
            "{mode}"
        );
        let other = r#"run_command {"command": "touch ran && touch other"}"#;
        in_mode(&machine, mode, other);
        assert!(!machine.path("other").exists(), "{mode}");
    }
}
