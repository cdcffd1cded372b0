//! The MCP client of this project and `neuraxis mcp serve`, in the protocol version without sessions, over standard
//! input and output.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis::core::{JsonText, ProgressSteps};
use neuraxis::ports::{
    Progress, ProgressSink, QuestionReply, QuestionSender, Secret, Tool, ToolContext, ToolSource,
};
use neuraxis_mcp::{McpServer, McpServerConfig, MemoryPins, StdioConfig, Transport};
use neuraxis_testkit::{ScriptedApprover, tool_context};
use serde_json::Value;

use crate::machine::Machine;
use crate::scripted::{Scripted, Turn};

const WRITE: &[(&str, &str)] = &[("write_file", r#"{"path":"a.txt","content":"hello"}"#)];

const ASKED: &str = r#"{"message":"Write a file.","channel":"code_task","session":"s1"}"#;

/// Starts the machine's program as a server, and waits until the client knows its tools.
async fn started(machine: &Machine) -> Arc<McpServer> {
    let command = machine.command(["mcp", "serve"]);
    let mut program = StdioConfig::new(
        command.get_program().to_str().unwrap(),
        ["mcp".to_owned(), "serve".to_owned()],
    );
    let set = command.get_envs();
    let set = set.filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
    let mut env: BTreeMap<String, Secret> = set
        .map(|(name, value)| (name.to_owned(), Secret::new(value)))
        .collect();
    env.insert("MY_KEY".to_owned(), Secret::new("k"));
    program.env = env;
    program.cwd = Some(machine.path(""));
    let mut config = McpServerConfig::new("own", Transport::Stdio(program));
    config.start_timeout = Duration::from_secs(60);
    let server = McpServer::start(config, Arc::new(MemoryPins::default())).unwrap();
    server.ready().await.unwrap();
    server
}

fn ask(server: &McpServer) -> Arc<dyn Tool> {
    let tools = server.tools();
    let ask = tools
        .iter()
        .find(|tool| tool.spec().name.as_str() == "own__ask");
    ask.unwrap_or_else(|| panic!("{tools:?}")).clone()
}

/// Collects what the call reports.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl ProgressSink for Heard {
    fn progress(&self, name: &str, _: Option<&str>, _: Option<ProgressSteps>) {
        self.0.lock().unwrap().push(name.to_owned());
    }

    fn output(&self, _: &str) {}
}

fn asked_of(approver: &Arc<ScriptedApprover>) -> ToolContext {
    let mut ctx = tool_context();
    ctx.questions = QuestionSender::to(approver.clone());
    ctx
}

#[tokio::test]
async fn a_called_agent_reports_progress_and_requests_approval_from_the_caller() {
    let model = Scripted::start([Turn::Calls(WRITE), Turn::Says(&["Written."])]);
    let machine = model.machine();
    let server = started(&machine).await;
    assert_eq!(server.report().protocol, "2026-07-28");
    assert_eq!(server.tools().len(), 3);

    let approve = JsonText::from_text(r#"{"decision":"approve"}"#);
    let approver = ScriptedApprover::new().answering(QuestionReply::Answered(approve));
    let (approver, heard) = (Arc::new(approver), Arc::<Heard>::default());
    let mut ctx = asked_of(&approver);
    ctx.progress = Progress::to(heard.clone());
    let output = ask(&server).call(JsonText::from_text(ASKED), ctx).await;
    let said = output.unwrap().value.as_text().into_owned();
    assert!(said.contains("Written."), "{said}");

    let questions = approver.questions();
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert_eq!(&*questions[0].from, "own");
    assert!(
        questions[0].message.contains("write_file") && questions[0].message.contains("a.txt"),
        "{questions:?}"
    );
    let written = std::fs::read_to_string(machine.path("a.txt")).unwrap();
    assert_eq!(written, "hello");
    assert!(!heard.0.lock().unwrap().is_empty(), "no progress was told");
    server.shutdown().await;
}

#[tokio::test]
async fn a_declined_approval_runs_nothing_and_the_agent_continues() {
    let model = Scripted::start([Turn::Calls(WRITE), Turn::Says(&["I could not."])]);
    let machine = model.machine();
    let server = started(&machine).await;
    let asked = JsonText::from_text(ASKED);
    let output = ask(&server).call(asked, tool_context()).await.unwrap();
    let said = output.value.as_text();
    assert!(said.contains("I could not."), "{said}");
    assert!(!machine.path("a.txt").exists());
    server.shutdown().await;
}

/// Needs several threads, since checking the runs blocks this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoning_a_call_cancels_the_run_on_the_server() {
    let model = Scripted::start([Turn::Stalls("well")]);
    let machine = model.machine();
    let server = started(&machine).await;
    let tool = ask(&server);
    let asked = JsonText::from_text(r#"{"message":"Think.","session":"s1"}"#);
    let calling = tokio::spawn(async move { tool.call(asked, tool_context()).await });
    while model.asked() == 0 {
        tokio::task::yield_now().await;
    }
    // The engine drops a call that is cancelled.
    calling.abort();
    let status = || {
        let list = ["runs", "list", "--session", "s1", "--format", "json"];
        let list: Value = serde_json::from_str(&machine.run(list).stdout_of(0)).unwrap();
        list[0]["status"].as_str().unwrap_or_default().to_owned()
    };
    while status() != "interrupted" {
        assert!(
            matches!(&*status(), "running" | "interrupted"),
            "{}",
            status()
        );
    }
    server.shutdown().await;
}
