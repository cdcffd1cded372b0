//! The role of a store that keeps what is too long for a record: the outputs of tool calls of which models read a part.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use neuraxis_core::{RunId, ToolCallId};
use serde::Serialize;

use super::{RunLease, StoreError};

/// The most bytes of a piece that [`output_chunks`] cuts: a page of any size reads few of them.
const CHUNK_BYTES: usize = 64 * 1024;

/// Keeps the long outputs of tool calls beside their runs, and reads them in pages.
///
/// An output belongs to its run: it is removed with the run's session, and whoever may read the run may read it. It is kept
/// before the record that names it is committed, so that no record names one that is not there. No hash chain covers it.
///
/// Who repeats a call, what a dropped one leaves and which order holds is said at [`SessionStore`](super::SessionStore).
#[async_trait]
pub trait RunOutputs: Debug + Send + Sync + 'static {
    /// Keeps the output of a call, in the place of one that was kept of it before: a call that is made again has the output
    /// of its last attempt.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid; [`StoreError::OutputsTooLarge`] if the run has no room for it:
    /// then nothing is changed.
    async fn keep_output(&self, lease: &RunLease, output: &LongOutput) -> Result<(), StoreError>;

    /// Returns what is known of the outputs that are kept of a run, by their calls' ids.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError>;

    /// Returns a page of an output that begins at a place, or at the end if the place is behind it. It has at most so many
    /// bytes, fewer where the output ends or a character would be cut; never none where something follows.
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

/// A long output of a tool call, as it is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongOutput {
    /// The call.
    pub call: ToolCallId,
    /// The tool.
    pub tool: Arc<str>,
    /// Whether it is untrusted content: reading it brings strangers' words into a conversation.
    pub untrusted: bool,
    /// The output.
    pub text: Arc<str>,
}

impl LongOutput {
    /// Describes an output that is trusted.
    pub fn new(call: ToolCallId, tool: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self {
            call,
            tool: tool.into(),
            untrusted: false,
            text: text.into(),
        }
    }

    /// Says whether it is untrusted content.
    #[must_use]
    pub const fn untrusted(mut self, untrusted: bool) -> Self {
        self.untrusted = untrusted;
        self
    }

    /// Returns what is known of it without its text.
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

    /// Returns a page of it; for implementations of [`RunOutputs::output_page`].
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

/// What is known of an output without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutputHead {
    /// The call.
    pub call: ToolCallId,
    /// The tool.
    pub tool: Arc<str>,
    /// Whether it is untrusted content.
    pub untrusted: bool,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many lines it has.
    pub lines: u64,
}

impl OutputHead {
    /// Describes an output; for implementations of [`RunOutputs`].
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
    /// So many bytes from its beginning. One inside a character stands for the beginning of that.
    Byte(u64),
    /// The beginning of a line, from 1.
    Line(u64),
}

impl OutputPlace {
    /// Tells whether a piece that begins at a byte and in a line is not yet behind this place: where a page is to begin is
    /// found in the last piece of which this is true, or in the first.
    #[must_use]
    pub const fn is_reached_by(self, start: u64, first_line: u64) -> bool {
        match self {
            Self::Byte(byte) => start <= byte,
            // A line may have begun in the piece before.
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
    /// At which of its bytes the page begins, from 0.
    pub start: u64,
    /// In which of its lines the page begins, from 1.
    pub first_line: u64,
    /// What stands there; nothing behind the end.
    pub text: String,
}

impl OutputPage {
    /// Cuts a page out of a piece of an output, which may go on behind what one chunk holds; for implementations of
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

    /// Returns where the next page begins; `None` if this one goes to the end.
    #[must_use]
    pub fn next(&self) -> Option<OutputPlace> {
        let end = self.start.saturating_add(count(self.text.len()));
        (end < self.head.bytes).then_some(OutputPlace::Byte(end))
    }
}

/// A piece of an output, as a store may keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputChunk<'a> {
    /// At which byte of the output it begins, from 0.
    pub start: u64,
    /// In which line of the output it begins, from 1.
    pub first_line: u64,
    /// The text of the page.
    pub text: &'a str,
}

impl Default for OutputChunk<'_> {
    /// The one piece of an empty output.
    fn default() -> Self {
        Self {
            start: 0,
            first_line: 1,
            text: "",
        }
    }
}

/// Cuts an output into pieces of at most 64 KiB, between characters; for stores that keep it so.
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
