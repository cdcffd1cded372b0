//! The commands that README and documents show: each is run as it stands, on a machine without a model, and none of them is
//! wrong usage.

use std::fs;
use std::path::Path;

use crate::machine::{Done, Machine};

/// The documents whose commands are run, each in order on a machine of its own.
const DOCUMENTS: [&str; 5] = [
    "README.md",
    "docs/pipes.md",
    "docs/models.md",
    "docs/sessions.md",
    "docs/chat.md",
];

/// What commands begin with that are not run here, and why: a person talks, a package is fetched, a key is needed, something
/// else was run before than these documents say, or it is no command of ours.
const ELSEWHERE: [&str; 13] = [
    "neuraxis chat",                                     // a person types
    "neuraxis mcp",                                      // npx fetches a server
    "neuraxis -m gpt",                                   // a key
    "neuraxis -m anthropic",                             // a key
    "neuraxis -m coding",                                // a model for the role
    "neuraxis \"What is wrong here?\"",                  // an image
    "neuraxis approvals", // RUN and QUESTION stand for what a run says
    "neuraxis sessions verify trip --expect", // HEAD stands for a hash
    "neuraxis ask --session 0199f3a1", // an id of somebody's machine
    "neuraxis runs show 0199f3a2", // an id of somebody's machine
    "neuraxis runs fork RUN --at-turn 0 --model coding", // a model for the role
    "neuraxis runs fork RUN --at-turn 1", // goes on where another answer follows
    "neuraxis() {",
];

fn document(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    fs::read_to_string(file).unwrap()
}

/// Returns the lines of the blocks for a shell that call our program, those that go on in the next one as one.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_shell = false;
    let mut begun = String::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(language) => is_shell = !is_shell && matches!(language, "sh" | "bash" | "console"),
            None if is_shell => match line.strip_suffix('\\') {
                Some(more) => begun.push_str(more),
                None => {
                    begun.push_str(line);
                    commands.push(std::mem::take(&mut begun));
                }
            },
            None => {}
        }
    }
    let is_ours = |line: &String| {
        let mut words = line.split("| ").chain(line.split("&& "));
        words.any(|part| part.starts_with("neuraxis "))
    };
    commands.retain(is_ours);
    commands
}

fn is_elsewhere(command: &str) -> bool {
    let mut parts = command.split("| ");
    parts.any(|part| ELSEWHERE.iter().any(|begin| part.starts_with(begin)))
}

/// Runs a command in a shell that knows our program by its name.
fn run(machine: &Machine, command: &str) -> Done {
    let command = command
        .replace(" RUN", " last")
        .replace("\"${store[@]}\"", "");
    let script = format!("neuraxis() {{ \"$0\" \"$@\"; }}\n{command}");
    machine.shell(&script).output().unwrap().into()
}

#[test]
fn the_commands_of_the_documents_run_as_they_stand() {
    for name in DOCUMENTS {
        let machine = Machine::new()
            .with_file("README.md", document("README.md"))
            .with_file("main.rs", "fn main() {}\n")
            .with_file("error.log", "it failed\n");
        let mut count = 0;
        for command in commands(&document(name)) {
            if is_elsewhere(&command) {
                continue;
            }
            count += 1;
            let done = run(&machine, &command);
            let is_wrong =
                done.code == Some(2) && !done.stderr.contains("is your own configuration");
            let is_missing =
                command.contains("neuraxis trust add") && done.stderr.contains("there is no");
            assert!(!is_wrong || is_missing, "{name}: {command}: {done:?}");
            assert!(
                !done.stderr.contains("panicked"),
                "{name}: {command}: {done:?}"
            );
        }
        let expected = if name == "docs/chat.md" { 0 } else { 3 };
        assert!(count >= expected, "{name} shows {count} commands");
    }
}
