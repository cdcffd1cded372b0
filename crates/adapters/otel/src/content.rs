//! What was said, as the conventions write it: messages of parts, as JSON. Only where the deployment wants content exported.

use std::sync::Arc;

use neuraxis_core::{Message, Part, Reply, ReplyFinish, ReplyPart};
use serde_json::{Value, json};

/// The most characters of one text; of a longer one the beginning is exported.
const MAX_CHARS: usize = 16_384;

/// Returns what a model was told first, if it was told anything, and what was said to it then.
pub(crate) fn input(messages: &[Arc<Message>]) -> (Option<String>, String) {
    let (first, rest) = match messages.split_first() {
        Some((first, rest)) if matches!(**first, Message::System { .. }) => (Some(first), rest),
        _ => (None, messages),
    };
    let system = first.map(|first| json!(parts(first)).to_string());
    let said: Vec<Value> = rest.iter().map(|it| message(it)).collect();
    (system, json!(said).to_string())
}

/// Returns what a model answered.
pub(crate) fn output(reply: &Reply) -> String {
    let parts: Vec<Value> = reply.parts.iter().map(reply_part).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish(reply.finish)}])
        .to_string()
}

/// Returns what an agent answered.
pub(crate) fn answer(content: &str) -> String {
    json!([{"role": "assistant", "parts": [text(content)], "finish_reason": "stop"}]).to_string()
}

/// Returns why a model stopped, in the words of the conventions.
pub(crate) const fn finish(finish: ReplyFinish) -> &'static str {
    match finish {
        ReplyFinish::Stop => "stop",
        ReplyFinish::ToolCalls => "tool_call",
        ReplyFinish::Length => "length",
        ReplyFinish::ContentFilter => "content_filter",
    }
}

/// Returns a text, cut where it is very long.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}… [cut]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
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
            "response": cut(result.content.as_str()),
        })],
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(said) => text(&said.text),
        Part::Reasoning(thought) => json!({"type": "reasoning", "content": cut(&thought.text)}),
        Part::ToolCall(call) => json!({
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "arguments": cut(call.arguments.as_str()),
        }),
        // The bytes themselves stay here.
        Part::Media(media) => json!({"type": "media", "mime_type": media.media_type}),
        _ => json!({"type": "other"}),
    }
}

fn reply_part(part: &ReplyPart) -> Value {
    match part {
        ReplyPart::Text(said) => text(&said.text),
        ReplyPart::Reasoning(thought) => {
            json!({"type": "reasoning", "content": cut(&thought.text)})
        }
        ReplyPart::ToolCall(call) => json!({
            "type": "tool_call",
            "id": call.provider_id,
            "name": call.name,
            "arguments": cut(call.arguments.as_str()),
        }),
    }
}

fn text(said: &str) -> Value {
    json!({"type": "text", "content": cut(said)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_the_json_stays_whole() {
        let long = "\"é".repeat(MAX_CHARS);
        let messages = [Message::system("Be brief."), Message::user(long)].map(Arc::new);
        let (system, said) = input(&messages);
        let system: Value = serde_json::from_str(&system.unwrap()).unwrap();
        assert_eq!(system, json!([{"type": "text", "content": "Be brief."}]));
        let said: Value = serde_json::from_str(&said).unwrap();
        let content = said[0]["parts"][0]["content"].as_str().unwrap();
        assert_eq!(
            content.chars().count(),
            MAX_CHARS + "… [cut]".chars().count()
        );
        assert_eq!(said[0]["role"], "user");
    }
}
