//! Commands that write more than a model can read.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::machine::Machine;

const RULE: &str = "[rules.commands]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['seq **', 'yes **', 'head **', 'echo **']\n";

/// The maximum memory of a call in KiB: what the program uses, and a few times what is kept of a result.
const MOST_MEMORY_KIB: u64 = 300 * 1024;

fn ask(machine: &Machine, message: &str) -> Vec<Value> {
    let arguments = [
        "ask",
        "--channel",
        "code_task",
        "--session",
        "long",
        "--format",
        "events",
        message,
    ];
    machine.run(arguments).events()
}

fn call(tool: &str, arguments: &Value) -> String {
    format!("{tool} {arguments}")
}

fn result(events: &[Value]) -> &Value {
    let mut results = events.iter().filter(|event| event["type"] == "tool_result");
    results.next().unwrap()
}

fn assert_export_says_that_a_long_result_is_missing(machine: &Machine) {
    let warned = machine.run(["sessions", "export", "long"]).stderr;
    let expected = "1 long result of tools is exported only as models read them";
    assert!(warned.contains(expected), "{warned}");
}

#[test]
fn a_long_output_is_cut_read_in_pages_shown_whole_and_deleted_with_its_session() {
    let machine = Machine::new().with_file("neuraxis.toml", RULE);
    let numbers = (1..=200_000).map(|number| format!("{number}\n"));
    let whole: String = numbers.chain(["done\n".to_owned()]).collect();
    let command = json!({ "command": "seq 1 200000; echo done" });
    let events = ask(&machine, &call("run_command", &command));
    let first = result(&events);
    // The model reads the beginning and the end; everything else the tool returns stays.
    let (value, id) = (&first["value"], first["tool_call_id"].as_str().unwrap());
    let stdout = value["stdout"].as_str().unwrap();
    assert_eq!(
        (&value["exit_code"], &value["stderr"]),
        (&0.into(), &"".into())
    );
    assert!(
        value["summary"]
            .as_str()
            .unwrap()
            .contains("ended with exit code 0")
    );
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n200000\ndone\n"));
    assert!(
        value.to_string().len() <= 65_536,
        "{}",
        value.to_string().len()
    );
    let marker =
        format!("cut out here; read them with read_output {{\"call\":\"{id}\",\"offset\":");
    let (head, behind) = stdout.split_once(&marker).unwrap();
    let offset: u64 = behind.split('}').next().unwrap().parse().unwrap();
    assert_eq!(head.rfind("\n[").map(|at| at as u64 + 1), Some(offset));
    // A later run of the session continues reading.
    let page = ask(
        &machine,
        &call("read_output", &json!({"call": id, "offset": offset})),
    );
    let page = result(&page);
    let from = usize::try_from(offset).unwrap();
    let text = page["value"]["text"].as_str().unwrap();
    assert!(
        whole[from..].starts_with(text) && text.len() > 10_000,
        "{page}"
    );
    // Output of a command that does not reach outside is treated like a file, and so is the rest of it.
    assert_eq!(
        (&first["untrusted"], &page["untrusted"]),
        (&Value::Null, &Value::Null)
    );
    let found = ask(
        &machine,
        &call("read_output", &json!({"call": id, "pattern": "^19999.$"})),
    );
    assert_eq!(result(&found)["value"]["matches"][0]["line"], 199_990);
    // The user sees all of it.
    let run = events[0]["run_id"].as_str().unwrap();
    let list = machine.run(["runs", "output", run]).stdout_of(0);
    assert!(list.lines().nth(1).unwrap().ends_with(id), "{list}");
    assert!(
        list.contains("     1288900      200001  run_command"),
        "{list}"
    );
    let list = machine.run(["runs", "output", run, "--format", "json"]);
    let list: Value = serde_json::from_str(&list.stdout_of(0)).unwrap();
    assert_eq!(
        (&list[0]["call"], &list[0]["lines"]),
        (&id.into(), &200_001.into())
    );
    let end = id.splitn(3, '_').nth(2).unwrap();
    assert!(machine.run(["runs", "output", run, end]).stdout_of(0) == whole);
    let unknown = machine.run(["runs", "output", run, "a9_9_9"]).complaint(1);
    assert!(
        unknown.contains("this run has no stored output of a call \"a9_9_9\""),
        "{unknown}"
    );
    assert!(unknown.contains("runs output"), "{unknown}");
    assert_export_says_that_a_long_result_is_missing(&machine);
    // It is deleted with the session.
    machine
        .run(["sessions", "delete", "long", "--yes"])
        .stdout_of(0);
    let gone = machine.run(["runs", "output", run]);
    assert_ne!(gone.code, Some(0), "{gone:?}");
}

#[test]
fn a_command_with_endless_output_uses_bounded_memory() {
    let machine = Machine::new().with_file("neuraxis.toml", RULE);
    let command = json!({ "command": "echo first; yes | head -c 400000000; echo; echo last" });
    let mut program = machine
        .command(["ask", "--channel", "code_task", "--format", "json"])
        .arg(call("run_command", &command))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", program.id());
    let mut most = 0;
    while program.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
        most = most.max(peak.unwrap_or_default());
        std::thread::yield_now();
    }
    let done = program.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!((1..MOST_MEMORY_KIB).contains(&most), "{most} KiB");
    let run = answer["run_id"].as_str().unwrap();
    let list = machine.run(["runs", "output", run, "--format", "json"]);
    let list: Value = serde_json::from_str(&list.stdout_of(0)).unwrap();
    let kept = list[0]["bytes"].as_u64().unwrap();
    assert!((4_000_000..8_400_000).contains(&kept), "{kept}");
    let id = list[0]["call"].as_str().unwrap();
    let whole = machine.run(["runs", "output", run, id]).stdout_of(0);
    assert!(whole.starts_with("first\ny\n") && whole.ends_with("y\n\nlast\n"));
    assert!(whole.contains(" bytes left out]\n"), "what is gone is said");
}
