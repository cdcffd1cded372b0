//! A loopback model server that gives the same reply to the same conversation, and can be held up at any point of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// The beginning of a last message that the model refuses.
pub(crate) const REFUSE: &str = "Refuse ";

/// Where a reply can be held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nowhere.
    Nowhere,
    /// Before its first byte.
    Before,
    /// After its first words.
    Amid,
}

/// A scripted model. Its reply depends only on the number of results in the conversation, so it does not matter how
/// often it is called.
#[derive(Clone)]
pub(crate) struct Model(Arc<Inner>);

struct Inner {
    url: String,
    script: fn(usize) -> Said,
    /// By the number of results in the conversation.
    hold: watch::Sender<(usize, Hold)>,
    asked: Mutex<BTreeMap<usize, usize>>,
    /// How many replies were started, and how many were completed.
    given: watch::Sender<(usize, usize)>,
}

/// What the model says.
pub(crate) enum Said {
    Calls(&'static [(&'static str, &'static str)]),
    Text(&'static str),
}

impl Model {
    pub(crate) async fn start(script: fn(usize) -> Said) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let model = Self(Arc::new(Inner {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            script,
            hold: watch::Sender::new((0, Hold::Nowhere)),
            asked: Mutex::default(),
            given: watch::Sender::new((0, 0)),
        }));
        let routes = Router::new()
            .route("/v1/chat/completions", post(answer))
            .with_state(model.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        model
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// Holds up the replies to conversations with this many results.
    pub(crate) fn hold(&self, results: usize, at: Hold) {
        self.0.hold.send_replace((results, at));
    }

    pub(crate) fn let_go(&self) {
        self.0.hold.send_replace((0, Hold::Nowhere));
    }

    /// Returns how often it was called with a conversation with this many results.
    pub(crate) fn asked(&self, results: usize) -> usize {
        let asked = self.0.asked.lock().unwrap();
        asked.get(&results).copied().unwrap_or_default()
    }

    /// Waits until it was called with a conversation with this many results.
    pub(crate) async fn was_asked(&self, results: usize) {
        let mut given = self.0.given.subscribe();
        while self.asked(results) == 0 {
            given.changed().await.unwrap();
        }
    }

    /// Waits until it has completed this many replies.
    pub(crate) async fn has_given(&self, replies: usize) {
        let mut given = self.0.given.subscribe();
        given
            .wait_for(|(_, whole)| *whole >= replies)
            .await
            .unwrap();
    }

    async fn wait(&self, results: usize, at: Hold) {
        let mut hold = self.0.hold.subscribe();
        hold.wait_for(|held| *held != (results, at)).await.unwrap();
    }
}

async fn answer(State(model): State<Model>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|it| it["role"] == "tool").count();
    *model.0.asked.lock().unwrap().entry(results).or_default() += 1;
    model.0.given.send_modify(|given| given.0 += 1);
    let last = messages.last().and_then(|it| it["content"].as_str());
    if let Some(text) = last.filter(|text| text.starts_with(REFUSE)) {
        // It quotes what it refuses, as real services do.
        let message = format!("Invalid input: '{text}' is not acceptable");
        let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
        return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
    }
    let said = (model.0.script)(results);
    model.wait(results, Hold::Before).await;
    if body["stream"] != true {
        model.0.given.send_modify(|given| given.1 += 1);
        return axum::Json(whole(&said)).into_response();
    }
    let (sender, mut pieces) = mpsc::channel::<String>(4);
    tokio::spawn(async move {
        let frames = frames(&said);
        for (place, frame) in frames.into_iter().enumerate() {
            if place == 1 {
                model.wait(results, Hold::Amid).await;
            }
            if sender.send(frame).await.is_err() {
                return;
            }
        }
        model.0.given.send_modify(|given| given.1 += 1);
    });
    let stream = futures_util::stream::poll_fn(move |context| {
        let piece = pieces.poll_recv(context);
        piece.map(|piece| piece.map(|text| Ok::<_, Infallible>(Bytes::from(text))))
    });
    let head = [("content-type", "text/event-stream")];
    (head, Body::from_stream(stream)).into_response()
}

fn calls(calls: &[(&str, &str)]) -> Vec<Value> {
    let calls = calls.iter().enumerate();
    let calls = calls.map(|(index, (name, arguments))| {
        json!({"index": index, "id": format!("call_{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments}})
    });
    calls.collect()
}

fn frames(said: &Said) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "scripted",
            "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut frames = Vec::new();
    match said {
        Said::Calls(asked) => {
            frames.push(chunk(
                json!({"role": "assistant", "content": "I look. "}),
                Value::Null,
            ));
            frames.push(chunk(json!({"tool_calls": calls(asked)}), Value::Null));
            frames.push(chunk(json!({}), json!("tool_calls")));
        }
        Said::Text(text) => {
            let (first, rest) = text.split_at(text.len() / 2);
            frames.push(chunk(
                json!({"role": "assistant", "content": first}),
                Value::Null,
            ));
            frames.push(chunk(json!({"content": rest}), Value::Null));
            frames.push(chunk(json!({}), json!("stop")));
        }
    }
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8});
    let last = json!({"id": "c", "object": "chat.completion.chunk", "model": "scripted",
        "choices": [], "usage": usage});
    frames.push(format!("data: {last}\n\ndata: [DONE]\n\n"));
    frames
}

fn whole(said: &Said) -> Value {
    let (message, finish) = match said {
        Said::Calls(asked) => {
            let message = json!({"role": "assistant", "content": null, "tool_calls": calls(asked)});
            (message, "tool_calls")
        }
        Said::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
    };
    json!({"id": "c", "object": "chat.completion", "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}})
}
