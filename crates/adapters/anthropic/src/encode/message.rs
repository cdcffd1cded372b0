//! Encodes one message after others: as blocks of the instructions at the beginning, or of a user or assistant turn.
//!
//! The protocol has two alternating roles, and a separate field for instructions. Everything sent in the user role
//! therefore shares one message with its neighbors: tool results, user messages, and late instructions. The end of a
//! block or a message is written by the next message, or by the end of the request.

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, LlmError, Message, ModelRef, Part, ReasoningPart, ToolCall, ToolMessage,
};
use neuraxis_wire::request::{
    JsonWriter, MessageEncoder, answered_id, call_id, is_from, plain_name, result_text,
    unsupported, write_result_media,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::content::{
    MEDIA, accepted_id, write_media, write_text, write_text_unless_blank, write_user,
};
use crate::config::Cache;
use crate::thinking::BlockState;

/// The prefix of late instructions, where the protocol allows only user content.
const FROM_THE_SYSTEM: &str = "[System message] ";

/// The maximum length of a tool's name in bytes.
const LONGEST_NAME: usize = 64;

/// Sent for an answer without any content that could be sent: an empty message is refused.
const NO_ANSWER: &str = "(no answer)";

/// Everything that determines how a message is written, apart from the message and those before it.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) model: ModelRef,
    pub(crate) cache: Cache,
    /// The number of messages, from the first on, whose thinking is omitted.
    pub(crate) no_thinking_until: usize,
    /// Whether unsigned thinking is sent back, too.
    pub(crate) takes_unsigned: bool,
}

/// Where in a request the next block is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Before everything.
    Start,
    /// After instructions.
    System,
    /// In a user message.
    User,
    /// In an assistant message.
    Assistant,
}

impl Position {
    /// Returns the position after some messages.
    pub(crate) fn after(messages: &[Arc<Message>]) -> Self {
        let last = messages.iter().rev().find(|message| !is_blank(message));
        match last.map(Arc::as_ref) {
            None => Self::Start,
            Some(Message::Assistant(_)) => Self::Assistant,
            Some(Message::System { .. }) if is_beginning(messages) => Self::System,
            Some(_) => Self::User,
        }
    }
}

impl MessageEncoder for Rules {
    fn same_until(&self, old: &Self) -> usize {
        if self.no_thinking_until == old.no_thinking_until {
            usize::MAX
        } else {
            self.no_thinking_until.min(old.no_thinking_until)
        }
    }

    fn write(
        &self,
        message: &Message,
        before: &[Arc<Message>],
        json: &mut JsonWriter<'_>,
    ) -> Result<(), LlmError> {
        if is_blank(message) {
            return Ok(());
        }
        match message {
            Message::System { text } if is_beginning(before) => {
                json.raw(match Position::after(before) {
                    Position::Start => r#""system":[{"type":"text","text":"#,
                    _ => r#"},{"type":"text","text":"#,
                });
                json.string(text);
            }
            Message::System { text } => {
                self.begin_message(Position::User, before, json);
                write_text([FROM_THE_SYSTEM, text], json);
            }
            Message::User { parts } => {
                self.begin_message(Position::User, before, json);
                write_user(parts, json)?;
            }
            Message::Tool(result) => {
                self.begin_message(Position::User, before, json);
                self.write_result(result, before, json);
            }
            Message::Assistant(message) => {
                self.begin_message(Position::Assistant, before, json);
                self.write_assistant(message, before.len(), json)?;
            }
        }
        Ok(())
    }
}

impl Rules {
    /// Ends the current message and begins one of this role, unless the current one already has it.
    fn begin_message(&self, role: Position, before: &[Arc<Message>], json: &mut JsonWriter<'_>) {
        let position = Position::after(before);
        if position != role {
            self.end(position, json);
            self.begin(position, role, json);
        }
    }

    /// Ends the current message or the instructions.
    pub(crate) fn end(&self, position: Position, json: &mut JsonWriter<'_>) {
        match position {
            Position::Start => {}
            Position::System => {
                json.raw(self.mark());
                json.raw("}],");
            }
            Position::User | Position::Assistant => json.raw("]},"),
        }
    }

    /// Begins a message of a role after the previous one was ended.
    pub(crate) fn begin(&self, position: Position, role: Position, json: &mut JsonWriter<'_>) {
        if matches!(position, Position::Start | Position::System) {
            json.raw(r#""messages":["#);
        }
        json.role(if role == Position::Assistant {
            "assistant"
        } else {
            "user"
        });
        json.raw("[");
    }

    /// Returns the mark at the end of a block up to which the service should cache the prompt.
    pub(crate) const fn mark(&self) -> &'static str {
        match self.cache {
            Cache::FiveMinutes => r#","cache_control":{"type":"ephemeral"}"#,
            Cache::OneHour => r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
            Cache::Off => "",
        }
    }

    fn write_result(
        &self,
        result: &ToolMessage,
        before: &[Arc<Message>],
        json: &mut JsonWriter<'_>,
    ) {
        let id = answered_id(crate::PROVIDER, result, before);
        json.begin_item();
        json.raw(r#"{"type":"tool_result","tool_use_id":"#);
        json.string(&accepted_id(id));
        json.raw(r#","content":"#);
        if result.media.is_empty() {
            json.string(&result_text(result));
        } else {
            json.raw("[");
            write_text([&*result_text(result)], json);
            let text = |text: &str, json: &mut JsonWriter<'_>| {
                json.raw(r#"{"type":"text","text":"#);
                json.string(text);
                json.raw("}");
            };
            write_result_media(&result.media, MEDIA, write_media, text, json);
            json.raw("]");
        }
        if is_error(result.content.as_str()) {
            json.raw(r#","is_error":true"#);
        }
        json.raw("}");
    }

    /// Writes the model's answer, in its order. There is always some content, since a message without any is refused.
    fn write_assistant(
        &self,
        message: &AssistantMessage,
        index: usize,
        json: &mut JsonWriter<'_>,
    ) -> Result<(), LlmError> {
        let mut is_empty = true;
        for part in &message.parts {
            let is_written = match part {
                Part::Reasoning(part) => {
                    index >= self.no_thinking_until && self.write_thinking(part, message, json)
                }
                Part::Text(part) => write_text_unless_blank(&part.text, json),
                Part::ToolCall(call) => {
                    write_call(message, call, json);
                    true
                }
                _ => return Err(unsupported("an assistant message with media")),
            };
            is_empty &= !is_written;
        }
        if is_empty {
            write_text([NO_ANSWER], json);
        }
        Ok(())
    }

    /// Writes a block of thinking, or of an unknown kind, exactly as it arrived, if it is sent back. Returns `false` if
    /// it is omitted.
    fn write_thinking(
        &self,
        part: &ReasoningPart,
        message: &AssistantMessage,
        json: &mut JsonWriter<'_>,
    ) -> bool {
        let Some(state) = self.state_of(part, message) else {
            return false;
        };
        json.begin_item();
        if let Some(block) = state.block {
            json.raw(block.get());
            return true;
        }
        json.raw(r#"{"type":"thinking","thinking":"#);
        json.string(&part.text);
        json.raw(r#","signature":"#);
        json.string(part.signature.as_deref().unwrap_or_default());
        json.raw("}");
        true
    }

    /// Returns the state stored with a block of thinking, if the block is sent back: this model produced it, and signed
    /// or sealed it if required. A truncated block has no state.
    fn state_of<'a>(
        &self,
        part: &'a ReasoningPart,
        message: &AssistantMessage,
    ) -> Option<BlockState<'a>> {
        let state = part.state.as_ref();
        let state = state.filter(|_| is_from(crate::PROVIDER, message))?;
        let state = BlockState::read(state, &self.model)?;
        let is_signed = part.signature.as_ref().is_some_and(|it| !it.is_empty());
        let is_whole = is_signed || (self.takes_unsigned && !part.text.is_empty());
        (state.block.is_some() || is_whole).then_some(state)
    }

    /// Returns whether the last messages are results of calls, and none of the turns that made these calls begins with
    /// thinking: the model was forced to call, another model made the calls, or its thinking is omitted. The service
    /// then refuses to let a model with a budget think.
    pub(crate) fn has_unthought_calls(&self, messages: &[Arc<Message>]) -> bool {
        let (mut has_results, mut has_calls) = (false, false);
        for (index, message) in messages.iter().enumerate().rev() {
            match &**message {
                Message::Tool(_) => has_results = true,
                Message::Assistant(turn) if has_results => {
                    if self.begins_with_thinking(turn, index) {
                        return false;
                    }
                    (has_results, has_calls) = (false, true);
                }
                Message::Assistant(_) => break,
                // A message between calls begins another turn.
                _ if has_calls && !is_blank(message) => break,
                _ => {}
            }
        }
        has_calls
    }

    fn begins_with_thinking(&self, message: &AssistantMessage, index: usize) -> bool {
        let first = message.parts.iter().find(|part| match part {
            Part::Text(part) => !part.text.trim().is_empty(),
            Part::Reasoning(part) => {
                index >= self.no_thinking_until && self.state_of(part, message).is_some()
            }
            _ => true,
        });
        matches!(first, Some(Part::Reasoning(_)))
    }
}

fn write_call(message: &AssistantMessage, call: &ToolCall, json: &mut JsonWriter<'_>) {
    json.begin_item();
    json.raw(r#"{"type":"tool_use","id":"#);
    json.string(&accepted_id(call_id(crate::PROVIDER, message, call)));
    json.raw(r#","name":"#);
    json.string(&plain_name(&call.name, LONGEST_NAME));
    json.raw(r#","input":"#);
    let arguments = call.arguments.as_str();
    // Unlike in skipped text, its strings are decoded: the service refuses half of a surrogate pair.
    if serde_json::from_str::<Map<String, Value>>(arguments).is_ok() {
        json.raw(arguments);
    } else if arguments.trim().is_empty() {
        json.raw("{}");
    } else {
        json.raw(r#"{"invalid_arguments":"#);
        json.string(arguments);
        json.raw("}");
    }
    json.raw("}");
}

/// Returns whether a message is a blank system message, which can be omitted.
fn is_blank(message: &Message) -> bool {
    matches!(message, Message::System { text } if text.trim().is_empty())
}

/// Returns whether all messages are instructions.
fn is_beginning(messages: &[Arc<Message>]) -> bool {
    messages
        .iter()
        .all(|message| matches!(**message, Message::System { .. }))
}

/// Returns whether a result is that of a failed call: the loop writes those as an object with only an error.
fn is_error(content: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Failed<'a> {
        #[serde(borrow)]
        error: Cow<'a, str>,
    }
    content.starts_with(r#"{"error":"#)
        && serde_json::from_str::<Failed<'_>>(content).is_ok_and(|failed| !failed.error.is_empty())
}
