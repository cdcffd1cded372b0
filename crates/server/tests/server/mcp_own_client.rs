//! Our own MCP client at `/mcp`, in the protocol version without sessions.

use std::sync::{Arc, Mutex};

use neuraxis::RunStatus;
use neuraxis::core::{Field, FieldKind, JsonText, ProgressSteps, Question};
use neuraxis::ports::{
    Progress, ProgressSink, QuestionReply, QuestionSender, Secret, Tool, ToolSource,
};
use neuraxis_mcp::{HttpConfig, McpServer, McpServerConfig, MemoryPins, Transport};
use neuraxis_testkit::{
    AskingTool, Script, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec, tool_context,
};
use tracing::Subscriber;
use tracing::span::Id;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::in_process::{InProcess, TOKEN, engine};

fn refund() -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::echoing(spec("refund")))
}

async fn connected(server: &InProcess) -> Arc<McpServer> {
    let mut http = HttpConfig::new(format!("{}/mcp", server.url));
    http.token = Some(Secret::new(TOKEN));
    let config = McpServerConfig::new("own", Transport::Http(http));
    let client = McpServer::start(config, Arc::new(MemoryPins::default())).unwrap();
    client.ready().await.unwrap();
    client
}

fn ask(client: &McpServer) -> Arc<dyn Tool> {
    let tools = client.tools();
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

/// Collects the names of spans that have ended.
#[derive(Clone, Default)]
struct Over(Arc<Mutex<Vec<&'static str>>>);

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Over {
    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let span = ctx.span(&id).unwrap();
        self.0.lock().unwrap().push(span.name());
    }
}

#[tokio::test]
async fn the_connect_span_closes_once_the_client_is_connected() {
    let over = Over::default();
    let subscriber = tracing_subscriber::registry().with(over.clone());
    let _tracing = tracing::subscriber::set_default(subscriber);
    let model = ScriptedModel::always(reply::text("Done."));
    let server = InProcess::serve(engine(model, &refund())).await;
    let client = connected(&server).await;
    let names = over.0.lock().unwrap().clone();
    assert!(names.contains(&"connect"), "{names:?}");
    client.shutdown().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn our_mcp_client_calls_an_agent_reports_progress_and_forwards_approval_questions() {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(reply::text("Refunded."));
    let tool = refund();
    let server = InProcess::serve(engine(model, &tool)).await;
    let client = connected(&server).await;
    assert_eq!(client.report().protocol, "2026-07-28");
    assert_eq!(client.tools().len(), 3);

    let approve = JsonText::from_text(r#"{"decision":"approve"}"#);
    let approver = ScriptedApprover::new().answering(QuestionReply::Answered(approve));
    let (approver, heard) = (Arc::new(approver), Arc::<Heard>::default());
    let mut ctx = tool_context();
    ctx.questions = QuestionSender::to(approver.clone());
    ctx.progress = Progress::to(heard.clone());
    let asked = JsonText::from_text(r#"{"message":"Refund order 17.","session":"s1"}"#);
    let output = ask(&client).call(asked, ctx).await.unwrap();
    let said = output.value.as_text();
    assert!(said.contains("Refunded."), "{said}");
    assert_eq!(tool.count(), 1);
    let questions = approver.questions();
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert!(questions[0].message.contains("refund"), "{questions:?}");
    assert!(!heard.0.lock().unwrap().is_empty(), "no progress was told");
    client.shutdown().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_question_of_a_remote_tool_reaches_the_person_behind_the_local_call() {
    let question = Question::new("shop", "Wrap it?").field(Field::new("wrap", FieldKind::Boolean));
    let tool = Arc::new(AskingTool::new(spec("wrap").read_only(), question));
    let model = ScriptedModel::new()
        .then(reply::calls([("wrap", "{}")]))
        .then(reply::text("Wrapped."));
    let server = InProcess::serve(engine(model, &tool)).await;
    let client = connected(&server).await;
    let answer = QuestionReply::Answered(JsonText::from_text(r#"{"wrap":true}"#));
    let approver = Arc::new(ScriptedApprover::new().answering(answer.clone()));
    let mut ctx = tool_context();
    ctx.questions = QuestionSender::to(approver.clone());
    let asked = JsonText::from_text(r#"{"message":"Wrap it.","session":"s1"}"#);
    let output = ask(&client).call(asked, ctx).await.unwrap();
    let said = output.value.as_text();
    assert!(said.contains("Wrapped."), "{said}");
    assert_eq!(tool.replies(), [answer]);
    assert!(approver.questions()[0].message.contains("Wrap it?"));
    client.shutdown().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_abandoned_call_cancels_its_remote_run() {
    let orchestrator = engine(ScriptedModel::always(Script::hanging()), &refund());
    let server = InProcess::serve(orchestrator.clone()).await;
    let client = connected(&server).await;
    let tool = ask(&client);
    let asked = JsonText::from_text(r#"{"message":"Think.","session":"s1"}"#);
    let calling = tokio::spawn(async move { tool.call(asked, tool_context()).await });
    let session = "s1".parse().unwrap();
    let sessions = orchestrator.sessions();
    let status = async || {
        let runs = sessions.runs(&session).await.unwrap().unwrap_or_default();
        runs.last().map(|run| run.status)
    };
    while status().await != Some(RunStatus::Running) {
        tokio::task::yield_now().await;
    }
    // The engine drops what is cancelled.
    calling.abort();
    while status().await != Some(RunStatus::Interrupted) {
        tokio::task::yield_now().await;
    }
    client.shutdown().await;
    server.stop().await.unwrap();
}
