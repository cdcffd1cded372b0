//! Where the keys of a policy are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

/// A place in a file, or in another source of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The path of the file, or the name of the other source.
    pub source: Arc<str>,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
}

/// Where keys are written, by their dotted paths. Not part of the policy's meaning, so all values compare equal.
#[derive(Debug, Clone, Default)]
pub struct Origins(BTreeMap<String, SourceLine>);

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origins {
    /// Records where a key is written.
    pub fn add(&mut self, key: impl Into<String>, place: SourceLine) {
        self.0.insert(key.into(), place);
    }

    /// Returns where a key is written, or else where the nearest table around it is.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<&SourceLine> {
        let paths = std::iter::successors(Some(key), |path| {
            path.rsplit_once('.').map(|(above, _)| above)
        });
        // An entry of a list has no place of its own.
        let mut paths = paths.map(|path| path.split('[').next().unwrap_or(path));
        paths.find_map(|path| self.0.get(path))
    }

    /// Returns where exactly this key is written.
    pub(crate) fn exactly(&self, key: &str) -> Option<&SourceLine> {
        self.0.get(key)
    }

    pub(crate) fn over(mut self, base: Self) -> Self {
        for (key, place) in base.0 {
            self.0.entry(key).or_insert(place);
        }
        self
    }

    /// Finds the keys of a text; none if it is not TOML.
    pub(crate) fn of_text(source: &str, text: &str) -> Self {
        let mut origins = Self::default();
        if let Ok(table) = DeTable::parse(text) {
            let breaks = text.match_indices('\n').map(|(at, _)| at).collect();
            let lines = Lines {
                source: source.into(),
                breaks,
            };
            origins.add_table(&lines, "", table.get_ref());
        }
        origins
    }

    fn add_table(&mut self, lines: &Lines, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = format!("{prefix}{}", key.get_ref());
            if let DeValue::Table(inner) = value.get_ref() {
                self.add_table(lines, &format!("{path}."), inner);
            }
            self.add(path, lines.place(key.span().start));
        }
    }
}

struct Lines {
    source: Arc<str>,
    breaks: Vec<usize>,
}

impl Lines {
    fn place(&self, offset: usize) -> SourceLine {
        let before = self.breaks.partition_point(|at| *at < offset);
        SourceLine {
            source: Arc::clone(&self.source),
            line: u32::try_from(before + 1).unwrap_or(u32::MAX),
        }
    }
}
