//! Encodes one message.

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{AssistantMessage, JsonText, LlmError, MediaPart, Message, Part, ToolCall};
use serde_json::value::RawValue;

use super::object::Object;
use crate::chat::dialect::{Arguments, Dialect, MissingReasoning, ReasoningEcho};
use crate::chat::state::{CallState, StateOrigin};
use crate::request::{
    JsonWriter, MessageEncoder, answered_id, call_id, is_from, plain_name, result_text, short_id,
    strict_id, text_of, unsupported, write_user_content,
};

/// The maximum length of a function's name in bytes.
const LONGEST_NAME: usize = 64;

/// The prefix of a system message that is sent as a user message.
const SYSTEM_PREFIX: &str = "[System message] ";

/// The message between two user messages where roles must alternate: the earlier request got no answer.
pub(super) const NO_ANSWER: &str = "(no answer)";

/// The placeholder for a signature that a call never got, because the program or another model created the call. With
/// it Gemini does not check the signature.
const SIGNATURE_PLACEHOLDER: &str =
    r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

/// Everything that determines how a message is written, apart from the message and those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(super) dialect: Dialect,
    /// The server and model that the messages go to. It is the same for as long as these rules are used.
    origin: StateOrigin,
    late_system_as_user: bool,
    /// Whether user and assistant must alternate.
    pub(super) alternating: bool,
    /// Whether the ids of calls must have nine letters and digits.
    strict_ids: bool,
    /// Whether the calls of each message must be signed.
    signed_calls: bool,
    /// The number of messages up to and including the last user message.
    turn_start: usize,
}

impl Rules {
    pub(crate) fn new(
        dialect: Dialect,
        late_system_as_user: bool,
        messages: &[Arc<Message>],
    ) -> Self {
        let is_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let turn_start = messages.iter().rposition(is_user);
        Self {
            dialect,
            origin: StateOrigin::default(),
            late_system_as_user,
            alternating: false,
            strict_ids: false,
            signed_calls: false,
            turn_start: turn_start.map_or(0, |index| index + 1),
        }
    }

    /// Makes user and assistant alternate, whatever the order of the messages.
    pub(crate) fn alternating(mut self, alternating: bool) -> Self {
        self.alternating = alternating;
        self
    }

    /// Gives calls ids of nine letters and digits.
    pub(crate) fn with_strict_ids(mut self, strict_ids: bool) -> Self {
        self.strict_ids = strict_ids;
        self
    }

    /// Signs the calls of each message that the server did not sign.
    pub(super) fn with_signed_calls(mut self, signed_calls: bool) -> Self {
        self.signed_calls = signed_calls;
        self
    }

    /// Sets the server and model that the messages go to.
    pub(super) fn at(mut self, origin: StateOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Returns whether the reasoning of the message at an index is sent back, if this provider wrote it.
    const fn echoes_reasoning(&self, index: usize) -> bool {
        match self.dialect.reasoning_echo {
            ReasoningEcho::Always => true,
            ReasoningEcho::SameTurn => index >= self.turn_start,
            ReasoningEcho::Never => false,
        }
    }

    /// Returns the id of a call in a form that the server accepts.
    fn accepted_id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        let id = short_id(id, self.dialect.longest_call_id);
        match self.strict_ids {
            true => strict_id(id),
            false => id,
        }
    }

    /// Returns the state that the server wants back with a call, if this model on this server supplied it.
    fn extra_content<'a>(
        &self,
        message: &AssistantMessage,
        call: &'a ToolCall,
    ) -> Option<&'a RawValue> {
        if !is_from(self.dialect.provider, message) {
            return None;
        }
        CallState::read(call.state.as_ref()?, &self.origin)
    }

    /// Returns whether a message has calls that the server did not sign. It signs the first call of a message.
    pub(super) fn is_unsigned(&self, message: &Message) -> bool {
        let Message::Assistant(message) = message else {
            return false;
        };
        let first = calls_of(message).next();
        first.is_some_and(|call| self.extra_content(message, call).is_none())
    }
}

impl MessageEncoder for Rules {
    fn same_until(&self, old: &Self) -> usize {
        if self.dialect.media != old.dialect.media
            || self.strict_ids != old.strict_ids
            || self.signed_calls != old.signed_calls
        {
            return 0;
        }
        if self.late_system_as_user != old.late_system_as_user
            || self.alternating != old.alternating
        {
            // All but the first may be late.
            return 1;
        }
        let same_turn = self.dialect.reasoning_echo != ReasoningEcho::SameTurn
            || self.turn_start == old.turn_start;
        if same_turn {
            usize::MAX
        } else {
            self.turn_start.min(old.turn_start)
        }
    }

    fn write(
        &self,
        message: &Message,
        before: &[Arc<Message>],
        json: &mut JsonWriter<'_>,
    ) -> Result<(), LlmError> {
        if !matches!(message, Message::Tool(_)) {
            self.write_shown(before, json);
        }
        if !before.is_empty() {
            json.raw(",");
        }
        if self.alternating && is_out_of_turn(message, before) {
            json.role_and_text("assistant", NO_ANSWER);
            json.raw("},");
        }
        encode_message(message, before, self, json)
    }
}

/// Returns whether a user message, or a system message in its place, comes without a message of the model since the
/// last one from the user or a tool.
pub(super) fn is_out_of_turn(message: &Message, before: &[Arc<Message>]) -> bool {
    let speaks = match message {
        Message::User { .. } => true,
        Message::System { .. } => !before.is_empty(),
        Message::Assistant(_) | Message::Tool(_) => false,
    };
    speaks
        && match before.last().map(Arc::as_ref) {
            None | Some(Message::Assistant(_)) => false,
            // Except the one that may begin every conversation.
            Some(Message::System { .. }) => before.len() > 1,
            Some(Message::User { .. } | Message::Tool(_)) => true,
        }
}

/// Writes a message that follows others.
fn encode_message(
    message: &Message,
    before: &[Arc<Message>],
    rules: &Rules,
    json: &mut JsonWriter<'_>,
) -> Result<(), LlmError> {
    match message {
        Message::System { text } if rules.late_system_as_user && !before.is_empty() => {
            json.role("user");
            json.joined([SYSTEM_PREFIX, text]);
        }
        Message::System { text } => {
            json.role_and_text(rules.dialect.system_role.as_str(), text);
        }
        Message::User { parts } => {
            json.role("user");
            let media = |part: &MediaPart, json: &mut JsonWriter<'_>| rules.write_media(part, json);
            write_user_content(parts, "text", media, json)?;
        }
        Message::Assistant(message) => encode_assistant(message, before.len(), rules, json)?,
        Message::Tool(result) => {
            json.role("tool");
            match result.media.as_slice() {
                [] => json.string(&result_text(result)),
                media => json.joined([&*result_text(result), &rules.notes_on(media)]),
            }
            json.raw(r#","tool_call_id":"#);
            let id = answered_id(rules.dialect.provider, result, before);
            json.string(&rules.accepted_id(id));
        }
    }
    json.raw("}");
    Ok(())
}

fn encode_assistant(
    message: &AssistantMessage,
    index: usize,
    rules: &Rules,
    json: &mut JsonWriter<'_>,
) -> Result<(), LlmError> {
    if message
        .parts
        .iter()
        .any(|part| matches!(part, Part::Media(_)))
    {
        return Err(unsupported("an assistant message with media"));
    }
    json.role("assistant");
    json.joined(message.parts.iter().filter_map(text_of));
    let thoughts = || {
        message.parts.iter().filter_map(|part| match part {
            Part::Reasoning(part) => Some(part.text.as_str()),
            _ => None,
        })
    };
    if rules.echoes_reasoning(index) {
        let has_reasoning =
            is_from(rules.dialect.provider, message) && thoughts().any(|text| !text.is_empty());
        if has_reasoning || rules.dialect.missing_reasoning == MissingReasoning::Empty {
            json.raw(",");
            json.string(rules.dialect.reasoning_field);
            json.raw(":");
            json.joined(thoughts().filter(|_| has_reasoning));
        }
    }
    encode_calls(message, rules, json);
    Ok(())
}

fn encode_calls(message: &AssistantMessage, rules: &Rules, json: &mut JsonWriter<'_>) {
    let mut any = false;
    for call in calls_of(message) {
        let is_first = !any;
        json.raw(if is_first { r#","tool_calls":["# } else { "," });
        any = true;
        json.raw(r#"{"id":"#);
        json.string(&rules.accepted_id(call_id(rules.dialect.provider, message, call)));
        json.raw(r#","type":"function","function":{"name":"#);
        json.string(&plain_name(&call.name, LONGEST_NAME));
        json.raw(r#","arguments":"#);
        json.string(&arguments(&call.arguments, rules.dialect.arguments));
        json.raw("}");
        let extra = match rules.extra_content(message, call) {
            None if is_first && rules.signed_calls => Some(SIGNATURE_PLACEHOLDER),
            extra => extra.map(RawValue::get),
        };
        if let Some(extra) = extra {
            json.raw(r#","extra_content":"#);
            json.raw(extra);
        }
        json.raw("}");
    }
    if any {
        json.raw("]");
    }
}

fn calls_of(message: &AssistantMessage) -> impl Iterator<Item = &ToolCall> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}

/// Returns the arguments of an earlier call in a form that the server accepts.
fn arguments(written: &JsonText, form: Arguments) -> Cow<'_, str> {
    let text = written.as_str();
    if text.trim().is_empty() {
        return "{}".into();
    }
    if form == Arguments::AsWritten || is_object(text) {
        return text.into();
    }
    format!(r#"{{"invalid_arguments":{}}}"#, JsonText::string(text)).into()
}

/// Returns whether a string is a JSON object that every parser accepts: some reject half of a surrogate pair.
fn is_object(text: &str) -> bool {
    serde_json::from_str::<Object>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::messages;
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_invalid_tool_name_is_sanitized() {
        let call = messages::calls([("c1", "multi_tool_use.parallel", "{}")]);
        let rules = Rules::new(Dialect::standard("llama"), false, &[]);
        let mut written = Vec::new();
        let mut json = JsonWriter::new(&mut written);
        rules.write(&call, &[], &mut json).unwrap();
        let written: Value = serde_json::from_slice(&written).unwrap();
        let name = &written["tool_calls"][0]["function"]["name"];
        assert_eq!(name, "multi_tool_use_parallel");
    }
}
