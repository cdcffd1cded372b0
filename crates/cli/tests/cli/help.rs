//! What `--help` says.

use crate::machine::Machine;

#[test]
fn every_command_explains_itself() {
    let commands = [
        &[][..],
        &["ask"],
        &["chat"],
        &["approvals"],
        &["approvals", "list"],
        &["approvals", "show"],
        &["approvals", "approve"],
        &["approvals", "deny"],
        &["sessions"],
        &["sessions", "list"],
        &["sessions", "show"],
        &["sessions", "delete"],
        &["sessions", "export"],
        &["sessions", "import"],
        &["sessions", "verify"],
        &["sessions", "prune"],
        &["runs"],
        &["runs", "list"],
        &["runs", "show"],
        &["runs", "output"],
        &["runs", "replay"],
        &["runs", "fork"],
        &["runs", "resume"],
        &["runs", "cassette"],
        &["agents"],
        &["agents", "list"],
        &["tools"],
        &["tools", "list"],
        &["tools", "call"],
        &["mcp"],
        &["mcp", "list"],
        &["mcp", "add"],
        &["mcp", "remove"],
        &["mcp", "test"],
        &["mcp", "trust"],
        &["policy"],
        &["policy", "explain"],
        &["policy", "check"],
        &["policy", "test"],
        &["mcp"],
        &["mcp", "serve"],
        &["eval"],
        &["eval", "add"],
        &["models"],
        &["doctor"],
        &["config"],
        &["config", "show"],
        &["config", "init"],
        &["trust"],
        &["trust", "show"],
        &["trust", "add"],
        &["trust", "remove"],
        &["completions"],
    ];
    for command in commands {
        let help = Machine::new()
            .run(command.iter().chain(&["--help"]))
            .stdout_of(0);
        let name = ["neuraxis"]
            .iter()
            .chain(command)
            .copied()
            .collect::<Vec<_>>()
            .join("_");
        insta::assert_snapshot!(name, help);
    }
}

#[test]
fn without_a_command_the_help_is_a_complaint() {
    let complaint = Machine::new().run([""; 0]).complaint(2);
    assert!(
        complaint.contains("Usage: neuraxis [OPTIONS] <COMMAND>"),
        "{complaint}"
    );
}

#[test]
fn the_version_is_told() {
    let version = Machine::new().run(["--version"]).stdout_of(0);
    assert_eq!(version, format!("neuraxis {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = Machine::new().run(["completions", shell]).stdout_of(0);
        for word in ["no-stream", "sessions", "prune", "replay"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}
