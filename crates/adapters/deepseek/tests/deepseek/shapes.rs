//! The formats in which DeepSeek sends.

use neuraxis_testkit::loopback::{Answer, Seen};
use serde_json::{Value, json};

/// Returns the usage of every reply.
fn usage() -> Value {
    json!({
        "prompt_tokens": 70,
        "completion_tokens": 30,
        "total_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
        "prompt_cache_hit_tokens": 64,
        "prompt_cache_miss_tokens": 6,
    })
}

fn event(choice: &Value, usage: Option<&Value>) -> String {
    let chunk = json!({
        "id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "deepseek-flash",
        "system_fingerprint": "fp", "choices": [choice], "usage": usage,
    });
    format!("data: {chunk}\n\n")
}

/// Returns the events of a reply: pieces of the message, and why it ends, with keep-alive lines before and between
/// them.
pub(crate) fn events(pieces: &[Value], finish: &str) -> Vec<String> {
    let choice = |delta: &Value, finish: Option<&str>| json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
    let mut events = vec![": keep-alive\n\n".to_owned(), ": keep-alive\n\n".to_owned()];
    let first = json!({"role": "assistant", "content": null, "reasoning_content": ""});
    events.push(event(&choice(&first, None), None));
    for piece in pieces {
        events.push(event(&choice(piece, None), None));
        events.push(": keep-alive\n\n".to_owned());
    }
    let last = choice(&json!({"content": ""}), Some(finish));
    events.push(event(&last, Some(&usage())));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// Returns the same reply whole, after the blank lines that keep its connection alive.
pub(crate) fn document(message: &Value, finish: &str) -> String {
    let document = json!({
        "id": "c-1", "object": "chat.completion", "created": 1, "model": "deepseek-flash",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "usage": usage(),
    });
    format!("\n\n\n{document}")
}

/// Answers streamed or whole, as requested.
pub(crate) fn either(seen: &Seen, pieces: &[Value], message: &Value, finish: &str) -> Answer {
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    if body["stream"] == true {
        let events = events(pieces, finish);
        Answer::events(events.iter().map(String::as_bytes))
    } else {
        Answer::json(&document(message, finish))
    }
}

/// Answers with a text that streams in the given pieces.
pub(crate) fn text(seen: &Seen, pieces: &[&str], finish: &str) -> Answer {
    let streamed: Vec<_> = pieces
        .iter()
        .map(|piece| json!({"content": piece}))
        .collect();
    let message = json!({"role": "assistant", "content": pieces.concat()});
    either(seen, &streamed, &message, finish)
}

/// Answers a chat request according to its last message: for `calls`, with two calls after a thought; for `leak`, with
/// the markup of a call in the text; otherwise with a text after a thought.
pub(crate) fn chat(seen: &Seen) -> Answer {
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    match last["content"].as_str().unwrap() {
        last if last.contains("calls") => calls(seen),
        last if last.contains("leak") => leak(seen),
        _ => thought(seen),
    }
}

fn thought(seen: &Seen) -> Answer {
    let pieces = [
        json!({"reasoning_content": "Let me "}),
        json!({"reasoning_content": "think."}),
        json!({"content": "Good "}),
        json!({"content": "day."}),
    ];
    let message =
        json!({"role": "assistant", "content": "Good day.", "reasoning_content": "Let me think."});
    either(seen, &pieces, &message, "stop")
}

fn calls(seen: &Seen) -> Answer {
    let header = |index: usize, name: &str| json!({"tool_calls": [{"index": index, "id": format!("call_{index}"), "type": "function", "function": {"name": name, "arguments": ""}}]});
    let fragment = |index: usize, text: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
    let pieces = [
        json!({"reasoning_content": "Two "}),
        json!({"reasoning_content": "calls."}),
        header(0, "look"),
        fragment(0, "{\"at\":"),
        fragment(0, "\"sky\"}"),
        header(1, "wait"),
        fragment(1, "{}"),
    ];
    let call = |index: usize, name: &str, arguments: &str| json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": {"name": name, "arguments": arguments}});
    let message = json!({
        "role": "assistant", "content": "", "reasoning_content": "Two calls.",
        "tool_calls": [call(0, "look", "{\"at\":\"sky\"}"), call(1, "wait", "{}")],
    });
    either(seen, &pieces, &message, "tool_calls")
}

fn leak(seen: &Seen) -> Answer {
    let pieces = [
        "I will look.\n\n<",
        "｜DS",
        "ML｜tool_calls>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜para",
        "meter name=\"at\" string=\"true\">sky</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    ];
    text(seen, &pieces, "stop")
}
