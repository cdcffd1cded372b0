//! Repairs a history that is invalid on arrival, deterministically (loop rule 15).
//!
//! Histories come from clients, from other programs and from logs of other versions. Providers refuse a call without
//! its result and a result without its call; this module repairs what all of them refuse.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::ids::ToolCallId;
use crate::json::JsonText;
use crate::message::{Message, Part, ToolMessage};
use crate::transcript::Transcript;

/// Returns the history with every call answered once, directly after its message and in call order, and the repairs
/// that were made, one sentence each. `lost` is the error of a call without a result.
pub(crate) fn repaired(history: Transcript, lost: &str) -> (Transcript, Vec<String>) {
    if is_whole(history.messages()) {
        return (history, Vec::new());
    }
    let mut repair = Repair::default();
    for message in history.messages() {
        repair.take(message, lost);
    }
    repair.answer_calls(lost);
    (repair.kept.into_iter().collect(), repair.notes)
}

fn is_whole(messages: &[Arc<Message>]) -> bool {
    let mut expected = Vec::new();
    for message in messages {
        match message.as_ref() {
            Message::Tool(tool) => {
                if expected.pop() != Some(&tool.tool_call_id) {
                    return false;
                }
            }
            other => {
                let is_empty = matches!(other, Message::Assistant(reply) if reply.parts.is_empty());
                if !expected.is_empty() || is_empty {
                    return false;
                }
                expected = other.tool_calls().map(|call| &call.id).collect();
                expected.reverse();
                let mut distinct = expected.clone();
                distinct.sort_unstable();
                distinct.dedup();
                if distinct.len() != expected.len() {
                    return false;
                }
            }
        }
    }
    expected.is_empty()
}

#[derive(Default)]
struct Repair {
    kept: Vec<Arc<Message>>,
    /// The calls of the last assistant message, in call order.
    open: Vec<(ToolCallId, Arc<str>)>,
    /// Results whose call is still open or has not appeared.
    results: BTreeMap<ToolCallId, Arc<Message>>,
    /// Messages between a call and its result.
    held: Vec<Arc<Message>>,
    notes: Vec<String>,
}

impl Repair {
    fn take(&mut self, message: &Arc<Message>, lost: &str) {
        match message.as_ref() {
            Message::Tool(tool) => self.take_result(tool, message),
            Message::Assistant(reply) if reply.parts.is_empty() => {
                self.note("an assistant message without content was left out".to_owned());
            }
            Message::Assistant(_) => {
                self.answer_calls(lost);
                self.take_calls(message);
            }
            // A result may still follow it.
            Message::System { .. } | Message::User { .. } if !self.open.is_empty() => {
                self.held.push(Arc::clone(message));
            }
            Message::System { .. } | Message::User { .. } => self.kept.push(Arc::clone(message)),
        }
    }

    fn take_calls(&mut self, message: &Arc<Message>) {
        let mut doubled = 0_usize;
        for call in message.tool_calls() {
            if self.open.iter().any(|(id, _)| *id == call.id) {
                self.note(format!(
                    "a second call with the same id was left out: {}",
                    call.id
                ));
                doubled += 1;
            } else {
                self.open.push((call.id.clone(), call.name.clone()));
            }
        }
        self.kept.push(if doubled == 0 {
            Arc::clone(message)
        } else {
            Arc::new(without_doubles(message))
        });
    }

    fn take_result(&mut self, tool: &ToolMessage, message: &Arc<Message>) {
        let id = tool.tool_call_id.clone();
        if !self.open.iter().any(|(open, _)| *open == id) {
            self.note(format!("a result without its call was left out: {id}"));
        } else {
            match self.results.entry(id) {
                Entry::Vacant(place) => {
                    place.insert(Arc::clone(message));
                }
                Entry::Occupied(place) => {
                    let id = place.key();
                    let note = format!("a second result of the same call was left out: {id}");
                    self.note(note);
                }
            }
        }
    }

    /// Adds a result for every open call, in call order, followed by the messages in between.
    fn answer_calls(&mut self, lost: &str) {
        let in_between = !self.held.is_empty();
        for (id, name) in std::mem::take(&mut self.open) {
            if let Some(result) = self.results.get(&id) {
                self.kept.push(Arc::clone(result));
                continue;
            }
            self.note(format!("a call without its result was given one: {id}"));
            let result = Message::tool_result(id, name, JsonText::error(lost));
            self.kept.push(Arc::new(result));
        }
        self.results.clear();
        if in_between {
            self.note("a message between a call and its result was moved after it".to_owned());
            self.kept.append(&mut self.held);
        }
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

/// Removes every call whose id an earlier call of the same message has.
fn without_doubles(message: &Message) -> Message {
    let Message::Assistant(reply) = message else {
        return message.clone();
    };
    let mut seen = Vec::new();
    let mut reply = reply.clone();
    reply.parts.retain(|part| match part {
        Part::ToolCall(call) if seen.contains(&call.id) => false,
        Part::ToolCall(call) => {
            seen.push(call.id.clone());
            true
        }
        _ => true,
    });
    Message::Assistant(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, ToolCall};

    fn calls(ids: &[&str]) -> Message {
        let parts = ids.iter().map(|id| {
            Part::ToolCall(ToolCall {
                id: ToolCallId::from_text(*id),
                name: "read".into(),
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
            name: "read".into(),
            content: JsonText::string(id),
            media: Vec::new(),
        })
    }

    fn repair(messages: Vec<Message>) -> (Vec<Message>, Vec<String>) {
        let (history, notes) = repaired(messages.into_iter().collect(), "lost");
        let messages = history.messages().iter();
        (messages.map(|message| (**message).clone()).collect(), notes)
    }

    #[test]
    fn a_complete_history_is_unchanged() {
        let whole = vec![
            Message::user("Hi."),
            calls(&["a", "b"]),
            result("a"),
            result("b"),
            Message::assistant("Done."),
        ];
        assert_eq!(repair(whole.clone()), (whole, Vec::new()));
    }

    #[test]
    fn repaired_results_follow_their_calls_once_and_in_call_order() {
        let broken = vec![
            result("nobody"),
            calls(&["a", "b", "c"]),
            result("b"),
            Message::user("Well?"),
            result("a"),
            result("b"),
            Message::assistant("Done."),
        ];
        let (messages, notes) = repair(broken);
        let lost = JsonText::error("lost");
        let Message::Tool(third) = &messages[3] else {
            panic!("{messages:?}")
        };
        assert_eq!(third.content, lost);
        assert_eq!(messages[0], calls(&["a", "b", "c"]));
        assert_eq!(messages[1..3], [result("a"), result("b")]);
        assert_eq!(
            messages[4..],
            [Message::user("Well?"), Message::assistant("Done.")]
        );
        assert_eq!(notes.len(), 4, "{notes:?}");
        assert!(is_whole(
            &messages.into_iter().map(Arc::new).collect::<Vec<_>>()
        ));
    }

    #[test]
    fn incomplete_messages_are_left_out() {
        let empty = Message::Assistant(AssistantMessage {
            parts: Vec::new(),
            model: None,
        });
        let (messages, notes) = repair(vec![Message::user("Hi."), empty, calls(&["a"])]);
        assert_eq!(messages.len(), 3);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn a_repaired_history_needs_no_repair() {
        let broken = vec![calls(&["a", "a"]), result("a"), result("x"), calls(&["b"])];
        let (once, notes) = repair(broken);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert_eq!(repair(once.clone()), (once, Vec::new()));
    }
}
