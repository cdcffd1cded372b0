//! Server-sent events, decoded as the bytes arrive.
//!
//! Follows the event stream format of the HTML standard, with two differences. Bytes that are not UTF-8 are an error
//! instead of being replaced: a reply is exactly what the model wrote, or nothing. The fields `id` and `retry` are
//! skipped: a model's reply cannot be resumed.

use std::ops::Range;

use bytes::Bytes;
use memchr::{memchr, memchr2};
use neuraxis_core::{LlmError, LlmErrorKind};

/// The maximum length of a line, and of the data of one event: 8 MiB.
pub const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Decodes a stream of server-sent events. An event that arrived in one piece is borrowed from it, without a copy.
///
/// ```
/// use neuraxis_wire::SseDecoder;
///
/// let mut decoder = SseDecoder::new();
/// decoder.push("data: first\n\n: a comment\ndata: sec".into());
/// assert_eq!(decoder.next_event()?.map(|event| event.data), Some("first"));
/// assert_eq!(decoder.next_event()?, None);
/// decoder.push("ond\n\n".into());
/// assert_eq!(decoder.next_event()?.map(|event| event.data), Some("second"));
/// # Ok::<(), neuraxis_wire::SseError>(())
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    /// The piece being read.
    chunk: Bytes,
    /// The position in it of the next byte to read.
    at: usize,
    /// The beginning of a line whose end has not arrived yet.
    line: Vec<u8>,
    /// Where the current event's data is.
    data: Data,
    /// That data, if it is stored here.
    joined: Vec<u8>,
    /// The name of the current event, or of the one just returned.
    name: Vec<u8>,
    name_is_old: bool,
    /// The last line ended in CR: a following LF belongs to it.
    after_cr: bool,
    /// No line was read yet: a byte order mark may precede it.
    at_start: bool,
    limit: usize,
}

/// An event, borrowed from the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's name; empty if it has none.
    pub name: &'a str,
    /// The event's data: the values of its `data` lines, with line feeds between them.
    pub data: &'a str,
}

/// Why a stream of events cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// A line, or the data of an event, exceeds the limit.
    #[error("the event stream has a line or an event longer than {limit} bytes")]
    TooLong {
        /// The maximum number of bytes.
        limit: usize,
    },
    /// An event is not UTF-8.
    #[error("the event stream is not UTF-8")]
    NotUtf8,
}

impl From<SseError> for LlmError {
    fn from(error: SseError) -> Self {
        Self::new(LlmErrorKind::InvalidResponse, error.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Data {
    None,
    /// In the piece being read: such lines are borrowed without a copy.
    InChunk(Range<usize>),
    Joined,
}

/// The kind of a line, with the position of its value.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Blank,
    Data(usize),
    Name(usize),
    /// A comment, or a field that is not needed.
    Skipped,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl SseDecoder {
    /// Creates a decoder that accepts lines and events of up to [`MAX_EVENT_BYTES`].
    #[must_use]
    pub const fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    /// Creates a decoder that accepts lines and events of up to `limit` bytes.
    #[must_use]
    pub const fn with_limit(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            at: 0,
            line: Vec::new(),
            data: Data::None,
            joined: Vec::new(),
            name: Vec::new(),
            name_is_old: false,
            after_cr: false,
            at_start: true,
            limit,
        }
    }

    /// Adds the next piece of the stream. Cheapest after [`next_event`](Self::next_event) has returned `None`.
    pub fn push(&mut self, chunk: Bytes) {
        self.keep_data();
        let rest = self.chunk.split_off(self.at.min(self.chunk.len()));
        self.chunk = if rest.is_empty() {
            chunk
        } else {
            [rest, chunk].concat().into()
        };
        self.at = 0;
    }

    /// Returns the next complete event, or `None` until another piece is pushed. An event cut off by the stream's end
    /// is never returned.
    ///
    /// # Errors
    ///
    /// [`SseError`], after which the stream cannot be read any further.
    pub fn next_event(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        if self.name_is_old {
            self.name.clear();
            self.name_is_old = false;
        }
        if !self.find_event()? {
            self.release_piece();
            return Ok(None);
        }
        self.name_is_old = true;
        let data = match std::mem::replace(&mut self.data, Data::None) {
            Data::InChunk(range) => self.chunk.get(range).unwrap_or_default(),
            Data::Joined | Data::None => &self.joined,
        };
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| SseError::NotUtf8);
        Ok(Some(SseEvent {
            name: text(&self.name)?,
            data: text(data)?,
        }))
    }

    /// Reads lines until one ends an event; `false` if the piece ends first.
    fn find_event(&mut self) -> Result<bool, SseError> {
        loop {
            if self.after_cr {
                match self.chunk.get(self.at) {
                    Some(b'\n') => self.at += 1,
                    Some(_) => {}
                    None => return Ok(false),
                }
                self.after_cr = false;
            }
            let rest = self.chunk.get(self.at..).unwrap_or_default();
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                let (start, end) = (self.at, self.chunk.len());
                self.at = end;
                self.keep_line(start..end)?;
                return Ok(false);
            };
            let line = self.at..self.at + length;
            self.after_cr = rest.get(length) == Some(&b'\r');
            self.at = line.end + 1;
            if self.take_line(line)? {
                return Ok(true);
            }
        }
    }

    /// Processes a line that ends in this piece; `true` if it ends an event.
    fn take_line(&mut self, mut here: Range<usize>) -> Result<bool, SseError> {
        if self.line.is_empty() {
            let line = self.chunk.get(here.clone()).unwrap_or_default();
            let mark = self.mark_before(line);
            here.start += mark;
            let line = line.get(mark..).unwrap_or_default();
            self.at_start = false;
            return match Line::of(line) {
                Line::Blank => Ok(self.data != Data::None || self.forget_name()),
                Line::Data(value) => self.add_data(here.start + value..here.end).map(|()| false),
                Line::Name(value) => {
                    let name = line.get(value..).unwrap_or_default().to_vec();
                    self.name = name;
                    Ok(false)
                }
                Line::Skipped => Ok(false),
            };
        }
        self.keep_line(here)?;
        let line = std::mem::take(&mut self.line);
        let mark = self.mark_before(&line);
        self.at_start = false;
        let text = line.get(mark..).unwrap_or_default();
        let ends = match Line::of(text) {
            Line::Blank => self.data != Data::None || self.forget_name(),
            Line::Data(value) => {
                self.keep_data();
                self.join(text.get(value..).unwrap_or_default())?;
                false
            }
            Line::Name(value) => {
                self.name = text.get(value..).unwrap_or_default().to_vec();
                false
            }
            Line::Skipped => false,
        };
        self.line = line;
        self.line.clear();
        Ok(ends)
    }

    /// Returns the length in bytes of a byte order mark before the first line.
    fn mark_before(&self, line: &[u8]) -> usize {
        if self.at_start && line.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        }
    }

    /// A blank line without preceding data is not an event; it resets the event's name. Always returns `false`.
    fn forget_name(&mut self) -> bool {
        self.name.clear();
        false
    }

    /// Adds a data line that lies in this piece.
    fn add_data(&mut self, value: Range<usize>) -> Result<(), SseError> {
        if self.data == Data::None {
            if value.len() > self.limit {
                return Err(SseError::TooLong { limit: self.limit });
            }
            self.data = Data::InChunk(value);
            return Ok(());
        }
        self.keep_data();
        let chunk = self.chunk.clone();
        self.join(chunk.get(value).unwrap_or_default())
    }

    /// Appends a data line to the joined data.
    fn join(&mut self, value: &[u8]) -> Result<(), SseError> {
        if self.data == Data::None {
            self.joined.clear();
        } else {
            self.joined.push(b'\n');
        }
        if self.joined.len() + value.len() > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        self.joined.extend_from_slice(value);
        self.data = Data::Joined;
        Ok(())
    }

    /// Releases the piece, which was read to its end: the connection reads the next one into the same memory, unless a
    /// part of it is still referenced.
    fn release_piece(&mut self) {
        self.keep_data();
        self.chunk = Bytes::new();
        self.at = 0;
    }

    /// Saves the current event's data before its piece is released.
    fn keep_data(&mut self) {
        if let Data::InChunk(range) = &self.data {
            self.joined.clear();
            self.joined
                .extend_from_slice(self.chunk.get(range.clone()).unwrap_or_default());
            self.data = Data::Joined;
        }
    }

    /// Saves a part of a line.
    fn keep_line(&mut self, part: Range<usize>) -> Result<(), SseError> {
        let part = self.chunk.get(part).unwrap_or_default();
        if self.line.len() + part.len() > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(part);
        Ok(())
    }
}

impl Line {
    fn of(line: &[u8]) -> Self {
        if line.is_empty() {
            return Self::Blank;
        }
        let colon = memchr(b':', line);
        let name = line.get(..colon.unwrap_or(line.len())).unwrap_or_default();
        let value = match colon {
            Some(colon) if line.get(colon + 1) == Some(&b' ') => colon + 2,
            Some(colon) => colon + 1,
            None => line.len(),
        };
        match name {
            b"data" => Self::Data(value),
            b"event" => Self::Name(value),
            _ => Self::Skipped,
        }
    }
}

#[cfg(test)]
mod tests;
