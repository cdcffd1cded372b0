//! The server's answers, as HTTP.

use serde_json::{Value, json};

use super::{FaultyModelServer, ModelFault, ReceivedRequest};

/// Returns a faulty server's answer to a request.
pub(super) fn broken(fault: ModelFault, request: &ReceivedRequest) -> String {
    let words = FaultyModelServer::WORDS;
    match fault {
        ModelFault::Unreachable | ModelFault::Reset => String::new(),
        ModelFault::Loading => response(
            "503 Service Unavailable\r\ncontent-type: application/json",
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        ),
        ModelFault::Failing => {
            let error = json!({"error": {"code": 500, "message": words, "type": "server_error"}});
            let head = "500 Internal Server Error\r\ncontent-type: application/json";
            response(head, &error.to_string())
        }
        ModelFault::FailingInPlainText => response(
            "500 Internal Server Error\r\ncontent-type: text/plain",
            words,
        ),
        ModelFault::WebPage => response(
            "200 OK\r\ncontent-type: text/html",
            &format!("<html>{words}</html>"),
        ),
        ModelFault::Redirect => {
            let elsewhere = FaultyModelServer::ELSEWHERE;
            response(&format!("302 Found\r\nlocation: http://{elsewhere}/v1"), "")
        }
        ModelFault::CutOff | ModelFault::Stalling => half(request),
    }
}

/// Returns a repaired server's answer to a request.
pub(super) fn whole(request: &ReceivedRequest) -> String {
    if !request.line.contains("/chat/completions") {
        return response("404 Not Found", "");
    }
    let messages = request.body.get("messages").and_then(Value::as_array);
    let last = messages.and_then(|messages| messages.last()?.get("role"));
    let (message, finish) = if last.is_some_and(|role| role == "tool") {
        let answer = FaultyModelServer::ANSWER;
        (json!({"role": "assistant", "content": answer}), "stop")
    } else {
        (
            json!({"role": "assistant", "tool_calls": [call()]}),
            "tool_calls",
        )
    };
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8});
    if is_streamed(request) {
        let mut text = STREAM.to_owned();
        text += &chunk(
            &json!([{"index": 0, "delta": message, "finish_reason": null}]),
            &Value::Null,
        );
        text += &chunk(
            &json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
            &Value::Null,
        );
        text += &chunk(&json!([]), &usage);
        return text + "data: [DONE]\n\n";
    }
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}]});
    let head = "200 OK\r\ncontent-type: application/json";
    response(head, &body.to_string())
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Returns the beginning of a reply. In a stream, it contains a complete call but not the whole reply. For a whole
/// reply, the declared length shows that it is cut.
fn half(request: &ReceivedRequest) -> String {
    let half = FaultyModelServer::HALF;
    if is_streamed(request) {
        let deltas = [
            json!({"role": "assistant", "content": half}),
            json!({"tool_calls": [call()]}),
        ];
        let chunks = deltas.map(|delta| {
            chunk(
                &json!([{"index": 0, "delta": delta, "finish_reason": null}]),
                &Value::Null,
            )
        });
        return STREAM.to_owned() + &chunks.concat();
    }
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 1000\r\n\r\n\
         {{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{{\"message\":{{\"content\":\"{half}"
    )
}

fn is_streamed(request: &ReceivedRequest) -> bool {
    request
        .body
        .get("stream")
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

fn call() -> Value {
    json!({"index": 0, "id": "theirs_0", "type": "function",
        "function": {"name": "current_time", "arguments": "{}"}})
}

fn chunk(choices: &Value, usage: &Value) -> String {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": choices, "usage": usage});
    format!("data: {chunk}\n\n")
}

fn response(head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
