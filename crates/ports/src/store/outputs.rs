//! The role of a store that keeps what is too long for a record: outputs of tool calls of which models read only a
//! part.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use neuraxis_core::{RunId, ToolCallId};
use serde::Serialize;

use super::{RunLease, StoreError};

/// The maximum size in bytes of a piece that [`output_chunks`] cuts. A page of any size then spans only a few pieces.
const CHUNK_BYTES: usize = 64 * 1024;

/// Stores the long outputs of tool calls beside their runs, and reads them in pages.
///
/// An output belongs to its run: it is removed with the run's session, and may be read by everyone who may read the
/// run. It is stored before the record that names it is committed, so every record's output exists. No hash chain
/// covers it.
///
/// [`SessionStore`](super::SessionStore) documents retries, cancel safety and order.
#[async_trait]
pub trait RunOutputs: Debug + Send + Sync + 'static {
    /// Stores the output of a call, replacing any earlier output of the same call: a repeated call has the output of
    /// its last attempt.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid; [`StoreError::OutputsTooLarge`] if the run has no space
    /// left for the output. In both cases nothing is changed.
    async fn keep_output(&self, lease: &RunLease, output: &LongOutput) -> Result<(), StoreError>;

    /// Returns the metadata of the outputs that are stored for a run, ordered by their calls' ids.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError>;

    /// Returns a page of an output that begins at a place, or an empty page at the end if the place is beyond it. The
    /// page has at most `most` bytes, and fewer if the output ends or a character would be cut; it is never empty if
    /// more text follows.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::NoSuchOutput`].
    async fn output_page(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        most: usize,
    ) -> Result<OutputPage, StoreError>;
}

/// A long output of a tool call, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongOutput {
    /// The call.
    pub call: ToolCallId,
    /// The tool.
    pub tool: Arc<str>,
    /// Whether it is untrusted content: reading it adds a third party's text to a conversation.
    pub untrusted: bool,
    /// The output.
    pub text: Arc<str>,
}

impl LongOutput {
    /// Creates a trusted output.
    pub fn new(call: ToolCallId, tool: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self {
            call,
            tool: tool.into(),
            untrusted: false,
            text: text.into(),
        }
    }

    /// Sets whether it is untrusted content.
    #[must_use]
    pub const fn untrusted(mut self, untrusted: bool) -> Self {
        self.untrusted = untrusted;
        self
    }

    /// Returns its metadata.
    #[must_use]
    pub fn head(&self) -> OutputHead {
        OutputHead {
            call: self.call.clone(),
            tool: Arc::clone(&self.tool),
            untrusted: self.untrusted,
            bytes: count(self.text.len()),
            lines: count(self.text.lines().count()),
        }
    }

    /// Returns a page of the output; for implementations of [`RunOutputs::output_page`].
    #[must_use]
    pub fn page(&self, from: OutputPlace, most: usize) -> OutputPage {
        let mut chunks = output_chunks(&self.text);
        let mut chunk = chunks.next().unwrap_or_default();
        for next in chunks.take_while(|next| from.is_reached_by(next.start, next.first_line)) {
            chunk = next;
        }
        let rest = usize::try_from(chunk.start)
            .ok()
            .and_then(|start| self.text.get(start..));
        chunk.text = rest.unwrap_or_default();
        OutputPage::cut(self.head(), chunk, from, most)
    }
}

/// The metadata of an output, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutputHead {
    /// The call.
    pub call: ToolCallId,
    /// The tool.
    pub tool: Arc<str>,
    /// Whether it is untrusted content.
    pub untrusted: bool,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its number of lines.
    pub lines: u64,
}

impl OutputHead {
    /// Creates the metadata of an output; for implementations of [`RunOutputs`].
    #[must_use]
    pub const fn new(call: ToolCallId, tool: Arc<str>, untrusted: bool, size: (u64, u64)) -> Self {
        Self {
            call,
            tool,
            untrusted,
            bytes: size.0,
            lines: size.1,
        }
    }
}

/// A place in an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPlace {
    /// An offset in bytes from the beginning. An offset inside a character means the beginning of that character.
    Byte(u64),
    /// The beginning of a line, counted from 1.
    Line(u64),
}

impl OutputPlace {
    /// Returns whether a piece that begins at this byte and in this line cannot be past the place. A page begins in the
    /// last piece for which this is true, or in the first piece.
    #[must_use]
    pub const fn is_reached_by(self, start: u64, first_line: u64) -> bool {
        match self {
            Self::Byte(byte) => start <= byte,
            // The line may have begun in the preceding piece.
            Self::Line(line) => first_line < line,
        }
    }
}

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputPage {
    /// The output.
    pub head: OutputHead,
    /// The byte of the output at which the page begins, from 0.
    pub start: u64,
    /// The line of the output in which the page begins, from 1.
    pub first_line: u64,
    /// The text of the page; empty beyond the end.
    pub text: String,
}

impl OutputPage {
    /// Cuts a page out of a piece of an output, which may continue beyond one chunk; for implementations of
    /// [`RunOutputs::output_page`].
    #[must_use]
    pub fn cut(head: OutputHead, piece: OutputChunk<'_>, from: OutputPlace, most: usize) -> Self {
        let OutputChunk {
            start,
            first_line,
            text,
        } = piece;
        let skipped = match from {
            OutputPlace::Byte(byte) => {
                let wanted = usize::try_from(byte.saturating_sub(start)).unwrap_or(usize::MAX);
                text.floor_char_boundary(wanted)
            }
            OutputPlace::Line(line) => {
                let breaks = usize::try_from(line.saturating_sub(first_line)).unwrap_or(usize::MAX);
                let mut ends = text.match_indices('\n').map(|(at, _)| at + 1);
                match breaks.checked_sub(1) {
                    None => 0,
                    Some(before) => ends.nth(before).unwrap_or(text.len()),
                }
            }
        };
        let (before, rest) = text.split_at(skipped);
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest.floor_char_boundary(most).max(first);
        Self {
            head,
            start: start.saturating_add(count(before.len())),
            first_line: first_line.saturating_add(count(before.matches('\n').count())),
            text: rest.get(..end).unwrap_or_default().to_owned(),
        }
    }

    /// Returns where the next page begins; `None` if this one reaches the end.
    #[must_use]
    pub fn next(&self) -> Option<OutputPlace> {
        let end = self.start.saturating_add(count(self.text.len()));
        (end < self.head.bytes).then_some(OutputPlace::Byte(end))
    }
}

/// A piece of an output, in a size suitable for storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputChunk<'a> {
    /// The byte of the output at which it begins, from 0.
    pub start: u64,
    /// The line of the output in which it begins, from 1.
    pub first_line: u64,
    /// The text of the piece.
    pub text: &'a str,
}

impl Default for OutputChunk<'_> {
    /// Returns the only piece of an empty output.
    fn default() -> Self {
        Self {
            start: 0,
            first_line: 1,
            text: "",
        }
    }
}

/// Cuts an output into pieces of at most 64 KiB, between characters; for stores that keep it in pieces.
pub fn output_chunks(text: &str) -> impl Iterator<Item = OutputChunk<'_>> {
    let mut rest = text;
    let mut next = OutputChunk::default();
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
        if piece.is_empty() {
            return None;
        }
        rest = behind;
        let chunk = OutputChunk {
            text: piece,
            ..next
        };
        next.start = next.start.saturating_add(count(piece.len()));
        let breaks = count(piece.matches('\n').count());
        next.first_line = next.first_line.saturating_add(breaks);
        Some(chunk)
    })
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
