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

pub(crate) use read::read;
pub(crate) use write::Writer;

/// The version of the format that is written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;
