//! Anthropic's responses, by shape.

use neuraxis_testkit::loopback::{Answer, Seen};
use serde_json::{Value, json};

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(crate) fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": "ErUBCkYIBxgCIkA+sealed/for=="})
}

pub(crate) fn redacted() -> Value {
    json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3\u{2028}\\u00e9"})
}

pub(crate) fn call(number: u32, input: &Value) -> Value {
    json!({"type": "tool_use", "id": format!("toolu_0{number}"), "name": "look", "input": input,
        "caller": {"type": "direct"}})
}

pub(crate) fn usage() -> Value {
    json!({"input_tokens": 4, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 36,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}, "service_tier": "standard"})
}

/// A whole message.
pub(crate) fn message(content: &[Value], stop_reason: &str) -> Value {
    json!({"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-opus-4-8-20260301",
        "content": content, "stop_reason": stop_reason, "stop_sequence": null, "stop_details": null,
        "usage": usage()})
}

/// The stream for a message, with each text in pieces of a few characters.
pub(crate) fn streamed(message: &Value) -> Vec<Value> {
    let mut begun = message.clone();
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    begun["stop_details"] = Value::Null;
    begun["usage"]["output_tokens"] = json!(1);
    begun["usage"]["output_tokens_details"] = Value::Null;
    let mut events = vec![
        json!({"type": "message_start", "message": begun}),
        json!({"type": "ping"}),
    ];
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        stream_block(index, block, &mut events);
    }
    let mut used = message["usage"].clone();
    used.as_object_mut()
        .unwrap()
        .retain(|name, _| name.contains("tokens") && name != "input_tokens");
    let delta = json!({"stop_reason": message["stop_reason"], "stop_sequence": null,
        "stop_details": message["stop_details"]});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": used}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn stream_block(index: usize, block: &Value, events: &mut Vec<Value>) {
    let mut begun = block.clone();
    let mut deltas = Vec::new();
    match block["type"].as_str().unwrap() {
        "text" => {
            begun["text"] = json!("");
            for piece in pieces_of(block["text"].as_str().unwrap()) {
                deltas.push(json!({"type": "text_delta", "text": piece}));
            }
        }
        "thinking" => {
            (begun["thinking"], begun["signature"]) = (json!(""), json!(""));
            for piece in pieces_of(block["thinking"].as_str().unwrap()) {
                deltas.push(json!({"type": "thinking_delta", "thinking": piece}));
            }
            let signature = &block["signature"];
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
        }
        "tool_use" => {
            begun["input"] = json!({});
            deltas.push(json!({"type": "input_json_delta", "partial_json": ""}));
            let input = &block["input"];
            if *input != json!({}) {
                for piece in pieces_of(&input.to_string()) {
                    deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
                }
            }
        }
        _ => {}
    }
    events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
    for delta in deltas {
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    events.push(json!({"type": "content_block_stop", "index": index}));
}

fn pieces_of(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(4).map(String::from_iter).collect()
}

/// Writes events as they are in a stream.
pub(crate) fn named_events(events: &[Value]) -> String {
    let event = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    };
    events.iter().map(event).collect()
}

/// The content of a reply: calls if they are requested, otherwise text.
pub(crate) fn content(calls: bool) -> (Vec<Value>, &'static str) {
    if calls {
        let blocks = vec![
            thinking("Let me look."),
            redacted(),
            text("I look."),
            call(1, &json!({"at": "sky \"é\" 🦀"})),
            call(2, &json!({})),
        ];
        (blocks, "tool_use")
    } else {
        (vec![text("Good day, 🦀.")], "end_turn")
    }
}

/// Answers a request, streamed or whole as requested: with calls if its last message mentions calls, otherwise with a
/// text.
pub(crate) fn answer(seen: &Seen) -> Answer {
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let last = last["content"].as_array().unwrap().last().unwrap();
    let calls = last["text"].as_str();
    let (content, stop) = content(calls.is_some_and(|text| text.contains("calls")));
    answer_with(&message(&content, stop), seen)
}

/// Answers with a message, streamed or whole as requested.
pub(crate) fn answer_with(message: &Value, seen: &Seen) -> Answer {
    if seen.body.contains("\"stream\":true") {
        pieces(&named_events(&streamed(message)))
    } else {
        Answer::json(&message.to_string())
    }
}

/// Answers with a stream, event by event.
pub(crate) fn pieces(stream: &str) -> Answer {
    Answer::events(stream.split_inclusive("\n\n").map(str::as_bytes))
}
