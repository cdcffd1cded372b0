//! `/mcp` with keys: the same owners and the same limits.

use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};
use std::num::NonZeroU32;
use std::sync::Arc;

use neuraxis::core::AgentName;
use neuraxis::core::jiff::Timestamp;
use neuraxis::memory::MemoryStore;
use neuraxis::{Mode, Orchestrator, Role};
use neuraxis_app::{Scope, ServerKey, ServerKeyFile};
use neuraxis_server::Keys;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

use crate::support::Client;
use crate::support::in_process::{InProcess, engine};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Sends one self-contained request of 2026-07-28, and returns the status and the body.
pub(crate) async fn call(
    client: &Client,
    method: &str,
    name: &str,
    params: Value,
) -> (u16, String) {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = client
        .post("/mcp")
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", name)
        .body(body.to_string());
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.text().await.unwrap())
}

pub(crate) async fn ask(client: &Client, arguments: Value) -> String {
    let params = json!({"name": "ask", "arguments": arguments});
    let (status, said) = call(client, "tools/call", "ask", params).await;
    assert_eq!(status, 200, "{said}");
    said
}

#[tokio::test]
async fn mcp_clients_see_their_owners_sessions_and_choose_what_their_key_allows() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    let make = |owner: &str, scopes: &[Scope], max_mode: Option<Mode>| {
        let (mut key, text) = ServerKey::make(owner, scopes.iter().copied(), NOW).unwrap();
        key.max_mode = max_mode;
        file.add(key).unwrap();
        text
    };
    let ada = make("ada", &[Scope::Turns, Scope::Read, Scope::Approve], None);
    let asker = make("ada", &[Scope::Turns], None);
    let bob = make(
        "bob",
        &[Scope::Turns, Scope::Read],
        Some(Mode::CONSERVATIVE),
    );
    let reader = make("ada", &[Scope::Read], None);
    let model = ScriptedModel::new()
        .then(reply::text("Hello."))
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(reply::text("I could not."))
        .then(reply::calls([("refund", r#"{"order":17}"#)]));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let orchestrator = engine(model, &tool);
    let server = InProcess::serve_to(orchestrator, Keys::open(file).unwrap()).await;
    let client = |key: &str| Client::with_key(&server.url, key);
    let asker = client(&asker);
    let (ada, bob, reader) = (client(&ada), client(&bob), client(&reader));

    let list = async |client: &Client| call(client, "resources/list", "", json!({})).await;
    assert_eq!(list(&server.client()).await.0, 401);
    assert_eq!(list(&reader).await.0, 403, "sessions are made there");
    let said = ask(&ada, json!({"message": "Hi.", "session": "s1"})).await;
    assert!(said.contains("Hello."), "{said}");
    assert!(list(&ada).await.1.contains("neuraxis://sessions/s1"));
    assert!(!list(&bob).await.1.contains("neuraxis://sessions/s1"));
    let uri = "neuraxis://sessions/s1";
    let read = call(&bob, "resources/read", uri, json!({"uri": uri})).await;
    assert!(read.1.contains("no such resource"), "{read:?}");
    // A key with the scope to ask but not to read does not see the owner's sessions either.
    assert!(!list(&asker).await.1.contains("neuraxis://sessions/s1"));
    let templates = call(&asker, "resources/templates/list", "", json!({})).await;
    assert!(!templates.1.contains("neuraxis://"), "{templates:?}");
    let read = call(&asker, "resources/read", uri, json!({"uri": uri})).await;
    assert!(read.1.contains("no such resource"), "{read:?}");
    let read = call(&ada, "resources/read", uri, json!({"uri": uri})).await;
    assert!(read.1.contains("Hello."), "{read:?}");

    let said = ask(&bob, json!({"message": "x", "mode": "moderate"})).await;
    assert!(said.contains("allowed: conservative"), "{said}");
    let strict = json!({"message": "x", "mode": "conservative", "session": "s1"});
    let said = ask(&bob, strict).await;
    assert!(said.contains("isError\":true"), "{said}");

    // Without the scope for decisions, the client is not asked.
    let said = ask(&bob, json!({"message": "Refund.", "mode": "conservative"})).await;
    assert!(!said.contains("inputRequests"), "{said}");
    let said = ask(&ada, json!({"message": "Refund."})).await;
    assert!(said.contains("input"), "{said}");
    assert_eq!(tool.count(), 0);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_resumed_by_a_client_counts_towards_the_limit_of_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    let scopes = [Scope::Turns, Scope::Read, Scope::Approve];
    let (mut key, ada) = ServerKey::make("ada", scopes, NOW).unwrap();
    key.max_runs = Some(NonZeroU32::MIN);
    file.add(key).unwrap();
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(Script::hanging());
    let model = Arc::new(model);
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::clone(&model) as _)
        .tool(Arc::new(ScriptedTool::echoing(spec("refund"))))
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve_to(orchestrator, Keys::open(file).unwrap()).await;
    let client = Client::with_key(&server.url, &ada);
    let arguments = json!({"message": "Refund.", "session": "s1"});
    let asked = ask(&client, arguments.clone()).await;
    let line = asked.lines().find(|line| line.contains("inputRequests"));
    let line = line.unwrap_or_else(|| panic!("{asked}"));
    let line = line.strip_prefix("data:").unwrap_or(line);
    let asked: Value = serde_json::from_str(line).unwrap();
    let asked = &asked["result"];
    let question = asked["inputRequests"].as_object().unwrap().keys().next();
    let approval = json!({"action": "accept", "content": {"decision": "approve"}});
    let mut answers = json!({});
    answers[question.unwrap()] = approval;
    let params = json!({
        "name": "ask",
        "arguments": arguments,
        "inputResponses": answers,
        "requestState": asked["requestState"],
    });
    let answering = Client::with_key(&server.url, &ada);
    let answered = tokio::spawn(async move { call(&answering, "tools/call", "ask", params).await });
    while model.open_calls() == 0 {
        tokio::task::yield_now().await;
    }
    let (status, problem) = client.ask("s2", &json!({"message": "hello"})).await;
    assert_eq!(
        (status, &problem["type"]),
        (429, &json!("/errors/too-many-own-runs"))
    );
    answered.abort();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn answers_to_the_server_are_rate_limited_separately_from_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    let scopes = [Scope::Turns, Scope::Approve];
    let (mut key, ada) = ServerKey::make("ada", scopes, NOW).unwrap();
    key.requests_per_minute = NonZeroU32::new(2);
    file.add(key).unwrap();
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let orchestrator = engine(ScriptedModel::new(), &tool);
    let server = InProcess::serve_to(orchestrator, Keys::open(file).unwrap()).await;
    let client = Client::with_key(&server.url, &ada);
    for expected in [200, 200, 429] {
        let (status, said) = call(&client, "tools/list", "", json!({})).await;
        assert_eq!(status, expected, "{said}");
    }
    let result = json!({"action": "accept", "content": {"decision": "approve"}});
    let answer = json!({"jsonrpc": "2.0", "id": 0, "result": result});
    let params = json!({"requestId": 1});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    for (message, is_refused) in [(&answer, false), (&cancelled, false), (&answer, true)] {
        let request = client
            .post("/mcp")
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(message.to_string());
        let status = request.send().await.unwrap().status();
        assert_eq!(status == 429, is_refused, "{message}: {status}");
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn ask_is_offered_only_to_keys_with_an_agent_that_answers_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    let make = |agents: &[&'static str]| {
        let (mut key, text) = ServerKey::make("ada", [Scope::Turns], NOW).unwrap();
        key.agents = Some(agents.iter().copied().map(AgentName::new).collect());
        file.add(key).unwrap();
        text
    };
    let keys = [
        (make(&["researcher"]), false),
        (make(&["researcher", "main_thread"]), true),
    ];
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let orchestrator = engine(ScriptedModel::new(), &tool);
    let server = InProcess::serve_to(orchestrator, Keys::open(file).unwrap()).await;
    for (key, is_offered) in keys {
        let client = Client::with_key(&server.url, &key);
        let (_, listed) = call(&client, "tools/list", "", json!({})).await;
        assert!(listed.contains(r#""name":"researcher""#), "{listed}");
        let has_ask = listed.contains(r#""name":"ask""#);
        assert_eq!(has_ask, is_offered, "{listed}");
    }
    server.stop().await.unwrap();
}
