//! How a run's trace is passed on to what it calls: an MCP server and a command. What a model server receives is
//! checked in the tests of the server, together with what a backend receives.
#![cfg(target_os = "linux")]

use std::fs;

use neuraxis_testkit::mcp_script;
use serde_json::{Value, json};

use crate::machine::Machine;

/// A server that stores the calls it receives.
const ACTS: &str = r#"
list() { answer '{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}'; }
call() { printf '%s\n' "$line" > called; text seen; }
"#;

/// There is no listener: a trace is passed on all the same.
const CONFIG: &str = "[telemetry.otlp]\nendpoint = 'http://127.0.0.1:9'\n\
    [mcp.servers.far]\ncommand = 'sh'\nargs = ['server.sh']\n\
    [trust.far]\ntools = ['far__*']\nclass = 'read_only'\nopen_world = false\n\
    [channels.code_task]\ntools = ['run_command', 'far__look']\n\
    [rules.commands]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['printenv **']\n";

fn ask(machine: &Machine, message: &str) -> Vec<Value> {
    let asked = [
        "ask",
        "--channel",
        "code_task",
        "--format",
        "events",
        message,
    ];
    machine.run(asked).events()
}

/// Returns the trace of the run, as its first record has it.
fn trace(events: &[Value]) -> String {
    let started = &events[0]["spec"]["trace"]["traceparent"];
    let trace = started.as_str().unwrap_or_else(|| panic!("{}", events[0]));
    trace.split('-').nth(1).unwrap().to_owned()
}

#[test]
fn an_mcp_server_and_a_command_receive_the_trace_and_span_of_their_call() {
    let machine = Machine::new()
        .with_file("server.sh", mcp_script(ACTS))
        .with_file("neuraxis.toml", CONFIG);
    let events = ask(&machine, "far__look {}");
    let called = fs::read_to_string(machine.path("called")).unwrap();
    let called: Value = serde_json::from_str(&called).unwrap();
    let told = called["params"]["_meta"]["traceparent"].as_str();
    let told = told.unwrap_or_else(|| panic!("{called}"));
    let own = format!("00-{}-", trace(&events));
    assert!(told.starts_with(&own) && told.ends_with("-01"), "{told}");

    let command = json!({"command": "printenv TRACEPARENT"});
    let events = ask(&machine, &format!("run_command {command}"));
    let mut results = events.iter().filter(|it| it["type"] == "tool_result");
    let result = results.next().unwrap_or_else(|| panic!("{events:?}"));
    let told = result["value"]["stdout"]
        .as_str()
        .unwrap_or_default()
        .trim();
    let own = format!("00-{}-", trace(&events));
    assert!(told.starts_with(&own) && told.ends_with("-01"), "{result}");
    let root = events[0]["spec"]["trace"]["traceparent"].as_str().unwrap();
    assert_ne!(told, root, "it is the call's span, not the run's");
}
