//! Encodes one message after others: as blocks of the instructions at the beginning, or of a turn of user or assistant.
//!
//! The protocol has two roles that take turns, and instructions in a field of their own. So what speaks with the voice of
//! the user goes into one message with what stands beside it: results of tools, what was said, and late instructions. What
//! ends a block or a message is written by whatever comes next, or by the end of the request.

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
    MEDIA, known_id, write_media, write_text, write_text_unless_blank, write_user,
};
use crate::config::Cache;
use crate::thinking::BlockState;

/// What stands before instructions that come late, where the protocol has room for what the user says alone.
const FROM_THE_SYSTEM: &str = "[System message] ";

/// The most bytes of a tool's name.
const LONGEST_NAME: usize = 64;

/// What stands for an answer without anything that could be sent: an empty message is refused.
const NO_ANSWER: &str = "(no answer)";

/// What decides how a message is written, besides itself and those before it.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) model: ModelRef,
    pub(crate) cache: Cache,
    /// Up to how many messages no thinking is sent.
    pub(crate) no_thinking_until: usize,
    /// Thinking that is not signed goes back, too.
    pub(crate) takes_unsigned: bool,
}

/// Where in a request the next block is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Before everything.
    Start,
    /// After instructions.
    System,
    /// In a message of the user.
    User,
    /// In a message of the assistant.
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
    /// Ends what stands before and begins a message of this role, unless that is the one under way.
    fn begin_message(&self, role: Position, before: &[Arc<Message>], json: &mut JsonWriter<'_>) {
        let position = Position::after(before);
        if position != role {
            self.end(position, json);
            self.begin(position, role, json);
        }
    }

    /// Ends the message or the instructions under way.
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

    /// Begins a message of a role after what was ended before.
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

    /// Returns what marks a block up to which the service is to keep the prompt, written at its end.
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
        json.string(&known_id(id));
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

    /// Writes what the model answered, in its order. A message without content is refused, so that there is always some.
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

    /// Writes a block of thinking if it goes back, exactly as it came; so also a block of a kind that is not known here.
    /// False if it is left out.
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

    /// Returns what was kept beside a block of thinking, if it goes back: this model gave it, and signed or sealed it if it
    /// has to. What was cut has nothing beside it.
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

    /// Tells whether the results of calls are what comes last, and none of the turns that made these calls begins with
    /// thinking: the model was made to call, another one did, or its thinking stays out. The service refuses to let a
    /// model with a budget think then.
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
                // What was said between calls begins another turn.
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
    json.string(&known_id(call_id(crate::PROVIDER, message, call)));
    json.raw(r#","name":"#);
    json.string(&plain_name(&call.name, LONGEST_NAME));
    json.raw(r#","input":"#);
    let arguments = call.arguments.as_str();
    // Unlike text that is skipped, its strings are decoded: the service refuses half of a surrogate pair.
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

/// Tells whether a message is one of no words, which is left out where nobody misses it.
fn is_blank(message: &Message) -> bool {
    matches!(message, Message::System { text } if text.trim().is_empty())
}

/// Tells whether messages are nothing but instructions.
fn is_beginning(messages: &[Arc<Message>]) -> bool {
    messages
        .iter()
        .all(|message| matches!(**message, Message::System { .. }))
}

/// Tells whether a result is that of a call which failed: the loop writes those as an object of an error alone.
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
