//! Commands when nothing can confine them: the binary under a kernel that reports no Landlock.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use serde_json::{Value, json};

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

/// The name of the setting in text for the user.
const SETTING: &str = "tools.commands = \"unconfined\"";

/// The variables that tell the test below which program to become: the program, its arguments, and where its output
/// goes.
const PROGRAM: &str = "TEST_PROGRAM";
const ARGUMENTS: &str = "TEST_ARGUMENTS";
const OUTPUT: &str = "TEST_OUTPUT";

/// Not a test on its own: the process of this test becomes the given program, on a kernel without Landlock. Safe code
/// cannot do that between fork and exec.
#[test]
#[ignore = "it is started by the tests of this file"]
fn becomes_a_program_without_landlock() {
    let Ok(program) = std::env::var(PROGRAM) else {
        return;
    };
    let arguments: Vec<String> = serde_json::from_str(&std::env::var(ARGUMENTS).unwrap()).unwrap();
    let output = std::env::var(OUTPUT).unwrap();
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let none = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(none, SeccompAction::Allow, missing, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    apply_filter(&filter).unwrap();
    let error = Command::new(program)
        .args(arguments)
        .env_remove(PROGRAM)
        .env_remove(ARGUMENTS)
        .env_remove(OUTPUT)
        .stdin(Stdio::null())
        .stdout(File::create(format!("{output}.out")).unwrap())
        .stderr(File::create(format!("{output}.err")).unwrap())
        .exec();
    panic!("{error}");
}

/// Runs a command of the program without Landlock.
fn run(machine: &Machine, arguments: &[&str]) -> Done {
    let ours = machine.command(arguments);
    let output = machine.root().join("output");
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "--ignored", "--nocapture"])
        .arg("no_sandbox::becomes_a_program_without_landlock")
        .current_dir(ours.get_current_dir().unwrap())
        .stdin(Stdio::null());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => test.env(name, value),
            None => test.env_remove(name),
        };
    }
    test.env("MY_KEY", "sk-test")
        .env(PROGRAM, ours.get_program())
        .env(ARGUMENTS, json!(arguments).to_string())
        .env(OUTPUT, &output);
    let done = test.output().unwrap();
    let read = |ending: &str| std::fs::read_to_string(output.with_extension(ending)).unwrap();
    Done {
        code: done.status.code(),
        stdout: read("out"),
        stderr: read("err"),
    }
}

/// Returns a machine whose user lets commands run without a sandbox.
fn unconfined() -> Machine {
    Machine::new().with_file("neuraxis.toml", "[tools]\ncommands = 'unconfined'\n")
}

const EVERYTHING: &str = r#"{"command": "echo ran >> ran; cat ran", "access": ["network", "git"]}"#;

#[test]
fn without_a_sandbox_run_command_is_not_offered_and_the_reason_is_given() {
    let machine = Machine::new();
    let done = run(&machine, &["tools", "list"]);
    assert!(!done.stdout.contains("run_command"), "{done:?}");
    assert!(done.stdout.contains("write_file"), "{done:?}");
    for said in ["run_command is not offered", "no Landlock", SETTING] {
        assert!(done.stderr.contains(said), "{said}: {done:?}");
    }

    let call = ["tools", "call", "run_command", EVERYTHING];
    let said = run(&machine, &call).complaint(2);
    assert!(
        said.contains("no Landlock") && said.contains(SETTING),
        "{said}"
    );
    assert!(!machine.path("ran").exists());

    let explain = [
        "policy",
        "explain",
        "--channel",
        "code_task",
        "--tool",
        "run_command",
    ];
    let said = run(&machine, &explain).complaint(2);
    assert!(
        said.contains("no Landlock") && said.contains(SETTING),
        "{said}"
    );

    let doctor = run(&machine, &["doctor", "--offline"]).stdout_of(0);
    let doctor: String = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "the tool run_command is not offered",
        "no Landlock",
        SETTING,
    ] {
        assert!(doctor.contains(said), "{said}: {doctor}");
    }
}

#[test]
fn a_rule_about_unavailable_commands_is_a_warning_not_an_error() {
    let rule = "[rules.builds]\ntools = ['run_command']\ncommands = ['make']\nanswer = 'allow'\n";
    let machine = Machine::new().with_file("neuraxis.toml", rule);
    let done = run(&machine, &["ask", "What time is it?"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stderr
            .contains("neuraxis.toml:2: rules.builds.tools: there is no tool run_command"),
        "{done:?}"
    );
    let done = run(&machine, &["policy", "check", "neuraxis.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_model_that_calls_the_missing_tool_anyway_receives_the_reason() {
    let calls = Turn::Calls(&[("run_command", EVERYTHING)]);
    let model = Scripted::start([calls, Turn::Says(&["No commands here."])]);
    let machine = model.machine();
    let done = run(&machine, &["ask", "Build it.", "--channel", "code_task"]);
    assert_eq!(done.stdout, "No commands here.\n", "{done:?}");
    let result = model.results();
    assert!(
        result.contains("there is no tool run_command here") && result.contains("no Landlock"),
        "{result}"
    );
    assert!(!result.contains("unconfined"), "{result}");
    assert!(!machine.path("ran").exists());
}

#[test]
fn a_temporary_folder_that_cannot_be_created_is_named_without_suggesting_unconfined() {
    let machine = Machine::new();
    let run = |arguments: &[&str]| -> Done {
        let mut command = machine.command(arguments);
        let output = command.env("TMPDIR", "/nonexistent/tmp").output();
        output.unwrap().into()
    };
    let doctor = run(&["doctor", "--offline"]).stdout_of(0);
    let call = run(&["tools", "call", "run_command", EVERYTHING]).complaint(2);
    for said in [doctor, call] {
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("folder for commands in /nonexistent/tmp"),
            "{said}"
        );
        assert!(said.contains("TMPDIR"), "{said}");
        assert!(!said.contains("unconfined"), "{said}");
        assert!(!said.contains("a Linux kernel"), "{said}");
    }
}

#[test]
fn the_unconfined_setting_lets_commands_run_and_gives_a_notice() {
    let machine = unconfined();
    let done = run(&machine, &["tools", "call", "run_command", EVERYTHING]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let result: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(result["stdout"], "ran\n", "{result}");
    let asked = run(&machine, &["ask", "What is 1 + 1?"]);
    let notice = "neuraxis.toml:2: commands run without a sandbox";
    assert!(asked.stderr.contains(notice), "{asked:?}");
    let less = ["tools", "call", "run_command", r#"{"command": "true"}"#];
    let said = run(&machine, &less).complaint(2);
    assert!(said.contains("access"), "{said}");
    let doctor = run(&machine, &["doctor", "--offline"]).stdout_of(0);
    let doctor: String = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        doctor.contains("there is none, and commands run without it"),
        "{doctor}"
    );
}

#[test]
fn an_unconfined_command_needs_approval_unless_a_rule_grants_all_its_access() {
    let verdict = |machine: &Machine, mode: &str, arguments: &str| {
        let explain = [
            "policy",
            "explain",
            "--channel",
            "code_task",
            "--mode",
            mode,
            "--tool",
            "run_command",
            "--arguments",
            arguments,
            "--format",
            "json",
        ];
        let text = run(machine, &explain).stdout_of(0);
        let explained: Value = serde_json::from_str(&text).unwrap();
        explained["call"]["verdict"]["verdict"]
            .as_str()
            .map(str::to_owned)
            .unwrap()
    };
    for mode in ["moderate", "exploratory"] {
        assert_eq!(verdict(&unconfined(), mode, EVERYTHING), "ask", "{mode}");
    }
    let rule = |access: &str| {
        let rule = format!(
            "[tools]\ncommands = 'unconfined'\n[rules.mine]\ntools = ['run_command']\n\
             commands = ['echo **', 'cat **']\naccess = [{access}]\nanswer = 'allow'\n"
        );
        Machine::new().with_file("neuraxis.toml", rule)
    };
    let plain = r#"{"command": "echo ran", "access": ["network", "git"]}"#;
    assert_eq!(verdict(&rule("'network'"), "moderate", plain), "ask");
    assert_eq!(
        verdict(&rule("'network', 'git'"), "moderate", plain),
        "allow"
    );
}

#[test]
fn the_approval_states_that_the_command_is_unconfined_and_it_runs_once_approved() {
    let calls = Turn::Calls(&[("run_command", EVERYTHING)]);
    let model = Scripted::start([calls, Turn::Says(&["Built."])]);
    let machine = model.machine();
    let unconfined = ["--set", "tools.commands=unconfined"];
    let ask = ["ask", "Build it.", "--channel", "code_task", "--wait"];
    let waits = run(&machine, &[&ask[..], &unconfined].concat());
    assert_eq!(waits.code, Some(5), "{waits:?}");
    let list = run(&machine, &["approvals", "list", "--format", "json"]);
    let list: Value = serde_json::from_str(&list.stdout_of(0)).unwrap();
    let (id, question) = (list[0]["run_id"].as_str(), list[0]["question"].as_str());
    let (id, question) = (id.unwrap(), question.unwrap());
    let shown = run(&machine, &["approvals", "show", id]).stdout_of(0);
    assert!(
        shown.contains("on this machine nothing confines it"),
        "{shown}"
    );
    assert!(!machine.path("ran").exists());
    let approve = ["approvals", "approve", id, question];
    let done = run(&machine, &[&approve[..], &unconfined].concat());
    assert_eq!(done.stdout, "Built.\n", "{done:?}");
    assert!(machine.path("ran").exists());
}

#[test]
fn an_untrusted_folder_cannot_enable_unconfined_commands() {
    let machine = Machine::new().with_untrusted("[tools]\ncommands = 'unconfined'\n");
    let done = run(&machine, &["tools", "call", "run_command", EVERYTHING]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains(SETTING), "{done:?}");
    assert!(!machine.path("ran").exists());
    let shown = machine.run(["trust", "show"]);
    assert!(
        shown.stdout.contains("lets commands run without a sandbox"),
        "{shown:?}"
    );
}

#[test]
fn where_a_sandbox_is_available_commands_run_in_it_despite_the_setting() {
    let machine = unconfined();
    let command = r#"{"command": "echo x > ../escaped"}"#;
    let done = machine.run(["tools", "call", "run_command", command]);
    let result: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_ne!(result["exit_code"], 0, "{result}");
    assert!(!machine.path("../escaped").exists());
    assert!(!done.stderr.contains("without a sandbox"), "{done:?}");
}
