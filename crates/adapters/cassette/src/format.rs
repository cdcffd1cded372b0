//! The file format: JSON Lines, one item per line.
//!
//! The first line describes the file. Each exchange is a block of lines: `exchange`, then the request (`tool`, the
//! messages, `settings`), then what came back, one delta per line, then `done`. A text of several lines takes as many
//! lines of the file: `more` continues the text before it. A JSON text is embedded if possible (`arguments`), otherwise
//! written as a string (`arguments_text`), so its exact bytes are preserved. What a request shares with an earlier one,
//! such as the growing history of a run, is referenced instead of repeated (`messages_from`, `tools_from`).
//!
//! This format was chosen over one JSON document for two reasons: a written line stays readable whatever happens later,
//! and version control shows one changed delta, or one changed line of a prompt, as one changed line.

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

/// How many times the maximum size of its file all requests together may have once shared parts are expanded.
const MAX_GROWTH: usize = 8;

/// Returns the maximum number of bytes that the requests of a file may share, given the file's maximum size.
pub(crate) fn most_shared(max_bytes: u64) -> usize {
    let limit = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    limit.saturating_mul(MAX_GROWTH)
}

/// Returns the number of bytes that a message adds each time a request shares it, given its size in the file. Its texts
/// count as if they were repeated: they are compared on each use. The content of media does not: it is stored and
/// hashed once.
fn shared_bytes(message: &Message, bytes: usize) -> usize {
    let content = contents(message).map(|content| content.len()).sum();
    let pointers = size_of::<(Arc<Message>, usize)>();
    bytes.saturating_sub(content).saturating_add(pointers)
}
