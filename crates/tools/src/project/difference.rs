//! What a call changed in a file, for users who watch: part of the result's metadata.

use std::collections::VecDeque;

use diffy::{Line, PatchFormatter, create_patch};
use serde::Serialize;

/// The maximum size of a diff that is kept, in bytes. For a longer one, only the numbers of lines are kept.
pub(super) const MAX_DIFF_BYTES: usize = 16 * 1024;

/// The maximum number of lines, before and after together, that are compared: comparing takes quadratic time.
const MAX_COMPARED_LINES: usize = 20_000;

/// A change of one file.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    added_lines: usize,
    removed_lines: usize,
    /// A unified diff; missing if it is longer than 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Difference {
    /// The maximum size in bytes of a text, before or after, that is compared: comparing larger ones takes too long.
    pub(super) const MAX_COMPARED: u64 = 256 * 1024;

    /// Compares two texts. Returns `None` if that would take too long.
    pub(super) fn between(before: &str, after: &str) -> Option<Self> {
        if before.len().max(after.len()) as u64 > Self::MAX_COMPARED {
            return None;
        }
        let (old, new) = lines_between(before, after);
        // Lines that were only added, or only removed, need no comparison.
        if old > 0 && new > 0 && old + new > MAX_COMPARED_LINES {
            return None;
        }
        let patch = create_patch(before, after);
        let lines = || patch.hunks().iter().flat_map(diffy::Hunk::lines);
        let is_added = |line: &&Line<'_, str>| matches!(line, Line::Insert(_));
        let is_removed = |line: &&Line<'_, str>| matches!(line, Line::Delete(_));
        let diff = PatchFormatter::new().fmt_patch(&patch).to_string();
        Some(Self {
            added_lines: lines().filter(is_added).count(),
            removed_lines: lines().filter(is_removed).count(),
            diff: (diff.len() <= MAX_DIFF_BYTES).then_some(diff),
        })
    }
}

/// Returns how many lines each text has between their common beginning and their common end.
fn lines_between(before: &str, after: &str) -> (usize, usize) {
    let [mut old, mut new] =
        [before, after].map(|text| text.split_inclusive('\n').collect::<VecDeque<_>>());
    while !old.is_empty() && old.front() == new.front() {
        old.pop_front();
        new.pop_front();
    }
    while !old.is_empty() && old.back() == new.back() {
        old.pop_back();
        new.pop_back();
    }
    (old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_counted_and_shown_and_a_long_one_only_counted() {
        let change = Difference::between("one\ntwo\n", "one\n2\n3\n").unwrap();
        assert_eq!((change.added_lines, change.removed_lines), (2, 1));
        assert!(change.diff.unwrap().contains("-two\n+2\n+3\n"));
        let long = "line\n".repeat(10_000);
        let change = Difference::between("", &long).unwrap();
        assert_eq!((change.added_lines, change.diff), (10_000, None));
        assert!(Difference::between("", &"x".repeat(300_000)).is_none());
    }

    #[test]
    fn overly_expensive_differences_are_skipped_and_small_changes_of_long_texts_are_not() {
        let lines = |from: u32| -> String {
            let lines = from..from + 16_000;
            lines.map(|line| format!("{line}\n")).collect()
        };
        assert!(Difference::between(&lines(0), &lines(20_000)).is_none());
        assert!(Difference::between("x\n", &"y\n".repeat(100_000)).is_none());
        let change = Difference::between(&lines(0), &lines(0).replace("\n8000\n", "\n8\n9\n"));
        let change = change.unwrap();
        assert_eq!((change.added_lines, change.removed_lines), (2, 1));
        assert!(change.diff.unwrap().contains("-8000\n+8\n+9\n"));
    }
}
