//! The ids of calls and the names of tools, in forms that servers accept.

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{AssistantMessage, ContentHash, Message, Part, ToolCall, ToolMessage};

use super::is_from;

/// The number of hash digits that replace an id that a server does not accept: as many as a random id has.
const HASHED_ID_DIGITS: usize = 32;

/// The length of a call's id, in letters and digits, for servers that accept no other ids.
const STRICT_ID_DIGITS: usize = 9;

/// Returns the id by which a provider's server knows a call: its own if it assigned one, otherwise the loop's.
#[must_use]
pub fn call_id<'a>(provider: &str, message: &AssistantMessage, call: &'a ToolCall) -> &'a str {
    match &call.provider_id {
        Some(id) if !id.is_empty() && is_from(provider, message) => id,
        _ => call.id.as_str(),
    }
}

/// Returns the id by which a provider's server knows the call that a result answers. If no earlier message has the
/// call, that is the loop's id.
#[must_use]
pub fn answered_id<'a>(
    provider: &str,
    result: &'a ToolMessage,
    before: &'a [Arc<Message>],
) -> &'a str {
    let mut assistants = before.iter().rev().filter_map(|message| match &**message {
        Message::Assistant(message) => Some(message),
        _ => None,
    });
    let id = assistants.find_map(|message| {
        message.parts.iter().find_map(|part| match part {
            Part::ToolCall(call) if call.id == result.tool_call_id => {
                Some(call_id(provider, message, call))
            }
            _ => None,
        })
    });
    id.unwrap_or_else(|| result.tool_call_id.as_str())
}

/// Returns the id of a call, or a short one derived from it if it has more bytes than the server accepts.
#[must_use]
pub fn short_id(id: &str, longest: usize) -> Cow<'_, str> {
    if id.len() <= longest {
        return id.into();
    }
    hashed_id(id).into()
}

/// Returns the replacement for an id that a server does not accept, derived from it.
#[must_use]
pub fn hashed_id(id: &str) -> String {
    let hash = ContentHash::of(id.as_bytes()).to_string();
    format!("call_{hash:.HASHED_ID_DIGITS$}")
}

/// Returns the id of a call, or one of nine digits derived from it if it does not have nine letters and digits.
pub(crate) fn strict_id(id: Cow<'_, str>) -> Cow<'_, str> {
    if id.len() == STRICT_ID_DIGITS && id.bytes().all(|sign| sign.is_ascii_alphanumeric()) {
        return id;
    }
    let hash = ContentHash::of(id.as_bytes()).to_string();
    format!("{hash:.STRICT_ID_DIGITS$}").into()
}

/// Returns a name that has only letters, digits, `_` and `-`, and at most `longest` of them: a model may have called a
/// nonexistent tool by any name.
#[must_use]
pub fn plain_name(name: &str, longest: usize) -> Cow<'_, str> {
    if is_plain_name(name, longest) {
        return name.into();
    }
    if name.is_empty() {
        return "_".into();
    }
    let plain = |letter| if is_plain(letter) { letter } else { '_' };
    name.chars()
        .take(longest)
        .map(plain)
        .collect::<String>()
        .into()
}

/// Returns whether a name or an id has only letters, digits, `_` and `-`, and one to `longest` of them.
#[must_use]
pub fn is_plain_name(name: &str, longest: usize) -> bool {
    !name.is_empty() && name.len() <= longest && name.chars().all(is_plain)
}

const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}
