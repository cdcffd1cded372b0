//! The content of conversations in the form of the conventions: messages of parts, as JSON. Used only if the deployment
//! exports content.
//!
//! The content is complete here: the sending thread removes secrets and cuts long text.

use std::sync::Arc;

use neuraxis_core::{
    FinishReason, JsonText, MediaPart, MediaSource, Message, Part, Reply, ReplyFinish, ReplyPart,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// The maximum number of base64 characters that are exported.
const MAX_BASE64: usize = 16_384;

/// Returns the leading system message, if there is one, and the other messages.
pub(crate) fn input(messages: &[Arc<Message>]) -> (Option<String>, String) {
    let (first, rest) = match messages.split_first() {
        Some((first, rest)) if matches!(**first, Message::System { .. }) => (Some(first), rest),
        _ => (None, messages),
    };
    let system = first.map(|first| json!(parts(first)).to_string());
    let said: Vec<Value> = rest.iter().map(|it| message(it)).collect();
    (system, json!(said).to_string())
}

/// Returns a model's reply.
pub(crate) fn output(reply: &Reply) -> String {
    let parts: Vec<Value> = reply.parts.iter().map(reply_part).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish(reply.finish)}])
        .to_string()
}

/// Returns an agent's answer and why it ended.
pub(crate) fn answer(content: &str, reason: &FinishReason) -> String {
    let reason = finish_of_agent(reason);
    json!([{"role": "assistant", "parts": [text(content)], "finish_reason": reason}]).to_string()
}

/// Returns why an agent ended, in the conventions' terms.
pub(crate) const fn finish_of_agent(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::Clarify => "stop",
        FinishReason::ClientTools => "tool_call",
        FinishReason::ContentFilter | FinishReason::Refused => "content_filter",
        FinishReason::Length => "length",
        reason if reason.ends_at_a_limit() => "length",
        _ => "error",
    }
}

/// Returns text that should be JSON as valid JSON: unchanged, or as a string if it is not.
pub(crate) fn json_of(text: &JsonText) -> String {
    match serde_json::from_str::<IgnoredAny>(text.as_str()) {
        Ok(_) => text.as_str().to_owned(),
        Err(_) => Value::String(text.as_str().to_owned()).to_string(),
    }
}

/// Returns why a model stopped, in the conventions' terms.
pub(crate) const fn finish(finish: ReplyFinish) -> &'static str {
    match finish {
        ReplyFinish::Stop => "stop",
        ReplyFinish::ToolCalls => "tool_call",
        ReplyFinish::Length => "length",
        ReplyFinish::ContentFilter | ReplyFinish::Refused => "content_filter",
    }
}

fn message(message: &Message) -> Value {
    let role = match message {
        Message::System { .. } => "system",
        Message::User { .. } => "user",
        Message::Assistant(_) => "assistant",
        Message::Tool(_) => "tool",
    };
    json!({"role": role, "parts": parts(message)})
}

fn parts(message: &Message) -> Vec<Value> {
    match message {
        Message::System { text: said } => vec![text(said)],
        Message::User { parts } => parts.iter().map(part).collect(),
        Message::Assistant(said) => said.parts.iter().map(part).collect(),
        Message::Tool(result) => vec![json!({
            "type": "tool_call_response",
            "id": result.tool_call_id,
            "response": value(&result.content),
        })],
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(said) => text(&said.text),
        Part::Reasoning(thought) => json!({"type": "reasoning", "content": &thought.text}),
        Part::ToolCall(call) => json!({
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "arguments": value(&call.arguments),
        }),
        Part::Media(content) => media(content),
        _ => json!({"type": "other"}),
    }
}

fn reply_part(part: &ReplyPart) -> Value {
    match part {
        ReplyPart::Text(said) => text(&said.text),
        ReplyPart::Reasoning(thought) => {
            json!({"type": "reasoning", "content": &thought.text})
        }
        ReplyPart::ToolCall(call) => json!({
            "type": "tool_call",
            "id": call.provider_id,
            "name": call.name,
            "arguments": value(&call.arguments),
        }),
    }
}

/// Writes an image, a sound or a file: its address, or its content unless that is too large.
fn media(part: &MediaPart) -> Value {
    let kind = part.media_type.split('/').next().unwrap_or_default();
    let modality = match kind {
        "image" | "audio" | "video" => kind,
        _ => "document",
    };
    match &part.source {
        MediaSource::Url(uri) => {
            json!({"type": "uri", "modality": modality, "mime_type": part.media_type, "uri": uri})
        }
        MediaSource::Base64(content) => {
            // A part of it would not be valid base64.
            let content = if content.len() <= MAX_BASE64 {
                &**content
            } else {
                ""
            };
            json!({"type": "blob", "modality": modality, "mime_type": part.media_type, "content": content})
        }
    }
}

/// Returns the value of text that should be JSON, or the text itself as a string.
fn value(text: &JsonText) -> Value {
    let decoded = text.decode();
    decoded.unwrap_or_else(|_| Value::String(text.as_str().to_owned()))
}

fn text(said: &str) -> Value {
    json!({"type": "text", "content": said})
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::reply;

    use super::*;

    #[test]
    fn arguments_are_json_objects_and_media_follow_the_schema() {
        let said = reply::calls([("look", r#"{"at": "sky"}"#), ("look", "{at:")]);
        let media = |media_type: &str, source| {
            Part::Media(MediaPart {
                media_type: media_type.to_owned(),
                source,
            })
        };
        let question = Message::User {
            parts: vec![
                media("image/png", MediaSource::Base64("aGk=".into())),
                media(
                    "application/pdf",
                    MediaSource::Base64("aGk=".repeat(9_999).into()),
                ),
                media("audio/wav", MediaSource::Url("https://h/a.wav".to_owned())),
            ],
        };
        let (system, messages) = input(&[Arc::new(question)]);
        assert_eq!(system, None);
        let messages: Value = serde_json::from_str(&messages).unwrap();
        assert_eq!(
            messages[0]["parts"],
            json!([
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGk="},
                {"type": "blob", "modality": "document", "mime_type": "application/pdf", "content": ""},
                {"type": "uri", "modality": "audio", "mime_type": "audio/wav", "uri": "https://h/a.wav"},
            ])
        );
        let said: Value = serde_json::from_str(&output(&said)).unwrap();
        assert_eq!(said[0]["parts"][0]["arguments"], json!({"at": "sky"}));
        assert_eq!(said[0]["parts"][1]["arguments"], "{at:");
    }

    #[test]
    fn finish_reasons_use_the_words_of_the_conventions() {
        for (reason, expected) in [
            (FinishReason::Stop, "stop"),
            (FinishReason::MaxTurns, "length"),
            (FinishReason::Deadline, "length"),
            (FinishReason::Refused, "content_filter"),
            (FinishReason::ClientTools, "tool_call"),
            (FinishReason::Failed("x".to_owned()), "error"),
            (FinishReason::Cancelled, "error"),
        ] {
            assert!(answer("a", &reason).contains(&format!("\"finish_reason\":\"{expected}\"")));
        }
    }
}
