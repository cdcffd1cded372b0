//! Streams as servers send them: one word per delta, with everything that servers repeat around it.

use std::fmt::Write;

use serde_json::json;

/// The protocol of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Chat,
    Responses,
}

impl Protocol {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "Chat Completions",
            Self::Responses => "Responses",
        }
    }
}

const WORDS: [&str; 8] = [
    " the",
    " service",
    " is",
    " \"healthy\"",
    ",\n",
    " naïve",
    " and",
    " 🦀",
];

/// A stream of a number of deltas: what precedes them, each of them, and what follows.
pub(crate) struct Shape {
    pub(crate) before: String,
    pub(crate) deltas: Vec<String>,
    pub(crate) after: String,
}

impl Shape {
    pub(crate) fn new(protocol: Protocol, count: usize) -> Self {
        match protocol {
            Protocol::Chat => chat(words(count)),
            Protocol::Responses => responses(words(count)),
        }
    }

    /// Returns the whole stream, with each event in an HTTP chunk.
    pub(crate) fn chunked(&self) -> Vec<u8> {
        let mut text = chunk(&self.before);
        for delta in &self.deltas {
            text += &chunk(delta);
        }
        text += &chunk(&self.after);
        text += "0\r\n\r\n";
        text.into_bytes()
    }

    pub(crate) fn bytes(&self) -> usize {
        let deltas: usize = self.deltas.iter().map(String::len).sum();
        self.before.len() + deltas + self.after.len()
    }
}

/// Returns the words of this many deltas.
pub(crate) fn words(count: usize) -> impl Iterator<Item = &'static str> {
    WORDS.iter().copied().cycle().take(count)
}

/// Returns a text as an HTTP chunk.
pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn chat<'a>(words: impl Iterator<Item = &'a str>) -> Shape {
    let event = |choices: serde_json::Value, usage: serde_json::Value| {
        let chunk = json!({
            "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "some-model-2026-01-01", "system_fingerprint": "fp_44709d6fcb", "choices": choices, "usage": usage,
        });
        format!("data: {chunk}\n\n")
    };
    let piece = |delta: serde_json::Value| {
        let choice = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]);
        event(choice, json!(null))
    };
    let end = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": "stop"}]);
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9});
    Shape {
        before: piece(json!({"role": "assistant", "content": ""})),
        deltas: words.map(|word| piece(json!({"content": word}))).collect(),
        after: format!(
            "{}{}data: [DONE]\n\n",
            event(end, json!(null)),
            event(json!([]), usage)
        ),
    }
}

fn responses<'a>(words: impl Iterator<Item = &'a str>) -> Shape {
    const ITEM: &str = "msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654";
    let event = |kind: &str, number: usize, fields: serde_json::Value| {
        let mut event = json!({"type": kind, "sequence_number": number});
        if let (Some(event), serde_json::Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let item = |content: serde_json::Value, status: &str| json!({"id": ITEM, "type": "message", "status": status, "role": "assistant", "content": content});
    let place = json!({"item_id": ITEM, "output_index": 0, "content_index": 0});
    let mut text = String::new();
    let mut deltas = Vec::new();
    for (number, word) in (2..).zip(words) {
        text += word;
        let mut fields = place.clone();
        fields["delta"] = json!(word);
        fields["logprobs"] = json!([]);
        fields["obfuscation"] = json!("aB3dE5gH7jK9m");
        deltas.push(event("response.output_text.delta", number, fields));
    }
    let number = deltas.len() + 2;
    let whole = item(
        json!([{"type": "output_text", "text": text, "annotations": []}]),
        "completed",
    );
    let response = json!({
        "id": "resp_1", "object": "response", "status": "completed", "model": "some-model", "output": [whole.clone()],
        "usage": {"input_tokens": 5, "output_tokens": 4, "total_tokens": 9},
    });
    let created = json!({"response": {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}});
    let added = json!({"output_index": 0, "item": item(json!([]), "in_progress")});
    let done = json!({"output_index": 0, "item": whole});
    let mut after = event("response.output_item.done", number, done);
    let completed = json!({"response": response});
    let _ = write!(
        after,
        "{}",
        event("response.completed", number + 1, completed)
    );
    Shape {
        before: event("response.created", 0, created)
            + &event("response.output_item.added", 1, added),
        deltas,
        after,
    }
}
