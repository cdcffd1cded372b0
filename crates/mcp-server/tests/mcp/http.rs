//! Clients of the `initialize` era over HTTP, whose sessions are dropped when they are silent.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use neuraxis_core::RunStatus;
use neuraxis_mcp_server::HttpService;
use neuraxis_ports::CancellationToken;
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{server, status, until};

/// The interval of comments in a stream without messages.
const BETWEEN_COMMENTS: Duration = Duration::from_secs(15);

/// A client that sends messages and opens no separate stream.
struct Posting {
    service: HttpService,
    session: Option<String>,
}

/// What a client receives while its call is in progress.
struct Told {
    body: BoxBody<Bytes, Infallible>,
    text: String,
}

impl Posting {
    async fn begin(service: HttpService) -> Self {
        let session = None;
        let mut client = Self { service, session };
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "raw", "version": "1"},
        }});
        let begun = client.send(initialize).await;
        let session = begun.headers()["mcp-session-id"].to_str().unwrap();
        client.session = Some(session.to_owned());
        begun.into_body().collect().await.unwrap();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.send(initialized).await.status(), 202);
        client
    }

    async fn send(&self, message: Value) -> Response<BoxBody<Bytes, Infallible>> {
        let mut post = Request::post("/mcp")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(session) = &self.session {
            post = post.header("mcp-session-id", session);
        }
        let post = post.body(Bytes::from(message.to_string())).unwrap();
        self.service.answer(post).await
    }

    /// Requests a refund in the session `s1`.
    async fn call(&self) -> Told {
        let arguments = json!({"message": "Refund order 17.", "session": "s1"});
        let params = json!({"name": "ask", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let answer = self.send(call).await;
        assert_eq!(answer.status(), 200);
        Told {
            body: answer.into_body(),
            text: String::new(),
        }
    }

    /// Answers a question.
    async fn answer(&self, id: &Value, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        assert_eq!(self.send(answer).await.status(), 202);
    }
}

impl Told {
    /// Returns the next message, or `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let mut data = event.lines().filter_map(|line| line.strip_prefix("data:"));
                let message = data.find_map(|data| serde_json::from_str(data).ok());
                self.text = rest.to_owned();
                if message.is_some() {
                    return message;
                }
            }
            let frame = self.body.frame().await?.unwrap();
            let data = frame.into_data().unwrap();
            if data.starts_with(b":") {
                // For the next one, the SDK reads the machine's clock, which is never behind the paused one.
                tokio::time::sleep(BETWEEN_COMMENTS).await;
                continue;
            }
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

fn model() -> Arc<ScriptedModel> {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(reply::text("That is all."));
    Arc::new(model)
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_open_for_hours_while_the_client_answers_pings() {
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, orchestrator) = server(&model(), &[Arc::clone(&tool)]);
    let service = HttpService::new(server, CancellationToken::new());
    let client = Posting::begin(service).await;
    let mut events = client.call().await;
    let began = Instant::now();
    let mut question = None;
    let result = loop {
        let message = events.next().await.expect("the call was given up");
        match message["method"].as_str() {
            Some("elicitation/create") => question = Some(message["id"].clone()),
            Some("ping") => client.answer(&message["id"], json!({})).await,
            Some(_) => {}
            None => break message,
        }
        let has_decided = began.elapsed() > Duration::from_secs(5 * 3_600);
        if let Some(question) = question.take_if(|_| has_decided) {
            let approval = json!({"action": "accept", "content": {"decision": "approve"}});
            client.answer(&question, approval).await;
        }
    };
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
    assert_eq!(tool.count(), 1);
    assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Done));
}

#[tokio::test(start_paused = true)]
async fn deleting_a_session_returns_no_content() {
    let (server, _orchestrator) = server(&model(), &[]);
    let service = HttpService::new(server, CancellationToken::new());
    let client = Posting::begin(service.clone()).await;
    let end = Request::delete("/mcp")
        .header("host", "localhost")
        .header("mcp-session-id", client.session.as_deref().unwrap());
    let ended = service.answer(end.body(Bytes::new()).unwrap()).await;
    assert_eq!(ended.status(), 204);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cancelled_when_its_client_no_longer_answers_pings() {
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, orchestrator) = server(&model(), &[Arc::clone(&tool)]);
    let service = HttpService::new(server, CancellationToken::new());
    let client = Posting::begin(service).await;
    let mut events = client.call().await;
    while events.next().await.is_some() {}
    until("the run is cancelled", async || {
        status(&orchestrator, "s1").await == Some(RunStatus::Interrupted)
    })
    .await;
    assert_eq!(tool.count(), 0);
}

/// Sends a request as it is and returns the status, the code and the message of the error that answers it.
async fn refusal(
    service: &HttpService,
    request: http::request::Builder,
    body: &str,
) -> (u16, i64, String) {
    let request = request.body(Bytes::from(body.to_owned())).unwrap();
    let response = service.answer(request).await;
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    assert_eq!(message.get("id"), None, "{message}");
    let error = &message["error"];
    let text = error["message"].as_str().unwrap().to_owned();
    (status, error["code"].as_i64().unwrap(), text)
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_gets_an_error_of_the_protocol_that_says_what_to_do() {
    let (server, _orchestrator) = server(&model(), &[]);
    let service = HttpService::behind_a_guard(server, CancellationToken::new());
    let (both, json) = ("application/json, text/event-stream", "application/json");
    let post = |accept: &str, content_type: &str| {
        Request::post("/mcp")
            .header("host", "localhost")
            .header("accept", accept)
            .header("content-type", content_type)
    };
    let get = || Request::get("/mcp").header("host", "localhost");
    let list = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#;
    for (request, body, status, code, hint) in [
        (
            post(json, json),
            list,
            406,
            -32_600,
            "both application/json and text/event-stream",
        ),
        (
            get(),
            "",
            406,
            -32_600,
            "the header Accept must name text/event-stream",
        ),
        (
            post(both, "text/plain"),
            list,
            415,
            -32_600,
            "Content-Type must be application/json",
        ),
        (post(both, json), "{", 415, -32_700, "not JSON"),
        (
            post(both, json),
            "[]",
            415,
            -32_600,
            "one JSON-RPC 2.0 object",
        ),
        (
            post(both, json),
            list,
            400,
            -32_600,
            "Mcp-Session-Id is missing; send initialize",
        ),
        (
            post(both, json).header("mcp-session-id", "gone"),
            list,
            404,
            -32_600,
            "session not found",
        ),
        (
            get()
                .header("accept", both)
                .header("mcp-session-id", "gone"),
            "",
            404,
            -32_600,
            "send initialize",
        ),
    ] {
        let (received, received_code, text) = refusal(&service, request, body).await;
        assert_eq!((received, received_code), (status, code), "{text}");
        assert!(text.contains(hint), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_is_not_supported_and_an_end_of_no_session_are_refused_so_too() {
    let (server, _orchestrator) = server(&model(), &[]);
    let service = HttpService::behind_a_guard(server, CancellationToken::new());
    let put = Request::put("/mcp").header("host", "localhost");
    let (status, _, text) = refusal(&service, put, "").await;
    let expected = "PUT is not supported here; use GET, POST, DELETE";
    assert_eq!((status, text.as_str()), (405, expected));
    let end = Request::delete("/mcp").header("host", "localhost");
    let (status, _, text) = refusal(&service, end, "").await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("Mcp-Session-Id is missing"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_version_of_the_protocol_is_refused_with_the_known_ones() {
    let (server, _orchestrator) = server(&model(), &[]);
    let service = HttpService::behind_a_guard(server, CancellationToken::new());
    let client = Posting::begin(service.clone()).await;
    let end = Request::delete("/mcp")
        .header("host", "localhost")
        .header("mcp-session-id", client.session.as_deref().unwrap())
        .header("mcp-protocol-version", "1999-01-01");
    let (status, code, text) = refusal(&service, end, "").await;
    assert_eq!((status, code), (400, -32_022), "{text}");
    assert!(text.contains("2025-11-25"), "{text}");
}
