//! What a log tells of a conversation: the messages that a run added, and the history that goes on from it.
//!
//! Reading needs no replay, so it works for logs of any loop version. Property tests hold it equal to what the machine
//! itself has.

mod closing;
mod conversations;
mod reader;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{AgentId, CallIndex, ContentIndex, RunId, ToolCallId, Turn};
use crate::message::{Message, Part, ToolCall};
use crate::record::{ContextTrimmed, LimitKind, Record, RecordBody, Span};
use crate::repair::repaired;
use crate::reply::{Reply, ReplyFinish, ReplyPart, RequestedCall};
use crate::transcript::Transcript;
use conversations::shorten;
use reader::{Reader, Trims};

pub use closing::{LogEnd, closing_records};
pub use conversations::Conversations;

/// Returns the messages that a run added: those it was started with, its replies, and the results of its calls, whatever
/// it left out later to make room. Only the root agent's; sub-agents have conversations of their own. The records may
/// end with any step of the run.
#[must_use]
pub fn run_messages(records: &[Arc<Record>]) -> Vec<Arc<Message>> {
    let mut reader = Reader::after(Vec::new(), Trims::Ignored);
    reader.read_all(records);
    reader.into_messages()
}

/// Returns the history that goes on from a run: what it was given and what it added, without what it left out to make
/// room, with the summaries in its place. Results marked not to be kept leave their summaries.
///
/// ```
/// use neuraxis_core::{Transcript, continued_history};
///
/// // A session's history is made of its runs, one after the other.
/// # let runs: Vec<Vec<std::sync::Arc<neuraxis_core::Record>>> = Vec::new();
/// let history = runs.iter().fold(Transcript::default(), |history, run| continued_history(&history, run));
/// # assert!(history.is_empty());
/// ```
#[must_use]
pub fn continued_history(history: &Transcript, records: &[Arc<Record>]) -> Transcript {
    let (history, _) = repaired(history.clone());
    let mut reader = Reader::after(history.messages().to_vec(), Trims::Followed);
    reader.read_all(records);
    reader.into_continued()
}

/// Returns the history at the end of a turn of a run, for another run to branch off from there. A turn the run never
/// came to gives all it said. Calls of that turn without a result are answered when the other run starts (loop rule 15).
#[must_use]
pub fn forked_history(history: &Transcript, records: &[Arc<Record>], turn: Turn) -> Transcript {
    let is_later = |record: &Arc<Record>| record.agent == AgentId::ROOT && record.turn > turn;
    let end = records.iter().position(is_later).unwrap_or(records.len());
    let shared = records.get(..end).unwrap_or_default();
    // What ended the run, be it an answer to a limit, is not part of the turn. A time that is only nearly up ends
    // nothing: the answer to the turn may still come.
    let ends = |record: &&Arc<Record>| {
        record.agent == AgentId::ROOT
            && match &record.body {
                RecordBody::MaxTurnsReached(_) => true,
                RecordBody::LimitReached(reached) => reached.limit != LimitKind::DeadlineReserve,
                _ => false,
            }
    };
    let end = shared.iter().position(|record| ends(&record));
    continued_history(
        history,
        shared
            .get(..end.unwrap_or(shared.len()))
            .unwrap_or_default(),
    )
}

/// Returns a conversation without what a run left out of it to make room, system prompt not counted.
fn trimmed(
    mut messages: Vec<Arc<Message>>,
    cut: &ContextTrimmed,
    not_kept: &BTreeMap<ToolCallId, String>,
) -> Vec<Arc<Message>> {
    shorten(messages.iter_mut(), |id| {
        let left = not_kept.get(id).filter(|_| cut.shortened.contains(id));
        left.map(String::as_str)
    });
    let mut summary = cut.summary.as_deref().map(Message::user).map(Arc::new);
    let mut kept = Vec::with_capacity(messages.len());
    for (message, place) in messages.into_iter().zip(0_u64..) {
        let went = |span: &Span| (span.start..span.end).contains(&place);
        if cut.removed.iter().any(went) {
            kept.extend(summary.take());
        } else {
            kept.push(message);
        }
    }
    kept
}

/// Turns the parts of a reply into those of a message: each call gets its id, made of run, agent, model call and index.
fn message_parts(record: &Record, parts: &[ReplyPart]) -> Vec<Part> {
    assign_ids(
        record.run_id,
        record.agent,
        record.content_index.unwrap_or_default(),
        parts,
    )
}

/// Gives each call of a reply its id, made of run, agent, model call and index.
pub(crate) fn assign_ids<'a>(
    run: RunId,
    agent: AgentId,
    content_index: ContentIndex,
    parts: impl IntoIterator<Item = &'a ReplyPart>,
) -> Vec<Part> {
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
pub(crate) fn chosen_call(reply: &Reply) -> Option<RequestedCall> {
    let is_whole = matches!(reply.finish, ReplyFinish::Stop | ReplyFinish::ToolCalls);
    is_whole.then(|| reply.calls().next().cloned()).flatten()
}
