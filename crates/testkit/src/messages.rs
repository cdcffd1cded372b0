//! Messages about tool calls, and requests that contain messages. For messages of plain text, use [`Message`] itself.

use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, JsonText, Message, ModelRequest, Part, ReplyFormat, ToolCall, ToolCallId,
    ToolChoice,
};

/// Creates an assistant message of tool calls, each with id, name and arguments as JSON.
pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Message {
    let call = |(id, name, arguments): (&str, &str, &str)| {
        Part::ToolCall(ToolCall {
            id: ToolCallId::from_text(id),
            name: name.into(),
            arguments: JsonText::from_text(arguments),
            provider_id: None,
            state: None,
        })
    };
    Message::Assistant(AssistantMessage {
        parts: calls.into_iter().map(call).collect(),
        model: None,
    })
}

/// Creates the message with the result of a call: its id, the tool's name and the value as JSON.
#[must_use]
pub fn result(id: &str, name: &str, value: &str) -> Message {
    Message::tool_result(ToolCallId::from_text(id), name, JsonText::from_text(value))
}

/// Creates a request of one user message, without tools. Its fields are public: change them as the test needs.
pub fn request(message: impl Into<String>) -> ModelRequest {
    request_of([Message::user(message)])
}

/// Creates a request of the given messages, without tools.
pub fn request_of(messages: impl IntoIterator<Item = Message>) -> ModelRequest {
    ModelRequest {
        messages: messages.into_iter().collect(),
        tools: Arc::default(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        reply_format: ReplyFormat::Text,
    }
}
