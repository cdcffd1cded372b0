//! Finds the lines of a long output that match a pattern, page by page. A line that is longer than a page is searched
//! in overlapping pieces, so that a match is found wherever it is.

use neuraxis_core::JsonText;
use neuraxis_ports::{OutputPage, OutputPlace, ToolError};
use regex::{Regex, RegexBuilder};
use serde::Serialize;

/// The number of bytes that are searched at a time.
pub(super) const SEARCHED_BYTES: usize = 256 * 1024;

/// The maximum length in bytes of a match that is sure to be found across the end of a piece.
const MATCH_BYTES: usize = 4 * 1024;

/// The maximum number of characters of a line that a search shows, and how many of them come before the match.
const MAX_LINE_CHARS: usize = 400;
const CHARS_BEFORE: usize = 100;

/// The size limit on a compiled pattern. A pattern that counts to a million would exceed it.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// The lines found, in the form that a model reads.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    matches: Vec<Line>,
    /// The line from which to continue; left out at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_line: Option<u64>,
    /// The offset from which to continue within a line that was only partly searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    total_lines: u64,
    summary: String,
}

/// A matching line, or a piece of a long one.
#[derive(Debug, Serialize)]
struct Line {
    line: u64,
    /// The byte at which the match begins.
    offset: u64,
    text: String,
}

/// A search in progress.
#[derive(Debug)]
pub(super) struct Search {
    pattern: Regex,
    /// The byte up to which everything is searched.
    searched: u64,
    /// The number of bytes left for matches.
    room: usize,
    matches: Vec<Line>,
    next_line: Option<u64>,
    next_offset: Option<u64>,
}

impl Search {
    pub(super) fn new(pattern: &str, room: usize) -> Result<Self, ToolError> {
        let built = RegexBuilder::new(pattern)
            .size_limit(MAX_PATTERN_BYTES)
            .build();
        let pattern = built.map_err(|error| {
            ToolError::permanent(format!("the pattern cannot be used: {error}"))
        })?;
        Ok(Self {
            pattern,
            searched: 0,
            room,
            matches: Vec::new(),
            next_line: None,
            next_offset: None,
        })
    }

    /// Searches a page, and returns where the next page begins; `None` at the end, and when there is no room left.
    pub(super) fn within(&mut self, page: &OutputPage) -> Result<Option<OutputPlace>, ToolError> {
        let (lines, next) = whole_lines(page);
        let (mut offset, mut number) = (page.start, page.first_line);
        for line in lines.split_inclusive('\n') {
            let text = line.trim_end_matches(['\n', '\r']);
            let searched = self.searched.saturating_sub(offset);
            let from = text.floor_char_boundary(usize::try_from(searched).unwrap_or(usize::MAX));
            let continues = next.is_some() && !line.ends_with('\n');
            // A match that begins near the end of a piece is found in the next piece, which contains all of it.
            let end = text.floor_char_boundary(text.len().saturating_sub(MATCH_BYTES));
            let hit = self.pattern.find_at(text, from);
            if let Some(hit) = hit.filter(|hit| !continues || hit.start() < end) {
                let shown = Line {
                    line: number,
                    offset: offset + hit.start() as u64,
                    text: around(text, hit.start()),
                };
                if !self.add_match(shown)? {
                    return Ok(None);
                }
                self.searched = offset + hit.end() as u64;
            }
            if continues {
                self.searched = self.searched.max(offset + end as u64);
            }
            offset += line.len() as u64;
            number += u64::from(line.ends_with('\n'));
        }
        Ok(next)
    }

    /// Adds a match; returns `false` if there is no room for it.
    fn add_match(&mut self, shown: Line) -> Result<bool, ToolError> {
        let size = JsonText::encode(&shown)?.as_str().len();
        match self.matches.last() {
            Some(last) if size > self.room => {
                if last.line == shown.line {
                    self.next_offset = Some(shown.offset);
                } else {
                    self.next_line = Some(shown.line);
                }
                Ok(false)
            }
            _ => {
                self.room = self.room.saturating_sub(size);
                self.matches.push(shown);
                Ok(true)
            }
        }
    }

    /// Ends the search.
    pub(super) fn found(self, total_lines: u64) -> Found {
        let follows = match (self.next_line, self.next_offset) {
            (Some(line), _) => format!(" More follow: search on with line {line}."),
            (None, Some(offset)) => format!(" More follow: search on with offset {offset}."),
            (None, None) => String::new(),
        };
        // A long line may appear with several matches.
        let lines = self.matches.chunk_by(|one, next| one.line == next.line);
        let count = match lines.count() {
            1 => "1 line fits".to_owned(),
            number => format!("{number} lines fit"),
        };
        Found {
            matches: self.matches,
            next_line: self.next_line,
            next_offset: self.next_offset,
            total_lines,
            summary: format!("{count} the pattern.{follows}"),
        }
    }
}

/// Returns the complete lines of a page, or the piece of a line that is longer than the page, and where to continue.
fn whole_lines(page: &OutputPage) -> (&str, Option<OutputPlace>) {
    let lines = page.text.rfind('\n').map(|at| at + 1);
    match (page.next(), lines) {
        (None, _) => (&page.text, None),
        (Some(_), Some(end)) => {
            let lines = page.text.get(..end).unwrap_or_default();
            (lines, Some(OutputPlace::Byte(page.start + end as u64)))
        }
        (Some(_), None) => {
            // The pieces overlap by twice the longest match: the unsearched end of this piece, and as much text before
            // it for context.
            let kept = page.text.len().saturating_sub(2 * MATCH_BYTES);
            (
                &page.text,
                Some(OutputPlace::Byte(page.start + kept as u64)),
            )
        }
    }
}

/// Returns the part of a line around the beginning of a match, with marks where it is cut.
fn around(line: &str, hit: usize) -> String {
    if line.char_indices().nth(MAX_LINE_CHARS).is_none() {
        return line.to_owned();
    }
    let mut before = line.get(..hit).unwrap_or_default().char_indices().rev();
    let start = before.nth(CHARS_BEFORE - 1).map_or(0, |(at, _)| at);
    let shown = line.get(start..).unwrap_or_default();
    let end = shown.char_indices().nth(MAX_LINE_CHARS);
    let (end, behind) = end.map_or((shown.len(), ""), |(end, _)| (end, "…"));
    let shown = shown.get(..end).unwrap_or_default();
    let ahead = if start > 0 { "…" } else { "" };
    format!("{ahead}{shown}{behind}")
}
