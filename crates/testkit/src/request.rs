//! Requests to a model.

use std::sync::Arc;

use neuraxis_core::{Message, ModelRequest, ReplyFormat, ToolChoice};

/// Makes a request of one user message, without tools. Its fields are public: change them as the test needs.
pub fn request(message: impl Into<String>) -> ModelRequest {
    request_of([Message::user(message)])
}

/// Makes a request of the given messages, without tools.
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
