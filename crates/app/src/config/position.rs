//! The positions of the keys in a TOML text.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// From 1.
    pub(super) line: usize,
    /// From 1, in characters.
    pub(super) column: usize,
}

/// Where a key and its value begin.
#[derive(Debug, Clone, Copy)]
struct KeyPosition {
    key: Position,
    value: Position,
}

/// The positions of all keys of a text, by the names on their paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Positions(BTreeMap<Vec<String>, KeyPosition>);

impl Positions {
    pub(super) fn of(text: &str, table: &DeTable<'_>) -> Self {
        let mut positions = Self::default();
        positions.add(&Lines::of(text), &mut Vec::new(), table);
        positions
    }

    /// Returns where a key is.
    pub(super) fn key(&self, names: &[String]) -> Option<Position> {
        self.0.get(names).map(|position| position.key)
    }

    /// Returns where a value is. For something without its own position, such as an entry of a list, returns that
    /// of its parent.
    pub(super) fn value(&self, names: &[String]) -> Option<Position> {
        let mut above = (1..=names.len()).rev().filter_map(|end| names.get(..end));
        above.find_map(|names| self.0.get(names).map(|position| position.value))
    }

    /// Makes a key available under other names.
    pub(super) fn rename(&mut self, from: &[String], to: &[String]) {
        if let Some(position) = self.0.remove(from) {
            self.0.insert(to.to_vec(), position);
        }
    }

    fn add(&mut self, lines: &Lines<'_>, names: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table {
            names.push(key.get_ref().clone().into_owned());
            if let DeValue::Table(inner) = value.get_ref() {
                self.add(lines, names, inner);
            }
            let position = KeyPosition {
                key: lines.position(key.span().start),
                value: lines.position(value.span().start),
            };
            self.0.insert(names.clone(), position);
            names.pop();
        }
    }
}

/// Returns where a span of a text starts.
pub(super) fn position_of(text: &str, span: Option<Range<usize>>) -> Position {
    Lines::of(text).position(span.map_or(0, |span| span.start))
}

/// A text and the positions at which its lines start.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(end, _)| end + 1);
        let starts = std::iter::once(0).chain(after_breaks).collect();
        Self { text, starts }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied();
        let before = self.text.get(start.unwrap_or_default()..offset);
        Position {
            line,
            column: before.unwrap_or_default().chars().count() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::names;
    use super::*;

    #[test]
    fn keys_and_values_are_found_by_line_and_column() {
        let text = "# ü\n[a.b]\nc = 1\nd = { e = 'é', ff = 2 }\n'x.y' = 3\n";
        let table = DeTable::parse(text).unwrap();
        let positions = Positions::of(text, table.get_ref());
        let position = |line, column| Some(Position { line, column });
        assert_eq!(positions.key(&names("a.b")), position(2, 4));
        assert_eq!(positions.key(&names("a.b.c")), position(3, 1));
        assert_eq!(positions.value(&names("a.b.c")), position(3, 5));
        assert_eq!(positions.key(&names("a.b.d.ff")), position(4, 16));
        assert_eq!(positions.value(&names("a.b.c.0")), position(3, 5));
        assert_eq!(positions.key(&names("a.b.'x.y'")), position(5, 1));
        assert_eq!(positions.key(&names("a.x")), None);
    }

    #[test]
    fn a_text_without_line_breaks_has_one_line() {
        assert_eq!(
            position_of("abc", Some(2..3)),
            Position { line: 1, column: 3 }
        );
        assert_eq!(position_of("", None), Position { line: 1, column: 1 });
    }
}
