//! How a reply becomes a message: its text, its calls with their ids, and the call that an opening chose.

use std::borrow::Cow;

use super::ReplySource;
use crate::ids::{CallIndex, ToolCallId};
use crate::message::{Part, ToolCall};
use crate::reply::{Reply, ReplyFinish, ReplyPart, RequestedCall};

/// Returns the text of a reply; avoids a copy for the usual reply with one text part.
pub(super) fn text_of(reply: &Reply) -> Cow<'_, str> {
    let mut texts = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Text(part) => Some(part.text.as_str()),
        _ => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(_), Some(_)) => Cow::Owned(reply.text()),
    }
}

/// Converts the parts of a reply to the parts of a message. Each call gets an id built from run, agent, model call and
/// index.
pub(super) fn parts_of<'a>(
    source: ReplySource,
    parts: impl IntoIterator<Item = &'a ReplyPart>,
) -> Vec<Part> {
    let ReplySource {
        run,
        agent,
        content_index,
    } = source;
    let mut index = CallIndex::default();
    let parts = parts.into_iter().map(|part| match part {
        ReplyPart::Text(text) => Part::Text(text.clone()),
        ReplyPart::Reasoning(reasoning) => Part::Reasoning(reasoning.clone()),
        ReplyPart::ToolCall(call) => {
            let id = ToolCallId::new(run, agent, content_index, index);
            index = index.next();
            let RequestedCall {
                provider_id,
                name,
                arguments,
                state,
            } = call.clone();
            Part::ToolCall(ToolCall {
                id,
                name,
                arguments,
                provider_id,
                state,
            })
        }
    });
    parts.collect()
}

/// Returns the call by which an opening's reply chooses what to gather: its first, unless it was cut off.
pub(super) fn chosen_call(reply: &Reply) -> Option<RequestedCall> {
    let is_whole = matches!(reply.finish, ReplyFinish::Stop | ReplyFinish::ToolCalls);
    is_whole.then(|| reply.calls().next().cloned()).flatten()
}
