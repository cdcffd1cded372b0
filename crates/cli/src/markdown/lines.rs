//! Wraps a line of text between words at the width of the screen, with a margin before each part.

use std::ops::Range;

use anstyle::Style;
use unicode_linebreak::linebreaks;

use crate::wrap::{is_one_word, pieces, usual_width};

/// The minimum number of columns of a part, however narrow the screen is.
const LEAST: usize = 12;

/// A line being written: its text, and the styles of its parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pub(super) text: String,
    styles: Vec<(Style, Range<usize>)>,
    /// The margin before the line.
    pub(super) margin: String,
}

impl Line {
    pub(super) fn push(&mut self, style: Style, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.styles.push((style, start..self.text.len()));
    }

    /// Appends another line.
    pub(super) fn append(&mut self, other: &Self) {
        let start = self.text.len();
        self.text.push_str(&other.text);
        let styles = other.styles.iter();
        let moved = styles.map(|(style, part)| (*style, part.start + start..part.end + start));
        self.styles.extend(moved);
    }

    /// Returns the number of columns of the text.
    pub(super) fn width(&self) -> usize {
        usual_width(&self.text)
    }

    /// Returns the number of columns of the longest word.
    pub(super) fn longest_word(&self) -> usize {
        let words = words(&self.text).into_iter();
        let words = words.filter_map(|word| self.text.get(word));
        let widths = words.map(|word| usual_width(word.trim_end()));
        widths.max().unwrap_or_default()
    }

    /// Returns the parts that fit this many columns, each with its number of columns.
    pub(super) fn parts(&self, columns: usize) -> Vec<(String, usize)> {
        let parts = parts(&self.text, columns, columns).into_iter();
        let part = |part: Range<usize>| {
            let width = self.text.get(part.clone()).map_or(0, usual_width);
            (self.styled(part), width)
        };
        parts.map(part).collect()
    }

    /// Wraps the line to at most this many columns; all lines except the first begin with `margin`.
    ///
    /// If the text is extended after a whole word, its beginning is wrapped in the same way.
    pub(super) fn broken(&self, columns: usize, margin: &str) -> String {
        let mut lines = Vec::new();
        let first = room(columns, &self.margin);
        for (place, part) in parts(&self.text, first, room(columns, margin))
            .into_iter()
            .enumerate()
        {
            let margin = if place == 0 { &self.margin } else { margin };
            lines.push(format!("{margin}{}", self.styled(part)));
        }
        lines.join("\n")
    }

    fn styled(&self, part: Range<usize>) -> String {
        let stretches = self.styles.iter().filter_map(|(style, stretch)| {
            let both = stretch.start.max(part.start)..stretch.end.min(part.end);
            let text = self.text.get(both).filter(|text| !text.is_empty())?;
            Some(format!("{style}{text}{style:#}"))
        });
        stretches.collect()
    }
}

fn room(columns: usize, margin: &str) -> usize {
    let margin = anstream::adapter::strip_str(margin).to_string();
    columns.saturating_sub(usual_width(&margin)).max(LEAST)
}

/// Returns the parts of a text that fit `first` columns and then `rest` columns, without the blanks between them.
fn parts(text: &str, first: usize, rest: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut used, mut room) = (0, 0, first);
    let mut end_of = |start: usize, end: usize| {
        let part = text.get(start..end).unwrap_or_default();
        parts.push(start..start + part.trim_end().len());
    };
    for word in words(text) {
        let begin = word.start;
        let word = text.get(word).unwrap_or_default();
        let width = usual_width(word.trim_end());
        if used > 0 && used + width > room {
            end_of(start, begin);
            (start, used, room) = (begin, 0, rest);
        }
        // An address is not broken here, so that it can be followed and copied: the terminal wraps it.
        if width > room && !word.contains("://") {
            let mut pieces = pieces(word, room).into_iter().peekable();
            while let Some(piece) = pieces.next() {
                if pieces.peek().is_some() {
                    end_of(start, start + piece.len());
                    start += piece.len();
                    room = rest;
                } else {
                    used = usual_width(piece);
                }
            }
        } else {
            used += usual_width(word);
        }
    }
    end_of(start, text.len());
    parts
}

/// Returns the words of a text, each with the blanks after it. Text written without blanks, such as Chinese, may also
/// be broken, but not an ASCII word, such as a path, or a Korean word.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = 0;
    for (place, _) in linebreaks(text) {
        let before = text.get(..place).and_then(|text| text.chars().next_back());
        let after = text.get(place..).and_then(|text| text.chars().next());
        let is_within = before.is_some_and(|letter| letter.is_ascii() && !letter.is_whitespace())
            && after.is_some_and(|letter| letter.is_ascii());
        let is_one_word = before
            .zip(after)
            .is_some_and(|(before, after)| is_one_word(before, after));
        if !is_within && !is_one_word && place > start {
            words.push(start..place);
            start = place;
        }
    }
    if start < text.len() {
        words.push(start..text.len());
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn broken(text: &str, columns: usize) -> Vec<String> {
        let mut line = Line::default();
        line.push(Style::new(), text);
        let lines = line.broken(columns, "  ");
        lines.split('\n').map(str::to_owned).collect()
    }

    #[test]
    fn a_line_is_wrapped_between_words_with_a_hanging_indent() {
        assert_eq!(
            broken("1. first item that is long", 14),
            ["1. first item", "  that is long"]
        );
        assert_eq!(
            broken("see src/some-file.rs", 18),
            ["see", "  src/some-file.rs"]
        );
        assert_eq!(broken("0123456789abcdef", 12), ["0123456789ab", "  cdef"]);
        assert_eq!(
            broken("at https://example.com/a/b-c?d=e now", 14),
            ["at", "  https://example.com/a/b-c?d=e", "  now"]
        );
        assert_eq!(broken("漢字漢字漢字漢字", 12), ["漢字漢字漢字", "  漢字"]);
        assert_eq!(
            broken("שלום עולם שלום עולם", 14),
            ["שלום עולם שלום", "  עולם"]
        );
        assert_eq!(
            broken("줄을 바꾸어야 합니다", 12),
            ["줄을", "  바꾸어야", "  합니다"]
        );
        // A font may join the first two letters; terminals give each its own column.
        assert_eq!(broken("لا لا لا لا لا", 12), ["لا لا لا لا", "  لا"]);
    }

    #[test]
    fn a_grapheme_of_several_characters_stays_whole() {
        let family = "👩\u{200d}👩\u{200d}👧";
        let text = family.repeat(20);
        assert!(broken(&text, 20).iter().all(|line| {
            let line = line.trim_start();
            !line.starts_with('\u{200d}') && !line.ends_with('\u{200d}')
        }));
    }

    proptest! {
        #[test]
        fn later_text_does_not_change_earlier_wrapped_lines(words in prop::collection::vec("[a-z]{1,20}|漢字|🦀|https://a\\.b/c", 1..20), columns in 12_usize..40) {
            let mut before = String::new();
            let mut text = String::new();
            for word in words {
                text.push_str(&word);
                let now = broken(&text, columns).join("\n");
                prop_assert!(now.starts_with(&before), "{before:?} {now:?}");
                before = now;
                text.push(' ');
            }
        }
    }
}
