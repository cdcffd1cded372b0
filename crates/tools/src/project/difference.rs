//! What a call changed in a file, for the people who watch: it stands in the metadata of the result.

use diffy::{Line, PatchFormatter, create_patch};
use serde::Serialize;

/// How many bytes of a diff are kept. Beyond them only the numbers are.
const MAX_DIFF_BYTES: usize = 16 * 1024;

/// A change of one file.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    added_lines: usize,
    removed_lines: usize,
    /// A unified diff; none if it is longer than 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Difference {
    /// The most bytes of a text, before or after, that is compared: comparing larger ones takes too long.
    pub(super) const MAX_COMPARED: u64 = 256 * 1024;

    /// Compares two texts; nothing if one is too long.
    pub(super) fn between(before: &str, after: &str) -> Option<Self> {
        if before.len().max(after.len()) as u64 > Self::MAX_COMPARED {
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
}
