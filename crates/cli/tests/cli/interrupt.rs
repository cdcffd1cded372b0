//! Ctrl-C, SIGTERM and SIGHUP while work is in progress.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use neuraxis_testkit::mcp_script;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::machine::{Machine, events};
use crate::scripted::{Scripted, Turn};

/// A tool call takes at least a fifth of a second. On a busy machine a signal may still arrive too late: then the
/// command succeeds, and the test tries again.
const MOST_TRIES: usize = 20;

fn start(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn interrupt(child: &Child) {
    send(child, Signal::INT);
}

fn send(child: &Child, signal: Signal) {
    // A process that has already ended cannot be interrupted; its exit code shows that.
    let _ = kill_process(Pid::from_child(child), signal);
}

fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Asks for the machine's health and sends a signal while the tool runs. Returns the events, or `None` if the signal
/// came too late.
fn interrupted_run(signal: Signal, expected: i32, word: &str) -> Option<Vec<Value>> {
    let machine = Machine::new();
    let question = [
        "ask",
        "--format",
        "events",
        "--channel",
        "system_health",
        "How is this machine?",
    ];
    let (mut child, mut stdout) = start(&mut machine.command(question));
    let mut lines = String::new();
    // A reader that falls behind is not sent the start of a tool whose result it already has: then the run ends first.
    while !lines.contains("\"type\":\"tool_start\"") && stdout.read_line(&mut lines).unwrap() > 0 {}
    send(&child, signal);
    stdout.read_to_string(&mut lines).unwrap();
    let stderr = stderr(&mut child);
    let code = child.wait().unwrap().code();
    if code == Some(0) {
        return None;
    }
    assert_eq!(code, Some(expected), "{stderr}");
    assert!(stderr.ends_with(&format!("\n{word}\n")), "{stderr}");
    Some(events(&lines))
}

#[test]
fn an_interrupted_run_ends_with_a_valid_history_and_exit_code_130() {
    let mut tries = (0..MOST_TRIES).map(|_| interrupted_run(Signal::INT, 130, "interrupted"));
    let events = tries.find_map(|events| events).unwrap();

    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["finish_reason"]),
        (&"final".into(), &"cancelled".into())
    );
    let of_type = |kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    };
    assert_eq!(of_type("cancelled").len(), 1);
    let results: Vec<&Value> = of_type("tool_result")
        .iter()
        .map(|result| &result["tool_call_id"])
        .collect();
    let calls: Vec<&Value> = of_type("tool_call")
        .iter()
        .map(|call| &call["tool_call_id"])
        .collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls, results, "each call has its result");
    let asked_for: usize = of_type("llm_call")
        .iter()
        .flat_map(|call| call["reply"]["parts"].as_array().unwrap())
        .filter(|part| part["type"] == "tool_call")
        .count();
    assert_eq!(
        asked_for,
        results.len(),
        "each call of the assistant has its result"
    );
}

#[test]
fn other_termination_signals_end_the_run_in_the_same_way() {
    for (signal, code, word) in [
        (Signal::TERM, 143, "terminated"),
        (Signal::HUP, 129, "hung up"),
    ] {
        let mut tries = (0..MOST_TRIES).map(|_| interrupted_run(signal, code, word));
        let events = tries.find_map(|events| events).unwrap();
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["finish_reason"]),
            (&"final".into(), &"cancelled".into())
        );
    }
}

/// This is required by `nohup`.
#[cfg(target_os = "linux")]
#[test]
fn an_ignored_signal_stays_ignored() {
    let machine = Machine::new();
    let script = "trap '' HUP; \"$0\" ask --channel system_health --format events 'How is this machine?' & child=$!; \
                  kill -HUP $child; sleep 0.1; kill -HUP $child; wait $child";
    let output = machine.shell(script).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Returns whether a process that has not ended listens for SIGINT.
#[cfg(target_os = "linux")]
fn listens(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mut lines = status.lines();
    let caught = lines.find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    caught.is_some_and(|mask| mask & (1 << (Signal::INT.as_raw() - 1)) != 0)
}

#[cfg(target_os = "linux")]
#[test]
fn a_directly_called_tool_is_interrupted_too() {
    let stopped = (0..MOST_TRIES).find_map(|_| {
        let machine = Machine::new();
        let (mut child, _stdout) = start(&mut machine.command(["tools", "call", "system_health"]));
        while !listens(&child) && child.try_wait().unwrap().is_none() {
            thread::yield_now();
        }
        interrupt(&child);
        let code = child.wait().unwrap().code();
        (code != Some(0)).then(|| (code, stderr(&mut child)))
    });
    assert_eq!(stopped, Some((Some(130), "interrupted\n".to_owned())));
}

#[test]
fn a_second_ctrl_c_ends_the_command_even_while_its_output_is_blocked() {
    // About 150,000 bytes of events: more than a pipe holds, so the command cannot end while its output is not read.
    let large = "a line of text of such a length that a page of them fills no small part of a pipe at once\n";
    let machine = Machine::new().with_file("large.txt", large.repeat(500));
    let question = [
        "ask",
        "--format",
        "events",
        "--channel",
        "code_task",
        "Read large.txt",
    ];
    let (mut child, stdout) = start(&mut machine.command(question));
    let patience = Instant::now() + Duration::from_secs(60);
    while ioctl_fionread(stdout.get_ref()).unwrap() < 32 * 1024 {
        assert!(Instant::now() < patience, "nothing is written");
        thread::yield_now();
    }
    // Two signals in quick succession may arrive as one.
    let code = loop {
        interrupt(&child);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        assert!(Instant::now() < patience, "it does not end");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(130));
}

#[test]
fn a_ctrl_c_sent_to_the_process_and_its_group_counts_once() {
    let model = Scripted::start([Turn::Stalls("well")]);
    let machine = model.machine();
    let mut command = machine.command(["ask", "--format", "events", "Hello?"]);
    let (mut child, mut stdout) = start(command.env("MY_KEY", "k"));
    let mut lines = String::new();
    while !lines.contains("\"text\":\"well\"") {
        assert_ne!(stdout.read_line(&mut lines).unwrap(), 0, "it says nothing");
    }
    // As `timeout -s INT` does.
    interrupt(&child);
    thread::sleep(Duration::from_millis(2));
    interrupt(&child);
    stdout.read_to_string(&mut lines).unwrap();
    let stderr = stderr(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
    assert_eq!(events(&lines).last().unwrap()["type"], "final", "{lines}");
}

/// Writes to a conversation through pipes until its output is blocked, calls `meanwhile`, sends SIGTERM, reads the
/// output, and returns the exit code.
fn told_to_end_while_stuck(machine: &Machine, lines: &str, meanwhile: impl Fn()) -> Option<i32> {
    let mut command = machine.command(["chat", "--session", "s"]);
    command.env("MY_KEY", "k").stdin(Stdio::piped());
    let (mut child, mut stdout) = start(&mut command);
    // Kept open, since the end of input would end the conversation.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    // A page of the pipe holds whole writes. With some sizes of writes, the pipe is full long before it holds 64 KiB.
    while ioctl_fionread(stdout.get_ref()).unwrap() < 32 * 1024 {
        assert!(Instant::now() < patience, "nothing is written");
        thread::yield_now();
    }
    meanwhile();
    send(&child, Signal::TERM);
    let reader = thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > patience {
            child.kill().unwrap();
        }
        thread::yield_now();
    };
    reader.join().unwrap().unwrap();
    status.code()
}

#[test]
fn a_termination_signal_ends_a_chat_that_is_executing_a_command() {
    let machine = Machine::new();
    // By then the pipe is full.
    let a_while = || drop(machine.run(["tools", "list"]).stdout_of(0));
    let code = told_to_end_while_stuck(&machine, &"/help\n".repeat(1000), a_while);
    assert_eq!(code, Some(143));
}

#[test]
fn a_termination_signal_ends_a_chat_whose_run_is_just_ending() {
    let long: &'static str = "a line of no great length\n".repeat(10_000).leak();
    let pieces: &'static [&'static str] = vec![long].leak();
    let model = Scripted::start([Turn::Says(pieces)]);
    let machine = model.machine();
    let ended = || {
        let list = ["runs", "list", "--session", "s", "--format", "json"];
        let patience = Instant::now() + Duration::from_secs(60);
        while !machine.run(list).stdout_of(0).contains("\"done\"") {
            assert!(Instant::now() < patience, "the run does not end");
        }
    };
    let code = told_to_end_while_stuck(&machine, "Hello?\n", ended);
    assert_eq!(code, Some(143));
}

/// The configuration of an MCP server that is a script next to it.
const SERVER: &str =
    "[mcp.servers.shop]\ncommand = 'sh'\nargs = ['server.sh']\nstart_timeout = '30s'\n";

fn until_there(file: &Path) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !file.exists() {
        assert!(Instant::now() < patience, "{} never came", file.display());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_call_error_is_shown_even_if_ctrl_c_arrives_while_servers_shut_down() {
    let slow_to_end = r#"
trap 'touch ending; sleep 1.5' EXIT
call() { answer '{"content":[{"type":"text","text":"closed"}],"isError":true}'; }
"#;
    for (arguments, said) in [
        ("{", "the arguments are not valid"),
        ("{}", "shop__look failed"),
    ] {
        let machine = Machine::new()
            .with_file("server.sh", mcp_script(slow_to_end))
            .with_private("config/neuraxis/neuraxis.toml", SERVER);
        let call = ["tools", "call", "shop__look", arguments];
        let (mut child, _stdout) = start(&mut machine.command(call));
        until_there(&machine.path("ending"));
        interrupt(&child);
        let stderr = stderr(&mut child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
        assert!(stderr.ends_with("\ninterrupted\n"), "{stderr}");
    }
}

/// Switches the model of a chat with an MCP server whose script is extended by `script`, and interrupts it once the
/// server has created a file. Returns standard output and error.
fn interrupted_after_model(model: &Scripted, script: &str, made: &str) -> (String, String) {
    let machine = model
        .machine()
        .with_file("server.sh", mcp_script(script))
        .with_private("config/neuraxis/neuraxis.toml", SERVER);
    let mut command = machine.command(["chat", "--session", "s"]);
    command.env("MY_KEY", "k").stdin(Stdio::piped());
    let (mut child, mut stdout) = start(&mut command);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"/model gpt-other\nHello?\n").unwrap();
    drop(stdin);
    until_there(&machine.path(made));
    interrupt(&child);
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    let stderr = stderr(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
    (said, stderr)
}

#[test]
fn ctrl_c_while_the_engine_of_another_model_is_built_keeps_the_previous_model() {
    let is_silent_the_second_time = r#"
begin() {
  if [ -e first ]; then touch second; return; fi
  touch first
  answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"7"}}'
}
"#;
    let model = Scripted::start([Turn::Says(&["Hello."])]);
    let (said, stderr) = interrupted_after_model(&model, is_silent_the_second_time, "second");
    assert!(stderr.contains("note: interrupted\n"), "{stderr}");
    assert!(said.contains("gpt-test)*"), "{said}");
    assert_eq!(model.asked_for(), "gpt-test");
}

#[test]
fn ctrl_c_while_the_servers_of_the_previous_model_end_still_switches_the_model() {
    let slow_to_end = "trap 'touch ending; sleep 1.5' EXIT\n";
    let model = Scripted::start([Turn::Says(&["Hello."])]);
    let (said, stderr) = interrupted_after_model(&model, slow_to_end, "ending");
    let told = "note: gpt-other answers from now on\n";
    assert!(stderr.contains(told), "{stderr}");
    assert!(!stderr.contains("interrupted"), "{stderr}");
    assert!(said.contains("gpt-other)*"), "{said}");
    assert_eq!(model.asked_for(), "gpt-other");
}
