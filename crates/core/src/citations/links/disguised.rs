//! Addresses that only appear in rendered text, because backslashes or entities hide them in the source.

use std::ops::Range;

use pulldown_cmark::Event;

use super::super::addresses::addresses_in;
use super::{Edit, Finder, Mark, Parsed, Target};

impl Finder<'_> {
    /// Finds addresses that only appear once backslashes and entities are resolved.
    pub(super) fn disguised(&mut self, run: &[&Parsed<'_>]) {
        let mut shown = String::new();
        let mut pieces: Vec<RenderedPiece> = Vec::new();
        for (event, range) in run {
            let piece: &str = match event {
                Event::Text(text) => text,
                Event::SoftBreak => "\n",
                _ => " ",
            };
            pieces.push(RenderedPiece {
                start: shown.len(),
                length: piece.len(),
                range: range.clone(),
            });
            shown.push_str(piece);
        }
        let raw = run.first().zip(run.last());
        let raw = raw.and_then(|((_, first), (_, last))| self.text.get(first.start..last.end));
        if raw == Some(shown.as_str()) {
            return;
        }
        let piece = |at: usize| {
            let next = pieces.partition_point(|piece| piece.start <= at);
            pieces.get(next.checked_sub(1)?)
        };
        for found in addresses_in(&shown, 0, shown.len()) {
            let last = found.end.saturating_sub(1);
            let start = piece(found.start).map(|it| it.of(found.start).start);
            let end = piece(last).map(|it| it.of(last).end);
            if let (Some(start), Some(end)) = (start, end) {
                let url = shown.get(found).unwrap_or_default();
                self.replace(start..end, url);
            }
        }
    }

    /// Adds an address, replacing anything found inside its range.
    fn replace(&mut self, range: Range<usize>, url: &str) {
        let overlaps = |edit: &Edit| edit.range.start < range.end && range.start < edit.range.end;
        let is_smaller = |edit: &Edit| {
            let is_inside = range.start <= edit.range.start && edit.range.end <= range.end;
            is_inside && edit.range != range
        };
        let mut there = self.found.iter().filter(|edit| overlaps(edit));
        if !there.all(is_smaller) || self.text.get(range.clone()).is_none() {
            return;
        }
        self.found.retain(|edit| !overlaps(edit));
        self.past = self.past.max(range.end);
        self.found.push(Edit {
            range,
            mark: Mark::AddressOnly,
            targets: vec![Target::Url(url.to_owned())],
        });
    }
}

/// A piece of rendered text, and where it is in the source.
struct RenderedPiece {
    /// Its start and length in the rendered text.
    start: usize,
    length: usize,
    /// Its range in the text that the model wrote.
    range: Range<usize>,
}

impl RenderedPiece {
    /// Returns the source range of a rendered byte; an entity is one unit.
    fn of(&self, shown: usize) -> Range<usize> {
        if self.length != self.range.len() {
            return self.range.clone();
        }
        let at = self.range.start + shown.saturating_sub(self.start);
        at..at + 1
    }
}
