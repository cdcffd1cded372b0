//! Messages about tool calls. Those of plain text are made by [`Message`] itself.

use neuraxis_core::{AssistantMessage, JsonText, Message, Part, ToolCall, ToolCallId, ToolMessage};

/// Makes an assistant message of tool calls, each with id, name and arguments as JSON text.
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

/// Makes the message with the result of a call: its id, the tool's name and the value as JSON text.
#[must_use]
pub fn result(id: &str, name: &str, value: &str) -> Message {
    Message::Tool(ToolMessage {
        tool_call_id: ToolCallId::from_text(id),
        name: name.into(),
        content: JsonText::from_text(value),
    })
}
