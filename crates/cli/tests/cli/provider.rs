//! A model provider on a separate port that supports the OpenAI and DeepSeek protocols: Responses, Chat Completions,
//! and a list of models. Its model calls a tool if one helps, and then answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// What the model says if it needs no tool, or already has the result.
pub(crate) const ANSWER: &str = "It is noon somewhere.";

/// How a provider behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// Normally.
    Works,
    /// Accepts no key.
    RefusesKey,
    /// Returns a web page.
    Html,
    /// Its model thinks until no tokens are left for an answer.
    Thinks,
    /// Refuses requests that have this field.
    Refuses(&'static str),
    /// The key may call models, but not list them.
    RefusesList,
    /// Refuses requests that offer tools.
    TakesNoTools,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A running provider; it answers as long as the test runs.
pub(crate) struct Provider {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Provider {
    pub(crate) fn start(behavior: Behavior) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let log = Arc::clone(&log);
                thread::spawn(move || converse(connection.unwrap(), behavior, &log));
            }
        });
        Self { port, seen }
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the requests received so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// Returns an address without a listener.
pub(crate) fn nobody() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn converse(connection: TcpStream, behavior: Behavior, log: &Mutex<Vec<Seen>>) {
    let mut writer = connection.try_clone().unwrap();
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap_or_default() > 2 {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or_default()];
    if reader.read_exact(&mut body).is_err() || head.is_empty() {
        return;
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = answer(behavior, &path, &body);
    log.lock().unwrap().push(Seen { path, head, body });
    let _ = writer.write_all(answer.as_bytes());
}

fn answer(behavior: Behavior, path: &str, body: &Value) -> String {
    match behavior {
        Behavior::RefusesKey => {
            let error = json!({"error": {"message": "Incorrect API key provided: sk-canary-0123456789.",
                "type": "invalid_request_error", "param": null, "code": "invalid_api_key"}});
            response("401 Unauthorized", "application/json", &error.to_string())
        }
        Behavior::Html => response("200 OK", "text/html", "<html>It works!</html>"),
        Behavior::Refuses(field) if !body[field].is_null() => {
            let error = json!({"error": {"message": format!("'{field}' is not taken here."),
                "type": "invalid_request_error", "param": field, "code": "unsupported_value"}});
            response("400 Bad Request", "application/json", &error.to_string())
        }
        Behavior::RefusesList if path.ends_with("/models") => response(
            "403 Forbidden",
            "application/json",
            r#"{"error":{"message":"Missing scopes: api.model.read"}}"#,
        ),
        _ if path.ends_with("/models") => {
            let list = json!({"object": "list", "data": [
                {"id": "gpt-test", "object": "model", "owned_by": "me"},
                {"id": "deepseek-flash", "object": "model", "owned_by": "me"},
            ]});
            response("200 OK", "application/json", &list.to_string())
        }
        Behavior::TakesNoTools if body.get("tools").is_some() => response(
            "400 Bad Request",
            "application/json",
            r#"{"error":{"message":"gemma:2b does not support tools","type":"api_error"}}"#,
        ),
        Behavior::TakesNoTools => chat(body),
        Behavior::Thinks => {
            let message =
                json!({"role": "assistant", "content": "", "reasoning_content": "Let me see."});
            completion(body, &message, "length")
        }
        _ if path.ends_with("/responses") => responses(body),
        _ if path.ends_with("/chat/completions") => chat(body),
        _ => response(
            "404 Not Found",
            "application/json",
            r#"{"error":{"message":"no such page"}}"#,
        ),
    }
}

fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn events(events: &[Value], names: bool, end: &str) -> String {
    let lines: String = events
        .iter()
        .map(|event| match names {
            true => format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            ),
            false => format!("data: {event}\n\n"),
        })
        .collect();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{lines}{end}"
    )
}

/// Returns the tool that the model would call: an offered one whose result it does not have yet.
fn wanted(body: &Value, results: bool) -> Option<&'static str> {
    let offered = body["tools"].to_string();
    let tools = ["ping", "current_time", "system_health"].into_iter();
    let mut tools = tools.filter(|tool| offered.contains(&format!("\"{tool}\"")));
    tools
        .next()
        .filter(|_| !results && body["tool_choice"] != "none")
}

fn chat(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    let results = messages.iter().any(|message| message["role"] == "tool");
    let (message, finish) = match wanted(body, results) {
        Some(tool) => {
            let call = json!({"index": 0, "id": "call_1", "type": "function",
                "function": {"name": tool, "arguments": "{}"}});
            (
                json!({"role": "assistant", "content": "", "tool_calls": [call]}),
                "tool_calls",
            )
        }
        None => (json!({"role": "assistant", "content": ANSWER}), "stop"),
    };
    completion(body, &message, finish)
}

/// Answers a request of Chat Completions, as a whole or streamed as requested.
fn completion(body: &Value, message: &Value, finish: &str) -> String {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8});
    let model = &body["model"];
    if body["stream"] != true {
        let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage});
        return response("200 OK", "application/json", &whole.to_string());
    }
    let chunk = |choices: Value, usage: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model,
            "choices": choices, "usage": usage})
    };
    let chunks = [
        chunk(
            json!([{"index": 0, "delta": message, "finish_reason": null}]),
            Value::Null,
        ),
        chunk(
            json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
            Value::Null,
        ),
        chunk(json!([]), usage),
    ];
    events(&chunks, false, "data: [DONE]\n\n")
}

fn responses(body: &Value) -> String {
    let results = body["input"].to_string().contains("function_call_output");
    let item = match wanted(body, results) {
        Some(tool) => {
            json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool,
            "arguments": "{}", "status": "completed"})
        }
        None => {
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}]})
        }
    };
    let whole = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
        "model": body["model"], "output": [item], "error": null, "incomplete_details": null,
        "usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 8}});
    if body["stream"] != true {
        return response("200 OK", "application/json", &whole.to_string());
    }
    let mut begun = whole.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    let mut list = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
    ];
    match item["type"] == "message" {
        true => {
            let part = json!({"type": "output_text", "text": "", "annotations": []});
            list[1]["item"]["content"] = json!([]);
            list.push(
                json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
                "content_index": 0, "part": part}),
            );
            list.push(
                json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                "content_index": 0, "delta": ANSWER}),
            );
        }
        false => {
            list[1]["item"]["arguments"] = "".into();
            list.push(
                json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1",
                "output_index": 0, "delta": "{}"}),
            );
        }
    }
    list.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    list.push(json!({"type": "response.completed", "response": whole}));
    for (number, event) in list.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events(&list, true, "")
}
