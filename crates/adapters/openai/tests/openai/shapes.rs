//! The formats in which OpenAI sends.

use neuraxis_testkit::loopback::{Answer, Seen};
use serde_json::{Value, json};

/// Writes events as a Responses stream, each with its name and a number.
pub(crate) fn named_events(events: &[Value]) -> String {
    let event = |(number, event): (usize, &Value)| {
        let mut event = event.clone();
        event["sequence_number"] = number.into();
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    };
    events.iter().enumerate().map(event).collect()
}

/// Writes chunks as a Chat Completions stream.
pub(crate) fn chunks(chunks: &[Value]) -> String {
    let chunk = |chunk: &Value| format!("data: {chunk}\n\n");
    let mut text: String = chunks.iter().map(chunk).collect();
    text.push_str("data: [DONE]\n\n");
    text
}

pub(crate) fn reasoning_item() -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me look."}],
        "encrypted_content": "gAAAAABsealed", "status": null})
}

pub(crate) fn message_item(text: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "final_answer",
        "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]})
}

pub(crate) fn call_item(number: u32, arguments: &str) -> Value {
    json!({"id": format!("fc_{number}"), "type": "function_call", "status": "completed", "name": "look",
        "call_id": format!("call_{number}"), "arguments": arguments})
}

/// Returns a complete response.
pub(crate) fn response(output: &[Value]) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "error": null,
        "incomplete_details": null, "model": "gpt-5.3-2026-02-01", "output": output, "parallel_tool_calls": true,
        "usage": {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 36}, "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 59}})
}

/// Returns the stream that leads to a response, each text in pieces of a few characters.
pub(crate) fn streamed(response: &Value) -> Vec<Value> {
    let begun = json!({"id": "resp_1", "status": "in_progress", "output": []});
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (index, item) in response["output"].as_array().unwrap().iter().enumerate() {
        stream_item(index, item, &mut events);
    }
    let end = format!("response.{}", response["status"].as_str().unwrap());
    events.push(json!({"type": end, "response": response}));
    events
}

fn stream_item(index: usize, item: &Value, events: &mut Vec<Value>) {
    let mut begun = item.clone();
    let (field, kind, text) = match item["type"].as_str().unwrap() {
        "reasoning" => (
            "summary",
            "reasoning_summary_text",
            &item["summary"][0]["text"],
        ),
        "message" if item["content"][0]["type"] == "refusal" => {
            ("content", "refusal", &item["content"][0]["refusal"])
        }
        "message" => ("content", "output_text", &item["content"][0]["text"]),
        _ => ("arguments", "function_call_arguments", &item["arguments"]),
    };
    begun[field] = if field == "arguments" {
        json!("")
    } else {
        json!([])
    };
    events
        .push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
    let letters: Vec<char> = text.as_str().unwrap().chars().collect();
    for piece in letters.chunks(4) {
        events.push(json!({"type": format!("response.{kind}.delta"), "output_index": index, "item_id": item["id"],
            "summary_index": 0, "content_index": 0, "delta": String::from_iter(piece), "obfuscation": "x1"}));
    }
    events.push(json!({"type": format!("response.{kind}.done"), "output_index": index, "item_id": item["id"]}));
    events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
}

/// Returns the output of a reply: calls if requested, otherwise a text.
pub(crate) fn output(calls: bool) -> Vec<Value> {
    if calls {
        vec![
            reasoning_item(),
            call_item(1, "{\"at\":\"sky\"}"),
            call_item(2, "{}"),
        ]
    } else {
        vec![message_item("Good day, 🦀.")]
    }
}

fn chat_reply(calls: bool) -> Value {
    let call = |number: u32, arguments: &str| json!({"id": format!("call_{number}"), "type": "function", "function": {"name": "look", "arguments": arguments}});
    let (message, finish) = if calls {
        let calls = [call(1, "{\"at\":\"sky\"}"), call(2, "{}")];
        (
            json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": calls}),
            "tool_calls",
        )
    } else {
        (
            json!({"role": "assistant", "content": "Good day, 🦀.", "refusal": null}),
            "stop",
        )
    };
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5.3-2026-02-01",
        "choices": [{"index": 0, "finish_reason": finish, "logprobs": null, "message": message}],
        "usage": chat_usage(), "service_tier": "default"})
}

pub(crate) fn chat_usage() -> Value {
    json!({"prompt_tokens": 50, "completion_tokens": 9, "total_tokens": 59,
        "prompt_tokens_details": {"cached_tokens": 36, "cache_write_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 0, "accepted_prediction_tokens": 0}})
}

/// Returns a chunk of a Chat Completions stream.
pub(crate) fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.3-2026-02-01",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null, "obfuscation": "aB3"})
}

pub(crate) fn usage_chunk() -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-5.3-2026-02-01", "choices": [],
        "usage": chat_usage()})
}

pub(crate) fn chat_stream(calls: bool) -> Vec<Value> {
    let call = |index: u32, function: &Value| json!({"tool_calls": [{"index": index, "function": function}]});
    let begin = |index: u32| {
        json!({"tool_calls": [{"index": index, "id": format!("call_{}", index + 1), "type": "function",
            "function": {"name": "look", "arguments": ""}}]})
    };
    let mut deltas = vec![json!({"role": "assistant", "content": null, "refusal": null})];
    if calls {
        deltas.extend([
            begin(0),
            call(0, &json!({"arguments": "{\"at\":"})),
            call(0, &json!({"arguments": "\"sky\"}"})),
            begin(1),
            call(1, &json!({"arguments": "{}"})),
        ]);
    } else {
        deltas.extend([json!({"content": "Good day,"}), json!({"content": " 🦀."})]);
    }
    let finish = if calls { "tool_calls" } else { "stop" };
    let mut stream: Vec<Value> = deltas.iter().map(|delta| chunk(delta, None)).collect();
    stream.push(chunk(&json!({}), Some(finish)));
    stream.push(usage_chunk());
    stream
}

/// Answers a request with either protocol, streamed or whole as requested: with calls if its last message mentions
/// calls, otherwise with a text.
pub(crate) fn answer(seen: &Seen) -> Answer {
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    let is_streamed = body["stream"] == true;
    let conversation = if body["input"].is_array() {
        &body["input"]
    } else {
        &body["messages"]
    };
    let last = conversation.as_array().unwrap().last().unwrap();
    let calls = last["content"]
        .as_str()
        .is_some_and(|text| text.contains("calls"));
    if body["input"].is_array() {
        answer_with(&response(&output(calls)), is_streamed)
    } else if is_streamed {
        pieces(&chunks(&chat_stream(calls)))
    } else {
        Answer::json(&chat_reply(calls).to_string())
    }
}

/// Answers with a response.
pub(crate) fn answer_with(response: &Value, is_streamed: bool) -> Answer {
    if is_streamed {
        pieces(&named_events(&streamed(response)))
    } else {
        Answer::json(&response.to_string())
    }
}

/// Answers with a stream, event by event.
pub(crate) fn pieces(stream: &str) -> Answer {
    Answer::events(stream.split_inclusive("\n\n").map(str::as_bytes))
}

/// Returns whether a request asks for a stream.
pub(crate) fn is_streamed(seen: &Seen) -> bool {
    seen.body.contains("\"stream\":true")
}
