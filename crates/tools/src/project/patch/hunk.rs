//! Where a hunk ends, and what its header should say. A model rarely counts well, or leaves the numbers out; the lines
//! themselves show what is meant.

use super::fit::NO_LINE;

pub(super) const NO_NEWLINE: &str = "\\ No newline at end of file";

/// The name that stands for no file.
pub(super) const NO_FILE: &str = "/dev/null";

/// The end of the first line of a mail that git writes.
const DATE_OF_GIT: &str = " Mon Sep 17 00:00:00 2001";

/// Reads the hunks of one file, one at a time.
#[derive(Debug, Default)]
pub(super) struct Hunks {
    /// The ranges of the last hunk.
    old: Range,
    new: Range,
}

/// A range of lines, before or after the change.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Range {
    start: usize,
    count: usize,
}

impl Range {
    const fn end(self) -> usize {
        self.start.saturating_add(self.count)
    }

    /// Returns where the range starts if it takes `many` lines. A range without lines names the line before it, so its
    /// stated count and `many` must agree on whether it has any.
    pub(super) fn start_for(self, many: usize) -> Option<usize> {
        ((self.count == 0) == (many == 0)).then_some(self.start)
    }
}

impl Hunks {
    /// Reads the hunk with the given header, and returns its lines from those after the header. If its counts are
    /// missing or wrong, it would end at any line without a sign: the error is the index of such a line.
    pub(super) fn read<'a>(
        &mut self,
        header: &str,
        behind: &'a [&'a str],
    ) -> Result<&'a [&'a str], usize> {
        let said = ranges(header);
        let many = said.and_then(|(old, new)| many_as_said(old.count, new.count, behind));
        let many = match many {
            Some(many) => many,
            None => many_until_next(behind)?,
        };
        let lines = behind.get(..many).unwrap_or_default();
        let count = |marks: [char; 3]| lines.iter().filter(|line| line.starts_with(marks)).count();
        let old = count([' ', '\n', '-']);
        let start = said.and_then(|(said, _)| said.start_for(old));
        let start = start.filter(|start| (self.old.end()..NO_LINE).contains(start));
        self.old = Range {
            start: start.unwrap_or_else(|| NO_LINE.max(self.old.end())),
            count: old,
        };
        self.new = Range {
            start: self.new.end(),
            count: count([' ', '\n', '+']),
        };
        Ok(lines)
    }

    /// Returns the corrected header of the last hunk. Nothing uses where the hunk is in the new file.
    pub(super) fn header(&self) -> String {
        let (old, new) = (self.old, self.new);
        format!(
            "@@ -{},{} +{},{} @@\n",
            old.start, old.count, new.start, new.count
        )
    }
}

/// Parses the ranges in a hunk header.
pub(super) fn ranges(header: &str) -> Option<(Range, Range)> {
    let (ranges, _) = header.strip_prefix("@@ ")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(' ')?;
    Some((
        range(old.strip_prefix('-')?)?,
        range(new.strip_prefix('+')?)?,
    ))
}

fn range(text: &str) -> Option<Range> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    Some(Range {
        start: start.parse().ok()?,
        count: count.parse().ok()?,
    })
}

/// Returns the number of lines of a hunk according to its counts, if the hunk can end after them.
fn many_as_said(mut old: usize, mut new: usize, lines: &[&str]) -> Option<usize> {
    let mut many = 0;
    for (at, line) in lines.iter().enumerate() {
        if (old, new) == (0, 0) && !line.starts_with(NO_NEWLINE) {
            break;
        }
        // Lines of the file, such as `-- a` and `++ b`, may look like this by chance, but rarely with the same name.
        let names = names(lines.get(at..)?);
        if names.is_some_and(|(from, to)| from == to || [from, to].contains(&NO_FILE)) {
            return None;
        }
        (old, new) = match line.chars().next()? {
            ' ' | '\n' => (old.checked_sub(1)?, new.checked_sub(1)?),
            '-' => (old.checked_sub(1)?, new),
            '+' => (old, new.checked_sub(1)?),
            _ if line.starts_with(NO_NEWLINE) => (old, new),
            _ => return None,
        };
        many = at + 1;
    }
    let behind = lines.get(many..)?;
    let empty = behind.iter().take_while(|line| line.trim().is_empty());
    let behind = behind.get(empty.count()..)?;
    let is_end = behind.first().is_none_or(|next| {
        !next.starts_with([' ', '+', '-'])
            || names(behind).is_some()
            || is_signature(next, behind.get(1).copied())
    });
    ((old, new) == (0, 0) && is_end).then_some(many)
}

/// Returns the number of lines of a hunk that extends until something else begins. The error is the index of a line
/// that is neither.
fn many_until_next(lines: &[&str]) -> Result<usize, usize> {
    let is_part = |at: &usize| {
        let rest = lines.get(*at..).unwrap_or_default();
        let line = rest.first().copied().unwrap_or_default();
        let is_line = line.starts_with([' ', '+', '-', '\n']) || line.starts_with(NO_NEWLINE);
        is_line && names(rest).is_none() && !is_signature(line, rest.get(1).copied())
    };
    let many = (0..lines.len()).take_while(is_part).count();
    let is_empty = |line: &&&str| line.trim().is_empty();
    let (part, behind) = lines.split_at_checked(many).unwrap_or_default();
    let empty = behind.iter().take_while(is_empty).count();
    if behind.get(empty).is_some_and(|line| is_without_sign(line)) {
        return Err(many + empty);
    }
    // Empty lines at the end separate the hunk from what comes next.
    let last = part.iter().rposition(|line| !line.starts_with('\n'));
    Ok(last.map_or(0, |last| last + 1))
}

/// Returns whether a line after a hunk may belong to it but lack its sign: it begins nothing else.
fn is_without_sign(line: &str) -> bool {
    let others = ["@@", "diff --git ", " ", "+", "-"];
    !others.iter().any(|other| line.starts_with(*other)) && !is_mail(line)
}

/// Returns the names in lines that begin another file: hunks come next, or the file is empty and deleted.
pub(super) fn names<'a>(lines: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let name = |at: usize, mark: &str| {
        let name = lines.get(at)?.strip_prefix(mark)?;
        let name = name.split('\t').next().unwrap_or(name).trim_end();
        let stripped = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/"));
        Some(stripped.unwrap_or(name))
    };
    let (old, new) = (name(0, "--- ")?, name(1, "+++ ")?);
    let has_hunk = lines.get(2).is_some_and(|line| line.starts_with("@@"));
    (has_hunk || new == NO_FILE).then_some((old, new))
}

/// Returns whether a line begins a mail that git writes.
pub(super) fn is_mail(line: &str) -> bool {
    line.starts_with("From ") && line.trim_end().ends_with(DATE_OF_GIT)
}

/// Returns whether a line begins the signature of a mail that git writes: git's version comes next.
pub(super) fn is_signature(line: &str, next: Option<&str>) -> bool {
    line.trim_end() == "--"
        && next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header of each hunk of a file, and its number of lines.
    fn read(patch: &str) -> Vec<(String, usize)> {
        let lines: Vec<&str> = patch.split_inclusive('\n').collect();
        let mut hunks = Hunks::default();
        let starts = (0..lines.len()).filter(|at| lines[*at].starts_with("@@"));
        starts
            .map(|at| {
                let many = hunks.read(lines[at], &lines[at + 1..]).unwrap().len();
                (hunks.header(), many)
            })
            .collect()
    }

    #[test]
    fn correct_counts_determine_the_hunk_whatever_its_lines_look_like() {
        let sql = "@@ -4,2 +4,2 @@\n--- a\n+++ b\n x\n\n@@ -9 +9 @@\n-x\n+y\n\\ No newline at end of file\n--- a/b\n+++ /dev/null\n";
        let expected = [("@@ -4,2 +0,2 @@\n", 3), ("@@ -9,1 +2,1 @@\n", 3)];
        assert_eq!(
            read(sql),
            expected.map(|(head, many)| (head.to_owned(), many))
        );
        let last = "@@ -4,2 +4,2 @@\n x\n--- a\n+++ b\n@@ -9 +9 @@\n-x\n+y\n";
        assert_eq!(read(last)[0], ("@@ -4,2 +0,2 @@\n".to_owned(), 3));
    }

    #[test]
    fn incorrect_counts_are_recomputed_from_the_lines() {
        for (patch, expected) in [
            ("@@ -3,9 +3 @@ fn f() {\n a\n-b\n+c\n", "@@ -3,2 +0,2 @@\n"),
            ("@@ -3 +3 @@\n a\n-b\n\n d\n\n", "@@ -3,4 +0,3 @@\n"),
            (
                "@@ -3,3 +3,3 @@\n-b\n+c\n--- a/x\n+++ b/x\n@@ ",
                "@@ -3,1 +0,1 @@\n",
            ),
            ("@@ -3 +3,2 @@\n-b\n+c\n-- \n2.43.0\n", "@@ -3,1 +0,1 @@\n"),
            (
                "@@ -3,2 +3,2 @@\n-b\n+c\n--- a/x\n+++ b/x\n@@ ",
                "@@ -3,1 +0,1 @@\n",
            ),
            (
                "@@ -3,2 +3 @@\n-b\n+c\n--- a/x\n+++ /dev/null\n",
                "@@ -3,1 +0,1 @@\n",
            ),
            (
                "@@ -3 +3 @@\n-b\n+c\n--- said of d\n-d\n",
                "@@ -3,3 +0,1 @@\n",
            ),
            (
                "@@ -3,0 +3 @@\n+a\n+b\ndiff --git a/x b/x\n",
                "@@ -3,0 +0,2 @@\n",
            ),
        ] {
            assert_eq!(read(patch)[0].0, expected, "{patch:?}");
        }
    }

    #[test]
    fn a_line_without_a_sign_ends_a_hunk_only_if_the_counts_are_right() {
        for (lines, expected) in [
            (["@@ -1 +1,2 @@", " a", "+b", "c"], Ok(2)),
            (["@@ -1 +1,3 @@", " a", "+b", "c"], Err(2)),
            (["@@ -1 +1,4 @@", "+b", "", "c"], Err(2)),
            (["@@", " a", "From c", "+d"], Err(1)),
            (
                ["@@", "+b", "From 1f Mon Sep 17 00:00:00 2001", "+d"],
                Ok(1),
            ),
        ] {
            let lines = lines.map(|line| format!("{line}\n"));
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let read = Hunks::default().read(lines[0], &lines[1..]);
            assert_eq!(read.map(<[_]>::len), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_hunk_without_a_line_number_comes_after_all_that_have_one() {
        let patch = "@@ -5,2 +5,2 @@\n a\n-b\n-c\n@@ -6 +6 @@\n-d\n@@\n-e\n@@ -9,2 +9,2 @@\n+f\n";
        let starts: Vec<usize> = read(patch)
            .iter()
            .map(|(header, _)| ranges(header).unwrap().0.start)
            .collect();
        assert_eq!(starts, [5, NO_LINE, NO_LINE + 1, NO_LINE + 2]);
    }
}
