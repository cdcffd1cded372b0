//! Histories that a run may begin with: valid ones, and ones as other programs leave them.

use neuraxis_core::{
    AssistantMessage, JsonText, Message, Part, ToolCall, ToolCallId, ToolMessage, Transcript,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::READ;

pub(super) fn history() -> impl Strategy<Value = Transcript> {
    let broken = prop::collection::vec(message(), 0..10);
    prop_oneof![
        2 => (0..4_usize).prop_map(|before| {
            let whole = [
                Message::system("Be kind."),
                Message::user("Hi."),
                Message::assistant("Hello."),
            ];
            whole.into_iter().skip(3 - before).collect()
        }),
        1 => broken.prop_map(|messages| messages.into_iter().collect()),
    ]
}

/// Any message, with ids from a small set, so that they match, repeat and miss each other.
fn message() -> impl Strategy<Value = Message> {
    let id = || select(vec!["a", "b", "c"]);
    let texts = vec![
        "Hi.".to_owned(),
        "A question that is longer than the others. ".repeat(6),
    ];
    prop_oneof![
        1 => Just(Message::system("Be kind.")),
        3 => select(texts).prop_map(Message::user),
        2 => Just(Message::assistant("Hello.")),
        4 => prop::collection::vec(id(), 0..4).prop_map(|ids| calls(&ids)),
        5 => id().prop_map(result),
    ]
}

fn calls(ids: &[&str]) -> Message {
    let parts = ids.iter().map(|id| {
        Part::ToolCall(ToolCall {
            id: ToolCallId::from_text(*id),
            name: READ.into(),
            arguments: JsonText::from_text("{}"),
            provider_id: None,
            state: None,
        })
    });
    Message::Assistant(AssistantMessage {
        parts: parts.collect(),
        model: None,
    })
}

fn result(id: &str) -> Message {
    Message::Tool(ToolMessage {
        tool_call_id: ToolCallId::from_text(id),
        name: READ.into(),
        content: JsonText::string(id),
        media: Vec::new(),
    })
}
