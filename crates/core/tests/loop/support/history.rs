//! What makes a history valid (loop rule 11).

use std::sync::Arc;

use neuraxis_core::{Message, ToolCallId};

/// Checks that every call of every assistant message has exactly one result directly after it, in call order, and that
/// there is no result without a call.
pub(crate) fn assert_valid(messages: &[Arc<Message>]) {
    let broken = first_broken(messages);
    assert!(
        broken.is_none(),
        "the history is broken at message {broken:?}: {messages:#?}"
    );
}

fn first_broken(messages: &[Arc<Message>]) -> Option<usize> {
    let mut expected: Vec<ToolCallId> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        match message.as_ref() {
            Message::Tool(result) => {
                if expected.first() != Some(&result.tool_call_id) {
                    return Some(index);
                }
                expected.remove(0);
            }
            other => {
                if !expected.is_empty() {
                    return Some(index);
                }
                expected = other.tool_calls().map(|call| call.id.clone()).collect();
            }
        }
    }
    (!expected.is_empty()).then_some(messages.len())
}
