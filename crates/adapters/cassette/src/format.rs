//! The file format: JSON Lines, one thing a line.
//!
//! The first line is about the file. Each exchange is a block of lines: `exchange`, then the request (`tool`, the
//! messages, `settings`), then what came back, a delta a line, then `done`. A text of several lines takes as many lines
//! of the file: `more` goes on with the text before it. A JSON text is written in place where it can be (`arguments`),
//! else as a string (`arguments_text`), so that its exact bytes survive. What a request shares with an earlier one, as
//! the growing history of a run does, is not repeated but named (`messages_from`, `tools_from`).
//!
//! Chosen over one JSON document because a line that was written stays readable whatever happens after it, and because
//! version control then shows one changed delta or one changed line of a prompt as one changed line.

mod line;
mod read;
mod write;

use std::sync::Arc;

use neuraxis_core::Message;

use crate::exchange::contents;

pub(crate) use read::read;
pub(crate) use write::Writer;

/// The version of the format that is written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;

/// How many times the most bytes of its file all requests together may have once what they share is put back.
const MAX_GROWTH: usize = 8;

/// Returns how many bytes the requests of a file may share that may have so many itself.
pub(crate) fn most_shared(max_bytes: u64) -> usize {
    let limit = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    limit.saturating_mul(MAX_GROWTH)
}

/// Returns how much a message counts, of so many bytes of the file, each time that a request shares it. Its texts count as if
/// they stood there: they are compared as often as they are used. The content of media does not: it is there once, and
/// hashed once.
fn shared_bytes(message: &Message, bytes: usize) -> usize {
    let content = contents(message).map(|content| content.len()).sum();
    let pointers = size_of::<(Arc<Message>, usize)>();
    bytes.saturating_sub(content).saturating_add(pointers)
}
