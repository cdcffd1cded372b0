//! A model server for runs with tools, a sub-agent, a question and a failing first attempt. It records the trace of
//! each call.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The model's final answer.
pub(super) const ANSWER: &str = "All is well.";

/// The first instruction to the sub-agent.
pub(super) const HELPER: &str = "You add numbers.";

/// The part of a message that makes the model answer without any call.
pub(super) const AT_ONCE: &str = "Say it at once.";

/// The number of characters per token, for text longer than the tests expect.
const CHARACTERS: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) url: String,
    /// The header `traceparent` of each call.
    traces: Arc<Mutex<Vec<Option<String>>>>,
}

impl Model {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let model = Self {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            traces: Arc::default(),
        };
        let routes = Router::new()
            .route("/v1/chat/completions", post(answer))
            .with_state(model.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        model
    }

    pub(super) fn traces(&self) -> Vec<String> {
        let traces = self.traces.lock().unwrap();
        traces.iter().flatten().cloned().collect()
    }
}

async fn answer(State(model): State<Model>, headers: HeaderMap, body: Bytes) -> Response {
    let trace = headers.get("traceparent");
    let trace = trace.map(|it| it.to_str().unwrap().to_owned());
    let asked_before = {
        let mut traces = model.traces.lock().unwrap();
        traces.push(trace);
        traces.len() > 1
    };
    if !asked_before {
        return (StatusCode::SERVICE_UNAVAILABLE, "busy").into_response();
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let said_last = messages.last().unwrap()["content"].as_str();
    let is_asked_at_once = said_last.is_some_and(|it| it.contains(AT_ONCE));
    let has_results = is_asked_at_once || messages.iter().any(|it| it["role"] == "tool");
    let is_helper = messages[0]["content"].as_str().unwrap().contains(HELPER);
    let call = |index: usize, name: &str, arguments: Value| {
        json!({"index": index, "id": format!("c{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let calls = match (is_helper, has_results) {
        (_, true) => {
            return said(
                &body,
                json!({"role": "assistant", "content": ANSWER}),
                "stop",
            );
        }
        (true, false) => vec![call(0, "calculate", json!({"expression": "1 + 1"}))],
        (false, false) => vec![
            call(0, "current_time", json!({})),
            call(1, "adder", json!({"task": "What is 1 + 1?"})),
            call(2, "calculate", json!({"expression": "1 +"})),
        ],
    };
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    said(&body, message, "tool_calls")
}

fn said(body: &Value, message: Value, finish: &str) -> Response {
    let prompt = match body["messages"].to_string().len() / CHARACTERS {
        many @ 2_000.. => many,
        _ => 50,
    };
    let usage =
        json!({"prompt_tokens": prompt, "completion_tokens": 7, "total_tokens": prompt + 7});
    if body["stream"] != true {
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        let whole = json!({"id": "c", "object": "chat.completion", "model": "scripted",
            "choices": [choice], "usage": usage});
        return axum::Json(whole).into_response();
    }
    let chunk = |delta: Value, finish: Value, usage: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "scripted",
            "choices": [choice], "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let text = [
        chunk(message, Value::Null, Value::Null),
        chunk(json!({}), json!(finish), usage),
        "data: [DONE]\n\n".to_owned(),
    ];
    ([("content-type", "text/event-stream")], text.concat()).into_response()
}
