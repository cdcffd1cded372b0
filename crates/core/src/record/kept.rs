//! Facts about a record that a store needs without parsing it.

use crate::ids::AgentId;
use crate::message::{MediaPart, MediaSource, Message, Part};
use crate::record::{Record, RecordBody};
use crate::reply::ReplyPart;

/// The approximate size of a record without its texts, in bytes: ids, times, field names.
const FRAME: usize = 256;

impl Record {
    /// Returns whether the run ends with this record, which is then the root agent's outcome.
    #[must_use]
    pub const fn ends_the_run(&self) -> bool {
        let is_end = matches!(self.body, RecordBody::Final(_) | RecordBody::RunFailed(_));
        is_end && self.agent.0 == AgentId::ROOT.0
    }

    /// Returns the approximate length of the record as JSON in bytes, without encoding it: its texts plus a constant.
    /// For limits on what is kept in memory.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let texts = match &self.body {
            RecordBody::RunStarted(started) => {
                let prompt = started.spec.root.system_prompt.as_deref();
                prompt.map_or(0, str::len) + messages(&started.spec.messages)
            }
            RecordBody::LlmCall(call) => {
                messages(&call.messages) + call.reply.parts.iter().map(reply_part).sum::<usize>()
            }
            RecordBody::ToolCall(call) => call.arguments.as_str().len(),
            RecordBody::ToolResult(result) => {
                let metadata = result.metadata.as_ref();
                result.value.as_str().len()
                    + result.media.iter().map(media).sum::<usize>()
                    + result.summary.as_ref().map_or(0, String::len)
                    + metadata.map_or(0, |metadata| metadata.as_str().len())
            }
            RecordBody::Plan(plan) => plan.plan.as_str().len(),
            RecordBody::Summary(summary) => summary.text.len(),
            RecordBody::ApprovalRequested(asked) => asked.arguments.as_str().len(),
            RecordBody::Steered(steered) => message(&steered.message),
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => outcome.content.len(),
            _ => 0,
        };
        u64::try_from(FRAME + texts).unwrap_or(u64::MAX)
    }
}

fn messages(of: &[std::sync::Arc<Message>]) -> usize {
    of.iter().map(|one| message(one)).sum()
}

fn message(message: &Message) -> usize {
    match message {
        Message::System { text } => text.len(),
        Message::User { parts } => parts.iter().map(part).sum(),
        Message::Assistant(reply) => reply.parts.iter().map(part).sum(),
        Message::Tool(result) => {
            result.content.as_str().len() + result.media.iter().map(media).sum::<usize>()
        }
    }
}

fn part(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.text.len(),
        Part::Reasoning(reasoning) => reasoning.text.len(),
        Part::ToolCall(call) => call.arguments.as_str().len(),
        Part::Media(part) => media(part),
    }
}

fn media(part: &MediaPart) -> usize {
    match &part.source {
        MediaSource::Base64(data) => data.len(),
        MediaSource::Url(url) => url.len(),
    }
}

fn reply_part(part: &ReplyPart) -> usize {
    match part {
        ReplyPart::Text(text) => text.text.len(),
        ReplyPart::Reasoning(reasoning) => reasoning.text.len(),
        ReplyPart::ToolCall(call) => call.arguments.as_str().len(),
    }
}
