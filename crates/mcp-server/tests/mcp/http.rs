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
async fn a_question_stays_open_for_hours_while_the_client_says_that_it_is_there() {
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
async fn a_session_that_is_ended_is_answered_with_no_content() {
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
async fn who_is_asked_and_is_not_there_any_more_is_forgotten() {
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
