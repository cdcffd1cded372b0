//! `neuraxis mcp serve`: the real program, and clients over its standard input and output.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, Implementation,
    ProtocolVersion, ReadResourceRequestParams, ResourceContents,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};

use crate::machine::{Machine, events};
use crate::scripted::{Scripted, Turn};

const WRITE: &[(&str, &str)] = &[("write_file", r#"{"path":"a.txt","content":"hello"}"#)];

fn call(id: u32, arguments: &Value) -> Value {
    let params = json!({"name": "ask", "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn beginning() -> String {
    let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
    }});
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    format!("{begin}\n{begun}\n")
}

#[test]
fn standard_output_carries_only_the_protocol_and_end_of_input_ends_it() {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let call = call(2, &json!({"message": "What time is it?"}));
    let input = format!("{}{list}\nthis is no message\n{call}\n", beginning());
    let done = Machine::new().run_with_input(["mcp", "serve"], input);
    assert!(done.stderr.contains("model"), "a notice: {done:?}");
    let answers = events(&done.stdout_of(0));
    let ids: Vec<u64> = answers.iter().filter_map(|it| it["id"].as_u64()).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "neuraxis");
    assert_eq!(answers[2]["result"]["isError"], false);
    let known = &answers[2]["result"]["structuredContent"];
    assert_eq!(known["turns"], 2);
}

/// A client with a user who approves.
#[derive(Clone, Default)]
struct Approving(Arc<Mutex<Vec<String>>>);

impl ClientHandler for Approving {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("test-client", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("it was asked to open a page");
        };
        self.0.lock().unwrap().push(message);
        let approved = json!({"decision": "approve"});
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(approved))
    }
}

fn asked_to_write() -> CallToolRequestParams {
    let arguments = json!({"message": "Write a file.", "channel": "code_task", "session": "s1"});
    let Value::Object(arguments) = arguments else {
        panic!("an object");
    };
    CallToolRequestParams::new("ask").with_arguments(arguments)
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

#[tokio::test]
async fn the_official_client_calls_approves_and_reads_with_both_protocol_versions() {
    for era in [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    ] {
        let model = Scripted::start([Turn::Calls(WRITE), Turn::Says(&["Written."])]);
        let machine = model.machine();
        let mut command = machine.command(["mcp", "serve"]);
        command.env("MY_KEY", "k");
        let mut command = tokio::process::Command::from(command);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut program = command.kill_on_drop(true).spawn().unwrap();
        let streams = (
            program.stdout.take().unwrap(),
            program.stdin.take().unwrap(),
        );
        let person = Approving::default();
        let client = person.clone().serve_with_lifecycle(streams, era);
        let client = client.await.unwrap();

        let done = client.call_tool(asked_to_write()).await.unwrap();
        assert_eq!((done.is_error, text(&done)), (Some(false), "Written."));
        let questions = person.0.lock().unwrap().clone();
        assert_eq!(questions.len(), 1);
        assert!(
            questions[0].contains("      \"content\": \"hello\"\n"),
            "{questions:?}"
        );
        let written = std::fs::read_to_string(machine.path("a.txt")).unwrap();
        assert_eq!(written, "hello");

        let read = ReadResourceRequestParams::new("neuraxis://sessions/s1");
        let read = client.read_resource(read).await.unwrap();
        let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
            panic!("{read:?}");
        };
        assert!(text.contains("## assistant\n\nWritten.\n"), "{text}");

        client.cancel().await.unwrap();
        assert_eq!(program.wait().await.unwrap().code(), Some(0));
    }
}

#[cfg(unix)]
#[test]
fn a_signal_cancels_the_run_in_progress_and_ends_cleanly() {
    use rustix::process::{Pid, Signal, kill_process};

    for signal in [Signal::TERM, Signal::INT] {
        let model = Scripted::start([Turn::Stalls("I think that")]);
        let machine = model.machine();
        let mut command = machine.command(["mcp", "serve"]);
        command.env("MY_KEY", "k");
        let mut program = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = program.stdin.take().unwrap();
        let call = call(1, &json!({"message": "x", "session": "s1"}));
        writeln!(input, "{}{call}", beginning()).unwrap();
        while model.asked() == 0 {
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&program), signal).unwrap();
        assert_eq!(program.wait().unwrap().code(), Some(0));
        let list = ["runs", "list", "--session", "s1", "--format", "json"];
        let list: Vec<Value> = serde_json::from_str(&machine.run(list).stdout_of(0)).unwrap();
        assert_eq!(list[0]["status"], "interrupted", "{list:?}");
        drop(input);
    }
}

#[test]
fn invalid_options_and_input_are_refused_with_a_hint() {
    let machine = Machine::new();
    let refused = machine.run(["mcp", "serve", "--modes", "moderate,wild"]);
    let complaint = refused.complaint(2);
    assert!(complaint.contains("unknown mode \"wild\""), "{complaint}");
    assert!(
        complaint.contains("`neuraxis config show modes` lists the modes"),
        "{complaint}"
    );
    let refused = machine.run(["--set", "store.url=memory:", "mcp", "serve", "--wait"]);
    let complaint = refused.complaint(2);
    assert!(
        complaint.contains("a run cannot wait in memory"),
        "{complaint}"
    );
    let refused =
        machine.run_with_input(["mcp", "serve"], "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n");
    let complaint = refused.complaint(1);
    assert!(
        complaint.contains("does not speak the Model Context Protocol"),
        "{complaint}"
    );
}

#[test]
#[ignore = "needs the TypeScript client of MCP: cargo xtask test provides it"]
fn the_official_typescript_client_calls_approves_and_reads_with_both_protocol_versions() {
    let packages = std::env::var_os("TEST_NEURAXIS_MCP_CLIENT").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/mcp/client.cjs");
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        let model = Scripted::start([Turn::Calls(WRITE), Turn::Says(&["Written."])]);
        let machine = model.machine();
        let served = machine.command(["mcp", "serve"]);
        let mut node = machine.shell("exec node \"$@\"");
        node.args([script, mode])
            .arg(served.get_program())
            .args(["mcp", "serve"])
            .env("NODE_PATH", &packages)
            .env("MY_KEY", "k");
        let done = node.output().unwrap();
        let problems = String::from_utf8_lossy(&done.stderr);
        let told = serde_json::from_slice(&done.stdout);
        let told: Value = told.unwrap_or_else(|_| panic!("{done:?} {problems}"));
        assert_eq!(told["version"], version, "{told}");
        assert_eq!(told["tools"], json!(["ask", "deep_research", "researcher"]));
        assert_eq!(told["text"], "Written.", "{told}");
        assert_eq!(told["reason"], "stop");
        let question = told["asked"][0].as_str().unwrap();
        assert!(
            question.contains("      \"content\": \"hello\"\n"),
            "{question}"
        );
        assert!(
            told["session"].as_str().unwrap().contains("Written."),
            "{told}"
        );
        let refused = told["refused"].as_str().unwrap();
        assert!(refused.contains("missing argument: message"), "{refused}");
        let written = std::fs::read_to_string(machine.path("a.txt")).unwrap();
        assert_eq!(written, "hello");
    }
}
