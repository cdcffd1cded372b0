//! Reads a range of lines from a file of any size, in bounded memory.

use std::io::{self, Read};

use serde::Serialize;

use crate::blocking::Stop;
use crate::project::failure::FileError;

/// The maximum number of characters of a line that are shown.
pub(super) const READ_MAX_LINE_CHARS: u64 = 2_000;
/// The maximum size in bytes of a call's text as JSON, where a quote or a line break takes two: the result, including
/// everything else in it, then does not have to be cut again.
const READ_MAX_JSON_BYTES: usize = 56 * 1024;
/// The number of bytes of a file in which lines are counted.
pub(super) const READ_MAX_SCANNED_BYTES: u64 = 256 * 1024 * 1024;

/// The maximum number of bytes of a line that are shown: a character has at most four bytes, but content that is not
/// UTF-8 may look different.
const MAX_LINE_BYTES: usize = 4 * READ_MAX_LINE_CHARS as usize;

/// The maximum number of cut lines that are named.
const MAX_NAMED_LINES: usize = 20;

const CHUNK_BYTES: usize = 64 * 1024;

/// The part of a file to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// The first line, from 1.
    pub(super) first: u64,
    /// The line after the last one.
    pub(super) past_last: u64,
    /// The first character of each line, from 1.
    pub(super) column: u64,
}

/// The lines of a window, and what is known about the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The lines, unchanged.
    pub(super) text: Vec<u8>,
    /// The last line in the text; 0 if there is none.
    pub(super) end_line: u64,
    /// The number of lines in the file, unless it is too big to count them.
    pub(super) total_lines: Option<u64>,
    pub(super) cut_lines: Vec<LongLine>,
}

/// A line that is too long to be shown in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct LongLine {
    pub(super) line: u64,
    /// The length of the whole line.
    pub(super) bytes: u64,
}

/// Reads a file from its beginning, up to a number of bytes. The inner result is the file system's.
pub(super) fn scan(
    file: &mut impl Read,
    window: Window,
    most_bytes: u64,
    stop: &Stop,
) -> Result<io::Result<Excerpt>, FileError> {
    let mut scanner = Scanner::new(window);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = most_bytes;
    loop {
        stop.check()?;
        let read = match file.read(&mut chunk) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Ok(Err(error)),
        };
        let bytes = chunk.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(Ok(scanner.finish(End::OfFile)));
        }
        scanner.scan(bytes);
        left = left.saturating_sub(bytes.len() as u64);
        if left == 0 {
            return Ok(Ok(scanner.finish(End::OfLimit)));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    OfFile,
    OfLimit,
}

#[derive(Debug)]
struct Scanner {
    window: Window,
    found: Excerpt,
    /// The line that the next byte belongs to.
    line: u64,
    /// The number of bytes of that line so far.
    line_bytes: u64,
    shown: ShownLine,
    /// The number of bytes that the text found so far takes as JSON.
    json_bytes: usize,
}

/// The part of the current line that is shown.
#[derive(Debug, Default)]
struct ShownLine {
    bytes: Vec<u8>,
    /// The number of characters of the line so far, shown or not.
    chars: u64,
    is_cut: bool,
}

impl Scanner {
    fn new(window: Window) -> Self {
        Self {
            window,
            found: Excerpt::default(),
            line: 1,
            line_bytes: 0,
            shown: ShownLine::default(),
            json_bytes: 0,
        }
    }

    fn scan(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.line >= self.window.past_last {
                self.count(bytes);
                return;
            }
            let end = memchr::memchr(b'\n', bytes).map(|newline| newline + 1);
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.line_bytes += piece.len() as u64;
            if self.line >= self.window.first {
                self.shown.push(piece, self.window.column);
            }
            if end.is_some() {
                self.end_line();
            }
            bytes = rest;
        }
    }

    /// Counts lines after the window.
    fn count(&mut self, bytes: &[u8]) {
        let newlines = memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.line += newlines;
        self.line_bytes = match memchr::memrchr(b'\n', bytes) {
            Some(last) => (bytes.len() - last - 1) as u64,
            None => self.line_bytes + bytes.len() as u64,
        };
    }

    fn end_line(&mut self) {
        if (self.window.first..self.window.past_last).contains(&self.line) {
            self.show_line();
        }
        self.line += 1;
        self.line_bytes = 0;
    }

    fn show_line(&mut self) {
        let mut shown = std::mem::take(&mut self.shown);
        if shown.is_cut {
            shown.bytes.extend_from_slice("…\n".as_bytes());
        }
        let json_bytes = json_bytes(&shown.bytes);
        if self.json_bytes + json_bytes > READ_MAX_JSON_BYTES {
            // The shown text ends with a whole line, and the next call begins with this line.
            self.window.past_last = self.line;
            return;
        }
        self.found.text.extend_from_slice(&shown.bytes);
        self.json_bytes += json_bytes;
        self.found.end_line = self.line;
        if shown.is_cut && self.found.cut_lines.len() < MAX_NAMED_LINES {
            self.found.cut_lines.push(LongLine {
                line: self.line,
                bytes: self.line_bytes,
            });
        }
    }

    fn finish(mut self, end: End) -> Excerpt {
        // The last line may have no newline.
        if self.line_bytes > 0 {
            self.end_line();
        }
        self.found.total_lines = (end == End::OfFile).then_some(self.line - 1);
        self.found
    }
}

impl ShownLine {
    fn push(&mut self, piece: &[u8], column: u64) {
        let past_last = column.saturating_add(READ_MAX_LINE_CHARS);
        for &byte in piece {
            if self.is_cut {
                return;
            }
            let begins_char = byte & 0b1100_0000 != 0b1000_0000;
            self.chars += u64::from(begins_char);
            let ends_line = byte == b'\n' || (byte == b'\r' && self.chars == past_last);
            let too_long = self.chars >= past_last || self.bytes.len() >= MAX_LINE_BYTES;
            if too_long && !ends_line {
                self.is_cut = true;
            } else if self.chars >= column || byte == b'\n' {
                self.bytes.push(byte);
            }
        }
    }
}

/// Returns the number of bytes that a line takes within a JSON string; invalid UTF-8 is shown as U+FFFD, which takes
/// three.
fn json_bytes(line: &[u8]) -> usize {
    let bytes = |char: char| match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => char.len_utf8(),
    };
    String::from_utf8_lossy(line).chars().map(bytes).sum()
}

#[cfg(test)]
mod tests;
