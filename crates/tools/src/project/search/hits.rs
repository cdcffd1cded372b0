//! Collects the hits in one file.

use std::io;

use grep_searcher::{Searcher, Sink, SinkMatch};
use serde::Serialize;

use super::pattern::Pattern;
use crate::project::walk::is_false;

/// The maximum number of bytes that are shown of a line with a hit.
const SEARCH_MAX_LINE_BYTES: usize = 400;

/// The number of bytes of a long line that are shown before the hit.
const BYTES_BEFORE_HIT: usize = 100;

/// A line with a hit.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Hit {
    pub(super) path: String,
    pub(super) line: u64,
    /// The position of the first hit in this line, in characters from 1.
    pub(super) column: u64,
    pub(super) text: String,
    /// Whether bytes that are not UTF-8 were replaced by U+FFFD.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) lossy: bool,
}

#[derive(Debug)]
pub(super) struct FileHits<'a> {
    path: &'a str,
    pattern: &'a Pattern,
    most: usize,
    pub(super) hits: Vec<Hit>,
    pub(super) total: u64,
}

impl<'a> FileHits<'a> {
    pub(super) fn new(path: &'a str, pattern: &'a Pattern, most: usize) -> Self {
        Self {
            path,
            pattern,
            most,
            hits: Vec::new(),
            total: 0,
        }
    }

    fn hit(&self, number: u64, line: &[u8]) -> Hit {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let place = self.pattern.place_in(line);
        let before = line.get(..place).unwrap_or_default();
        let column = 1 + before.iter().filter(|byte| begins_char(**byte)).count() as u64;
        let (text, lossy) = excerpt(line, place);
        Hit {
            path: self.path.to_owned(),
            line: number,
            column,
            text,
            lossy,
        }
    }
}

impl Sink for FileHits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.total += 1;
        if self.hits.len() < self.most {
            self.hits
                .push(self.hit(found.line_number().unwrap_or_default(), found.bytes()));
        }
        Ok(true)
    }
}

fn begins_char(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// Returns a line, or the part around a hit if it is long, and whether bytes were replaced.
fn excerpt(line: &[u8], place: usize) -> (String, bool) {
    let wanted = if line.len() > SEARCH_MAX_LINE_BYTES {
        place.saturating_sub(BYTES_BEFORE_HIT)
    } else {
        0
    };
    let start = char_boundary(line, wanted);
    let end = char_boundary(
        line,
        start.saturating_add(SEARCH_MAX_LINE_BYTES).min(line.len()),
    );
    let part = line.get(start..end).unwrap_or_default();
    let text = String::from_utf8_lossy(part);
    let lossy = std::str::from_utf8(part).is_err();
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    (format!("{before}{text}{after}"), lossy)
}

/// Returns the nearest position, at or before the given one, at which a character begins.
fn char_boundary(line: &[u8], place: usize) -> usize {
    let begins = |place: &usize| line.get(*place).is_none_or(|byte| begins_char(*byte));
    (place.saturating_sub(3)..=place)
        .rev()
        .find(begins)
        .unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_is_shown_whole() {
        assert_eq!(
            excerpt("fn é()".as_bytes(), 3),
            ("fn é()".to_owned(), false)
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_hit_between_characters() {
        let line = format!("{}needle{}", "é".repeat(1_000), "ü".repeat(1_000));
        let (text, lossy) = excerpt(line.as_bytes(), 2_000);
        assert!(!lossy);
        assert!(
            text.starts_with("…é") && text.contains("éneedleü") && text.ends_with("ü…"),
            "{text}"
        );
        assert!(text.len() <= SEARCH_MAX_LINE_BYTES + 2 * "…".len());
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_and_marked() {
        assert_eq!(
            excerpt(b"caf\xe9 au lait", 0),
            ("caf\u{fffd} au lait".to_owned(), true)
        );
    }
}
