//! The output of `--help`.

use crate::machine::Machine;

#[test]
fn every_command_has_help() {
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
        &["sessions", "rename"],
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
        &["runs", "steer"],
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
        &["setup"],
        &["help"],
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
fn without_a_command_the_help_is_printed_as_an_error() {
    let complaint = Machine::new().run([""; 0]).complaint(2);
    assert!(
        complaint.contains("Usage: neuraxis [OPTIONS] <COMMAND>"),
        "{complaint}"
    );
}

#[test]
fn the_version_is_printed() {
    let version = Machine::new().run(["--version"]).stdout_of(0);
    assert_eq!(version, format!("neuraxis {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = Machine::new().run(["completions", shell]).stdout_of(0);
        for word in ["neuraxis", "_NEURAXIS_COMPLETE", shell] {
            assert!(script.contains(word), "{shell}: {word}: {script}");
        }
        // A proposal that begins with `~` would be quoted.
        assert_eq!(script.contains("_files\n"), shell == "zsh", "{script}");
    }
}

#[test]
fn bash_escapes_completed_file_names() {
    const SCRIPT: &str = r#"
        neuraxis() { "$0" "$@"; }
        source <(neuraxis completions bash)
        compopt() { echo "$@"; }
        for typed in sp 'sp\ a' pl; do
            COMP_WORDS=(neuraxis ask -f "$typed")
            COMP_CWORD=3
            _neuraxis_complete neuraxis "$typed" -f
            echo "${COMPREPLY[@]}"
        done
        complete -p neuraxis"#;
    let machine = Machine::new()
        .with_file("sp ace.txt", "")
        .with_file("plain.txt", "");
    let mut bash = machine.shell(r#"exec bash -c "$1" "$0""#);
    let done: crate::machine::Done = bash.arg(SCRIPT).output().unwrap().into();
    let spaced = "+o nospace\n-o filenames\nsp ace.txt\n";
    let expected = format!("{spaced}{spaced}+o nospace\nplain.txt\ncomplete ");
    assert!(done.stdout.starts_with(&expected), "{done:?}");
    let function = " -F _neuraxis_complete neuraxis\n";
    assert!(done.stdout.ends_with(function), "{done:?}");
}

#[test]
fn bash_completes_words_at_its_own_word_breaks() {
    const SCRIPT: &str = r#"
        neuraxis() { "$0" "$@"; }
        source <(neuraxis completions bash)
        compopt() { :; }
        completed() {
            COMP_LINE=$1 COMP_WORDS=("${@:3}") COMP_CWORD=$(($# - 3))
            _neuraxis_complete neuraxis "$2"
            echo "${COMPREPLY[@]}"
        }
        completed 'neuraxis sessions show f:' '' neuraxis sessions show f :
        completed 'neuraxis sessions show f:1' 1 neuraxis sessions show f : 1
        completed 'neuraxis ask --session=f:1' 1 neuraxis ask --session = f : 1
        completed 'neuraxis ask --mode=mo' mo neuraxis ask --mode = mo
        completed 'neuraxis ask --mode = mo' mo neuraxis ask --mode = mo"#;
    let machine = Machine::new();
    let ask = ["ask", "--session", "f:12-3", "What time is it?"];
    machine.run(ask).stdout_of(0);
    let mut bash = machine.shell(r#"exec bash -c "$1" "$0""#);
    let done: crate::machine::Done = bash.arg(SCRIPT).output().unwrap().into();
    assert_eq!(done.stdout, "12-3\n12-3\n12-3\nmoderate\n\n", "{done:?}");
}

/// Requests completion of the last of these words, as a shell does.
fn completed(machine: &Machine, words: &[&str]) -> String {
    let mut command = machine.command(["--", "neuraxis"].iter().chain(words));
    command.env("_NEURAXIS_COMPLETE", "fish");
    let done: crate::machine::Done = command.output().unwrap().into();
    assert_eq!(done.stderr, "");
    done.stdout_of(0)
}

#[test]
fn completion_writes_nothing_else_to_the_terminal() {
    let machine = Machine::new().with_untrusted("[models.reasoning]\nprovider = 'offline'\n");
    let ask = ["ask", "--session", "garden", "What time is it?"];
    machine.run(ask).stdout_of(0);
    let shown = completed(&machine, &["ask", "--session", "g"]);
    assert!(shown.contains("garden"), "{shown}");
}

#[test]
fn commands_flags_and_current_values_are_completed() {
    let machine = Machine::new().with_file(
        "neuraxis.toml",
        "[agents.helper]\ninstructions = 'Help.'\n[models.reasoning]\nprovider = 'offline'\n\
         [mcp.servers.notes]\ncommand = 'notes'\nenabled = false\n",
    );
    let ask = ["ask", "--session", "garden", "What time is it?"];
    machine.run(ask).stdout_of(0);
    let commands = completed(&machine, &[""]);
    assert!(!commands.contains("--schema"), "{commands}");
    for (words, expected) in [
        (&["sess"][..], "sessions"),
        (&["sessions", "pr"], "prune"),
        (&["sessions", "ren"], "rename"),
        (&["sessions", "list", "--se"], "--search"),
        (&["runs", "repl"], "replay"),
        (&["ask", "--no-s"], "--no-stream"),
        (&["ask", "--mode", ""], "exploratory"),
        (&["ask", "--channel", "code"], "code_task"),
        (&["chat", "--agent", "hel"], "helper"),
        (&["chat", "-m", ""], "reasoning"),
        (&["ask", "--session", "g"], "garden\tWhat time is it?"),
        (&["runs", "show", ""], "What time is it?"),
        (&["runs", "tail", ""], "What time is it?"),
        (&["runs", "fork", "last", "--model", ""], "reasoning"),
        (&["tools", "call", "curr"], "current_time"),
        (&["policy", "explain", "--tool", "curr"], "current_time"),
        (&["mcp", "remove", "no"], "notes"),
        (&["help", "pol"], "policy"),
        (&["help", "sess"], "sessions"),
        (&["-m", ""], "reasoning"),
        (&["--session", "g"], "garden"),
        (&["-c", "--mo"], "--model"),
        (&["What time is it?", "--chan"], "--channel"),
        (&["-q", "sessions", "pr"], "prune"),
    ] {
        let completed = completed(&machine, words);
        assert!(completed.contains(expected), "{words:?}: {completed}");
    }
    let rename = ["sessions", "rename", "garden", "What the clock says"];
    machine.run(rename).stdout_of(0);
    let completed = completed(&machine, &["sessions", "show", "g"]);
    assert!(
        completed.contains("garden\tWhat the clock says"),
        "{completed}"
    );
}

#[test]
fn a_prefix_is_completed_however_many_sessions_and_runs_are_newer() {
    let machine = Machine::new();
    let question = "What time is it?";
    let ask = ["ask", "--session", "garden", "--format", "json", question];
    let answer = machine.run(ask).stdout_of(0);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let run = answer["run_id"].as_str().unwrap();
    let lines = "What time is it?\n/new\n".repeat(25);
    machine.run_with_input(["chat"], lines).stdout_of(0);
    let sessions = completed(&machine, &["sessions", "show", "gar"]);
    assert!(sessions.contains("garden"), "{sessions}");
    let runs = completed(&machine, &["runs", "show", &run[..run.len() - 2]]);
    assert!(runs.contains(run), "{runs}");
}

#[test]
fn approval_commands_complete_only_waiting_runs() {
    let machine = Machine::new();
    let ask = ["ask", "--set", "modes.moderate.tools.read_only=ask"];
    let waiting = [&ask[..], &["--wait", "--session", "w", "What time is it?"]].concat();
    machine.run(waiting).complaint(5);
    let run = machine.runs("w").remove(0);
    // Newer runs that have ended.
    let lines = "What time is it?\n/new\n".repeat(25);
    machine.run_with_input(["chat"], lines).stdout_of(0);
    for answer in ["approve", "deny", "show"] {
        let shown = completed(&machine, &["approvals", answer, &run[..2]]);
        let ids = shown.lines().map(|line| line.split('\t').next().unwrap());
        assert_eq!(ids.collect::<Vec<_>>(), [run.as_str()]);
    }
}
