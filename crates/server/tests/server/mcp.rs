//! `/mcp`: the official client over streamable HTTP, in both eras, behind the same guard as all routes.

use std::sync::Arc;

use neuraxis::core::{Field, FieldKind, JsonText, Question};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::QuestionReply;
use neuraxis::{Orchestrator, Role, RunStatus};
use neuraxis_server::Stop;
use neuraxis_testkit::{AskingTool, Script, ScriptedModel, ScriptedTool, reply, spec};
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, Implementation,
    ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RequestContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};

use crate::support::in_process::{InProcess, TOKEN, engine};
use crate::support::{Client, Program};

const BOTH: &str = "application/json, text/event-stream";

fn eras() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover { preferred_versions },
    ]
}

/// A client whose user approves.
#[derive(Clone, Default)]
struct Approving;

impl ClientHandler for Approving {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("test-client", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let approved = json!({"decision": "approve"});
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(approved))
    }
}

async fn connect(
    url: &str,
    era: ClientLifecycleMode,
    token: Option<&str>,
) -> RunningService<RoleClient, Approving> {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut config = StreamableHttpClientTransportConfig::with_uri(format!("{url}/mcp"));
    if let Some(token) = token {
        config = config.auth_header(token);
    }
    let transport = StreamableHttpClientTransport::with_client(http, config);
    Approving
        .serve_with_lifecycle(transport, era)
        .await
        .unwrap()
}

fn ask(arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object");
    };
    CallToolRequestParams::new("ask").with_arguments(arguments)
}

/// An engine with a model that never answers.
fn hanging() -> Orchestrator {
    let model = ScriptedModel::always(Script::hanging());
    Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap()
}

fn text(result: &CallToolResult) -> &str {
    &result.content.first().unwrap().as_text().unwrap().text
}

#[tokio::test]
async fn clients_of_both_eras_can_call_approve_and_read() {
    for era in eras() {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", r#"{"order":17}"#)]))
            .then(reply::text("Refunded."));
        let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
        let orchestrator = engine(model, &tool);
        let server = InProcess::serve(orchestrator).await;
        let client = connect(&server.url, era.clone(), Some(TOKEN)).await;
        assert_eq!(client.list_all_tools().await.unwrap().len(), 3);
        let call = ask(json!({"message": "Refund order 17.", "session": "s1"}));
        let done = client.call_tool(call).await.unwrap();
        assert_eq!((text(&done), tool.count()), ("Refunded.", 1), "{era:?}");
        let listed = client.list_all_resources().await.unwrap();
        assert_eq!(listed[0].uri, "neuraxis://sessions/s1");
        client.cancel().await.unwrap();
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_without_the_token_cannot_approve() {
    for era in eras() {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", r#"{"order":17}"#)]))
            .then(reply::text("I could not."));
        let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
        let orchestrator = engine(model, &tool);
        let server = InProcess::serve(orchestrator).await;
        let client = connect(&server.url, era.clone(), Some("another")).await;
        let call = ask(json!({"message": "Refund order 17."}));
        let done = client.call_tool(call).await.unwrap();
        assert_eq!((text(&done), tool.count()), ("I could not.", 0), "{era:?}");
        client.cancel().await.unwrap();
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn requests_from_foreign_pages_or_hosts_are_refused_at_mcp_too() {
    let program = Program::start().await;
    let client = program.client();
    let post = |kind: &'static str| {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        client
            .post("/mcp")
            .header(ACCEPT, BOTH)
            .header(CONTENT_TYPE, kind)
            .body(list.to_string())
    };
    let json = || post("application/json");
    for (request, status, kind) in [
        (json().header(HOST, "evil.example"), 403, "foreign-host"),
        (
            json().header(ORIGIN, "http://evil.example"),
            403,
            "foreign-origin",
        ),
        (post("text/plain"), 415, "not-json"),
        (
            json().body("x".repeat(1024 * 1024 + 1)),
            413,
            "body-too-large",
        ),
    ] {
        let (received, problem) = crate::support::client::answer(request).await;
        assert_eq!(problem["type"], format!("/errors/{kind}"), "{problem}");
        assert_eq!(received, status, "{kind}");
    }
    let request = client.get("/mcp").header(ORIGIN, "http://evil.example");
    assert_eq!(request.send().await.unwrap().status(), 403);
}

async fn posted(client: &Client, body: &str) -> (u16, String) {
    let post = client
        .post("/mcp")
        .header(ACCEPT, BOTH)
        .header(CONTENT_TYPE, "application/json");
    let response = post.body(body.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn invalid_messages_are_refused_and_the_server_continues() {
    let program = Program::start().await;
    let client = program.client();
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}",
    ] {
        let (status, text) = posted(&client, body).await;
        assert!((400..500).contains(&status), "{body}: {status} {text}");
    }
    let client = connect(program.url(), ClientLifecycleMode::Initialize, None).await;
    assert_eq!(client.list_all_tools().await.unwrap().len(), 3);
    client.cancel().await.unwrap();
}

/// A client of the `initialize` era that sends messages and opens no separate stream.
pub(crate) struct Posting {
    client: Client,
    session: String,
}

impl Posting {
    pub(crate) async fn begin(client: Client) -> Self {
        let mut posting = Self {
            client,
            session: String::new(),
        };
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "raw", "version": "1"},
        }});
        let begun = posting.send(initialize).await;
        let session = begun.headers()["mcp-session-id"].to_str().unwrap();
        posting.session = session.to_owned();
        begun.text().await.unwrap();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(posting.send(initialized).await.status(), 202);
        posting
    }

    pub(crate) async fn send(&self, message: Value) -> Response {
        let mut post = self
            .client
            .post("/mcp")
            .header(ACCEPT, BOTH)
            .header(CONTENT_TYPE, "application/json");
        if !self.session.is_empty() {
            post = post.header("mcp-session-id", &self.session);
        }
        post.body(message.to_string()).send().await.unwrap()
    }
}

/// Waits for the stream's message that contains these words.
pub(crate) async fn message_with(stream: &mut Response, words: &str) -> Value {
    let mut text = String::new();
    loop {
        let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(message) = messages.find(|message| message.to_string().contains(words)) {
            return message;
        }
        let chunk = stream.chunk().await.unwrap();
        let chunk = chunk.expect("the stream ended before");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
}

#[tokio::test]
async fn a_client_without_its_own_stream_receives_questions_in_the_response_to_its_call() {
    let size = Field::new("size", FieldKind::Boolean);
    let question = Question::new("shop", "A large one?").field(size);
    let tool = Arc::new(AskingTool::new(spec("look").read_only(), question));
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("That is all."));
    let orchestrator = engine(model, &tool);
    let server = InProcess::serve(orchestrator).await;
    let client = Posting::begin(Client::with_key(&server.url, TOKEN)).await;
    let params = json!({"name": "ask", "arguments": {"message": "Look."}});
    let call = json!({"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": params});
    let mut stream = client.send(call).await;
    let asked = message_with(&mut stream, "elicitation/create").await;
    let result = json!({"action": "accept", "content": {"size": true}});
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    assert_eq!(client.send(answer).await.status(), 202);
    let done = message_with(&mut stream, "That is all.").await;
    assert_eq!(done["id"], 10);
    let heard = QuestionReply::Answered(JsonText::from_text(r#"{"size":true}"#));
    assert_eq!(tool.replies(), [heard]);
    drop(stream);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_request_reusing_the_id_of_an_unanswered_one_is_refused() {
    let server = InProcess::serve(hanging()).await;
    let client = Posting::begin(server.client()).await;
    let call = |id: Value| {
        let arguments = json!({"message": "x"});
        let params = json!({"name": "ask", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let first = client.send(call(json!(10))).await;
    assert_eq!(first.status(), 200);
    let refused = client.send(call(json!(10))).await;
    assert_eq!(refused.status(), 400);
    let error: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(
        (&error["id"], &error["error"]["code"]),
        (&json!(10), &json!(-32600))
    );
    for other in [json!(11), json!("10")] {
        assert_eq!(client.send(call(other)).await.status(), 200);
    }
    // The call continues although its client left, and its answer would go to any client that reuses its id.
    drop(first);
    assert_eq!(client.send(call(json!(10))).await.status(), 400);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 10}});
    assert_eq!(client.send(cancelled).await.status(), 202);
    while client.send(call(json!(10))).await.status() != 200 {
        tokio::task::yield_now().await;
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn clients_may_choose_only_the_modes_of_the_server() {
    let program = Program::start().await;
    for era in eras() {
        let client = connect(program.url(), era, None).await;
        let call = ask(json!({"message": "x", "mode": "exploratory"}));
        let refused = client.call_tool(call).await.unwrap();
        assert_eq!(refused.is_error, Some(true));
        assert!(text(&refused).contains("allowed: conservative, moderate"));
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn a_stopping_server_ends_calls_and_open_streams() {
    for era in eras() {
        let orchestrator = hanging();
        let server = InProcess::serve(orchestrator.clone()).await;
        let client = connect(&server.url, era, Some(TOKEN)).await;
        let peer = client.peer().clone();
        let call = ask(json!({"message": "x", "session": "s1"}));
        let calling = tokio::spawn(async move { peer.call_tool(call).await });
        let session = "s1".parse().unwrap();
        let sessions = orchestrator.sessions();
        while sessions
            .runs(&session)
            .await
            .unwrap()
            .unwrap_or_default()
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
        server.stop().await.unwrap();
        let runs = sessions.runs(&session).await.unwrap().unwrap();
        assert_eq!(runs[0].status, RunStatus::Interrupted);
        let received = calling.await.unwrap().unwrap();
        assert_eq!(received.is_error, Some(true), "{received:?}");
    }
}

#[tokio::test]
async fn a_server_that_stops_while_asking_a_client_leaves_the_run_waiting_and_reports_it() {
    let model = ScriptedModel::always(reply::calls([("refund", r#"{"order":17}"#)]));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let orchestrator = engine(model, &tool);
    let server = InProcess::serve(orchestrator.clone()).await;
    let client = Posting::begin(Client::with_key(&server.url, TOKEN)).await;
    let arguments = json!({"message": "Refund order 17.", "session": "s1"});
    let params = json!({"name": "ask", "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": params});
    let mut stream = client.send(call).await;
    message_with(&mut stream, "elicitation/create").await;
    let (stopped, left) = tokio::join!(
        server.stop_by(Stop::Drain),
        message_with(&mut stream, "structuredContent"),
    );
    stopped.unwrap();
    let left = &left["result"]["structuredContent"];
    assert_eq!(left["status"], "waiting", "{left}");
    let session = "s1".parse().unwrap();
    let runs = orchestrator.sessions().runs(&session).await.unwrap();
    assert_eq!(runs.unwrap()[0].status, RunStatus::Waiting);
}

#[tokio::test]
async fn a_sessionless_client_that_disconnects_ends_its_run() {
    let orchestrator = hanging();
    let server = InProcess::serve(orchestrator.clone()).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "ask",
        "arguments": {"message": "x", "session": "s1"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        },
    }});
    let client = server.client();
    let request = client
        .post("/mcp")
        .header(ACCEPT, BOTH)
        .header(CONTENT_TYPE, "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "ask")
        .body(call.to_string());
    let calling = tokio::spawn(request.send());
    let session = "s1".parse().unwrap();
    let sessions = orchestrator.sessions();
    let status = async || {
        let runs = sessions.runs(&session).await.unwrap().unwrap_or_default();
        runs.last().map(|run| run.status)
    };
    while status().await != Some(RunStatus::Running) {
        tokio::task::yield_now().await;
    }
    calling.abort();
    drop(client);
    while status().await != Some(RunStatus::Interrupted) {
        tokio::task::yield_now().await;
    }
    server.stop().await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_call_beyond_the_run_limit_of_a_key_is_refused_until_a_run_ends() {
    use crate::support::gate::{gated_program_with, waiting_turn};
    use crate::support::program::make_key;

    let (program, mut gate) = gated_program_with(&[]).await;
    let key = make_key(program.folder(), &["--owner", "ada", "--max-runs", "1"]).await;
    let anyone = program.client();
    let sessions = || anyone.get("/api/v1/sessions").send();
    while sessions().await.unwrap().status() != 401 {}
    let ada = Client::with_key(program.url(), &key);
    drop(ada.listen("s", &waiting_turn()).await);
    gate.reached().await;

    for era in eras() {
        let client = connect(program.url(), era.clone(), Some(&key)).await;
        let call = || ask(json!({"message": "hello"}));
        let refused = client.call_tool(call()).await.unwrap();
        assert_eq!(refused.is_error, Some(true), "{era:?}");
        assert!(
            text(&refused).contains("concurrent turns"),
            "{}",
            text(&refused)
        );
        client.cancel().await.unwrap();
    }
    gate.open().await;
    let [_, era] = eras();
    let client = connect(program.url(), era, Some(&key)).await;
    loop {
        let call = ask(json!({"message": "What time is it?"}));
        let call = client.call_tool(call).await;
        // The permit of the ended run is released a moment later.
        if call.is_ok_and(|result| result.is_error != Some(true)) {
            break;
        }
    }
    client.cancel().await.unwrap();
}
