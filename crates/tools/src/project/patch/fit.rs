//! Fits hunks to a file, or explains which hunk does not fit and what the file has there instead.

use std::borrow::Cow;
use std::io::Cursor;

use diffy::{Hunk, Line, Patch};
use serde::Serialize;

use crate::blocking::Stop;
use crate::project::content::{self, BYTE_ORDER_MARK, Content};
use crate::project::failure::FileError;
use crate::summary::{MAX_QUOTED_CHARS, count, enumerate};

/// The maximum number of line comparisons for one file: less than a second of work.
pub(super) const MAX_COMPARISONS: usize = 100_000_000;

/// The maximum number of lines of the file that an error shows.
const MAX_SHOWN_LINES: usize = 8;

/// The maximum number of matching places that an error names.
const MAX_NAMED_PLACES: usize = 8;

/// A line number from here on means that the hunk has no line of its own: it gave none that is possible.
pub(super) const NO_LINE: usize = usize::MAX / 2;

/// The result of applying hunks to a file.
#[derive(Debug)]
pub(super) struct Patched {
    pub(super) content: Vec<u8>,
    pub(super) moved: Vec<MovedHunk>,
    /// The header of each hunk, with its actual line numbers.
    pub(super) headers: Vec<String>,
}

/// A hunk that fits at another line than the one it states.
#[derive(Debug, Clone, Serialize)]
pub(super) struct MovedHunk {
    /// Its number among the file's hunks, from 1.
    hunk: usize,
    /// The line at which it begins in the new file.
    line: usize,
}

/// Applies the hunks to the content of a file.
pub(super) fn patched(
    content: &[u8],
    patch: &Patch<'_, str>,
    path: &str,
    stop: &Stop,
) -> Result<Patched, FileError> {
    let text = text_of(content, path)?;
    let (mark, text) = without_mark(text, patch);
    let file: Vec<&str> = text.split_inclusive('\n').collect();
    let old_lines = |hunk: &Hunk<'_, str>| old(hunk).count().max(1);
    let wanted: usize = patch.hunks().iter().map(old_lines).sum();
    if wanted.saturating_mul(file.len()) > MAX_COMPARISONS {
        return Err(FileError::TooBig {
            what: format!("there is too much to compare in {path:?}; apply the patch in parts"),
        });
    }
    stop.check()?;
    let mut patched = in_place(&file, patch).map_err(|why| FileError::HunkMisfit {
        path: path.to_owned(),
        why,
    })?;
    if !patched.content.is_empty() {
        patched.content.splice(0..0, mark.bytes());
    }
    Ok(patched)
}

/// Returns the content of a file if it is UTF-8 text.
pub(super) fn text_of<'a>(content: &'a [u8], path: &str) -> Result<&'a str, FileError> {
    if let Ok(text) = std::str::from_utf8(content) {
        return Ok(text);
    }
    let recognized = content::examine(&mut Cursor::new(content));
    if recognized.is_ok_and(|content| content == Content::Utf16) {
        return Err(FileError::Utf16 {
            path: path.to_owned(),
        });
    }
    Err(FileError::InvalidPatch {
        why: format!(
            "{path:?} is not UTF-8 text, so it cannot be patched; change it with a program"
        ),
    })
}

/// Splits off the byte order mark, which patches rarely include, unless the patch refers to it.
fn without_mark<'a>(text: &'a str, patch: &Patch<'_, str>) -> (&'a str, &'a str) {
    let mut lines = patch.hunks().iter().flat_map(Hunk::lines);
    let is_meant = lines.any(|line| {
        let (Line::Context(text) | Line::Delete(text) | Line::Insert(text)) = line;
        text.starts_with(BYTE_ORDER_MARK)
    });
    let marked = text.starts_with(BYTE_ORDER_MARK) && !is_meant;
    let at = if marked { BYTE_ORDER_MARK.len() } else { 0 };
    text.split_at_checked(at).unwrap_or(("", text))
}

/// Applies all hunks at their places, one after the other.
fn in_place<'a>(file: &[&'a str], patch: &'a Patch<'_, str>) -> Result<Patched, String> {
    let all = patch.hunks().len();
    let mut lines: Vec<Cow<'a, str>> = Vec::with_capacity(file.len());
    let (mut moved, mut headers) = (Vec::new(), Vec::new());
    // The first line after the previous hunk, where that hunk is, and where it claims to be.
    let (mut next, mut before, mut before_claimed) = (0, 0, 0);
    let mut stays_open = false;
    for (number, hunk) in (1..).zip(patch.hunks()) {
        let wanted: Vec<&str> = old(hunk).collect();
        let claimed = claimed_start(hunk);
        // Whatever displaced the previous hunk displaces this one as well.
        let expected =
            claimed.map(|line| line.saturating_add(before).saturating_sub(before_claimed));
        let start = find(file, &wanted, next, expected).map_err(|why| {
            let range = claimed.map(|_| format!(" -{}", hunk.old_range()));
            let range = range.unwrap_or_default();
            format!("hunk {number} of {all} (@@{range} @@) {why}")
        })?;
        let unchanged = file.get(next..start).unwrap_or_default();
        lines.extend(unchanged.iter().copied().map(Cow::Borrowed));
        if claimed.is_some_and(|line| line != start) {
            let line = lines.len() + 1;
            moved.push(MovedHunk { hunk: number, line });
        }
        let new = new(hunk, file, start);
        let [old_range, new_range] =
            [(start, wanted.len()), (lines.len(), new.len())].map(|(at, many)| range(at, many));
        headers.push(format!("@@ -{old_range} +{new_range} @@\n"));
        lines.extend(new);
        next = start + wanted.len();
        stays_open = next == file.len() && replaces_open_line(hunk, file);
        (before, before_claimed) = (start, claimed.unwrap_or(start));
    }
    let unchanged = file.get(next..).unwrap_or_default();
    lines.extend(unchanged.iter().copied().map(Cow::Borrowed));
    if let Some(last) = lines.last_mut().filter(|_| stays_open) {
        *last = Cow::Owned(without_end(last).to_owned());
    }
    end_each(&mut lines, file)?;
    let content: String = lines.into_iter().collect();
    Ok(Patched {
        content: content.into_bytes(),
        moved,
        headers,
    })
}

/// Formats a line range as in a hunk header, given the number of lines before it.
fn range(before: usize, many: usize) -> String {
    match many {
        // An empty range is named by the line before it.
        0 => format!("{before},0"),
        1 => (before + 1).to_string(),
        _ => format!("{},{many}", before + 1),
    }
}

/// Ensures that no line is joined with the next: a line that used to be the last of the file gets a line ending.
fn end_each(lines: &mut [Cow<'_, str>], file: &[&str]) -> Result<(), String> {
    let followed = lines.iter_mut().rev().skip(1);
    for line in followed.filter(|line| !line.ends_with('\n')) {
        if file.last().copied() != Some(&**line) {
            return Err(format!(
                "the line {} has no newline at its end and would join the next one; remove it and add it again with a \
                 newline",
                quoted(line)
            ));
        }
        let end = end_around(file, file.len(), 0).unwrap_or("\n");
        line.to_mut().push_str(end);
    }
    Ok(())
}

/// Returns the line at which a hunk claims to begin, from 0.
fn claimed_start(hunk: &Hunk<'_, str>) -> Option<usize> {
    let range = hunk.old_range();
    let start = Some(range.start()).filter(|start| *start < NO_LINE)?;
    // A hunk that takes no lines names the line before it.
    Some(if range.is_empty() {
        start
    } else {
        start.saturating_sub(1)
    })
}

/// Returns the line at which some lines occur, from 0. If they don't occur exactly, line endings are ignored.
fn find(
    file: &[&str],
    wanted: &[&str],
    next: usize,
    expected: Option<usize>,
) -> Result<usize, String> {
    let as_they_are = |is: &str, should: &str| is == should;
    let start = match place(file, wanted, next, expected, as_they_are)? {
        Some(start) => Some(start),
        None => place(file, wanted, next, expected, is_same)?,
    };
    start.ok_or_else(|| misfit(file, wanted, expected.unwrap_or(next)))
}

/// Returns the line at which some lines occur: the expected one, or else the only one after the previous hunk. If no
/// line is expected, it must be the only one in the file.
fn place(
    file: &[&str],
    wanted: &[&str],
    next: usize,
    expected: Option<usize>,
    is_same: fn(&str, &str) -> bool,
) -> Result<Option<usize>, String> {
    let fits = |start: &usize| {
        let here = file.get(*start..).and_then(|here| here.get(..wanted.len()));
        here.is_some_and(|here| {
            let mut both = here.iter().zip(wanted);
            both.all(|(is, should)| is_same(is, should))
        })
    };
    if let Some(start) = expected.filter(|start| *start >= next && fits(start)) {
        return Ok(Some(start));
    }
    let first = if expected.is_some() { next } else { 0 };
    let mut places = (first..=file.len()).filter(fits);
    match (places.next(), places.next()) {
        (only, None) => Ok(only.filter(|start| *start >= next)),
        (_, Some(_)) if wanted.is_empty() => Err(format!(
            "only adds lines, and its line number is not in the file, which has {}, or is before another hunk; give the \
             right line number, or lines around what it adds",
            count(file.len() as u64, "line", "lines")
        )),
        (first, Some(second)) => {
            let all = first.into_iter().chain([second]).chain(places);
            Err(format!(
                "fits in more than one place, and not at its own line number: at lines {}; give the right line number, \
                 or more lines around the change",
                lines_at(all)
            ))
        }
    }
}

/// Formats the line numbers for these indexes; if there are many, only the first.
pub(super) fn lines_at(mut places: impl Iterator<Item = usize>) -> String {
    let named: Vec<usize> = places.by_ref().take(MAX_NAMED_PLACES).collect();
    let total = (named.len() + places.count()) as u64;
    enumerate(named.iter().map(|start| (start + 1).to_string()), total)
}

/// Returns whether a line of the file equals one of a patch, apart from line endings: a model rarely writes `\r`, or
/// that the last line has no newline.
fn is_same(is: &str, should: &str) -> bool {
    // A line without a newline can only be the last line.
    let may_be_last = should.ends_with('\n') || !is.ends_with('\n');
    may_be_last && without_end(is) == without_end(should)
}

fn without_end(line: &str) -> &str {
    let text = line.strip_suffix('\n').unwrap_or(line);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Returns the lines that a hunk expects in the file.
fn old<'a>(hunk: &Hunk<'a, str>) -> impl Iterator<Item = &'a str> {
    hunk.lines().iter().filter_map(|line| match line {
        Line::Context(text) | Line::Delete(text) => Some(*text),
        Line::Insert(_) => None,
    })
}

/// Returns the lines that a hunk leaves in its place: the file's own lines, with the added lines among them. Added
/// lines get the line endings of the lines around them, unless the hunk matches those exactly.
fn new<'a>(hunk: &'a Hunk<'_, str>, file: &[&'a str], start: usize) -> Vec<Cow<'a, str>> {
    let wanted: Vec<&str> = old(hunk).collect();
    let here = file.get(start..).unwrap_or_default();
    let is_as_written = here.starts_with(&wanted) && wanted.iter().any(|line| line.ends_with('\n'));
    let end = end_around(file, start, wanted.len()).filter(|_| !is_as_written);
    let mut here = here.iter().copied();
    let left = hunk.lines().iter().filter_map(|line| match line {
        Line::Context(_) => here.next().map(Cow::Borrowed),
        Line::Delete(_) => {
            here.next();
            None
        }
        Line::Insert(text) => Some(with_end(text, end)),
    });
    left.collect()
}

/// Returns whether a hunk that reaches the end of a file replaces the file's last line, which has no newline, without
/// stating that it has none. A model rarely states it, and users would not be shown that a newline is added.
fn replaces_open_line(hunk: &Hunk<'_, str>, file: &[&str]) -> bool {
    let is_open = file.last().is_some_and(|line| !line.ends_with('\n'));
    let mut lines = hunk.lines().iter().rev();
    let old = lines.find(|line| !matches!(line, Line::Insert(_)));
    let mut lines = hunk.lines().iter().rev();
    let new = lines.find(|line| !matches!(line, Line::Delete(_)));
    let goes = matches!(old, Some(Line::Delete(text)) if text.ends_with('\n'));
    is_open && goes && matches!(new, Some(Line::Insert(_)))
}

/// Returns the line ending of some lines of a file, or else of the lines next to them.
fn end_around(file: &[&str], start: usize, many: usize) -> Option<&'static str> {
    let (before, behind) = file.split_at_checked(start)?;
    let around = behind.iter().take(many).chain(before.iter().rev());
    let mut ended = around
        .chain(behind.iter().skip(many))
        .filter(|line| line.ends_with('\n'));
    let is_dos = ended.next()?.ends_with("\r\n");
    Some(if is_dos { "\r\n" } else { "\n" })
}

/// Replaces the line ending of a line, if it has one.
fn with_end<'a>(line: &'a str, end: Option<&str>) -> Cow<'a, str> {
    match end {
        Some(end) if line.ends_with('\n') => Cow::Owned(format!("{}{end}", without_end(line))),
        _ => Cow::Borrowed(line),
    }
}

/// Explains why lines do not fit anywhere, and shows the most similar place.
fn misfit(file: &[&str], wanted: &[&str], expected: usize) -> String {
    let place = nearest(file, wanted, expected);
    match place.equal {
        0 => "does not fit: none of its lines is in the file; read the file again".to_owned(),
        equal if equal == wanted.len() => format!(
            "does not fit: its lines begin at line {}, which an earlier hunk has used or passed; put the hunks in the \
             order of the file, and combine those that overlap",
            place.start + 1
        ),
        _ => format!("does not fit. {}", difference(file, wanted, place.start)),
    }
}

/// The place in a file that is most similar to some lines.
struct Resemblance {
    /// The index of its first line.
    start: usize,
    /// The number of lines that are equal there.
    equal: usize,
}

/// Finds the place with the most equal lines; of several, the one closest to the expected line.
fn nearest(file: &[&str], wanted: &[&str], expected: usize) -> Resemblance {
    let mut best = Resemblance { start: 0, equal: 0 };
    for start in 0..file.len() {
        let here = file.get(start..).unwrap_or_default();
        let equal = here
            .iter()
            .zip(wanted)
            .filter(|(is, should)| is_same(is, should));
        let equal = equal.count();
        let nearer = start.abs_diff(expected) < best.start.abs_diff(expected);
        if equal > best.equal || (equal == best.equal && equal > 0 && nearer) {
            best = Resemblance { start, equal };
        }
    }
    best
}

/// Explains where the lines differ from the file's, and shows what the file has.
fn difference(file: &[&str], wanted: &[&str], start: usize) -> String {
    let here = file.get(start..).unwrap_or_default();
    let differs = (0..wanted.len()).find(|&at| {
        let both = here.get(at).zip(wanted.get(at));
        both.is_none_or(|(is, should)| !is_same(is, should))
    });
    let at = differs.unwrap_or_default();
    let should = wanted.get(at).map(|line| quoted(line)).unwrap_or_default();
    let is = here.get(at).map_or_else(
        || "the file ends".to_owned(),
        |line| format!("the file has {}", quoted(line)),
    );
    let shown = here.iter().take(wanted.len().min(MAX_SHOWN_LINES));
    let shown: String = (start + 1..)
        .zip(shown)
        .map(|(number, line)| format!("\n{number}: {}", as_is(line)))
        .collect();
    format!(
        "The closest match begins at line {}, but where the hunk expects {should}, in line {}, {is}. The file there:{shown}",
        start + 1,
        start + at + 1,
    )
}

/// Quotes a line so that invisible characters show, such as trailing spaces.
pub(super) fn quoted(line: &str) -> String {
    let mut text: String = line.chars().take(MAX_QUOTED_CHARS).collect();
    if line.chars().nth(MAX_QUOTED_CHARS).is_some() {
        text.push('…');
    }
    format!("{text:?}")
}

/// Formats a line with its spaces and tabs, which a patch must match.
fn as_is(line: &str) -> String {
    let line = without_end(line);
    let mut text: String = line
        .chars()
        .take(MAX_QUOTED_CHARS)
        .map(|c| if c.is_control() && c != '\t' { ' ' } else { c })
        .collect();
    if line.chars().nth(MAX_QUOTED_CHARS).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_with_its_spaces_and_tabs() {
        assert_eq!(as_is("\t\tlet x\t= 1; \r\n"), "\t\tlet x\t= 1; ");
        assert_eq!(as_is("\u{1b}[2J"), " [2J");
        assert_eq!(as_is(&"x".repeat(201)), format!("{}…", "x".repeat(200)));
    }

    #[test]
    fn the_line_ending_is_taken_from_surrounding_lines() {
        let file = ["a\r\n", "b\n", "c"];
        assert_eq!(end_around(&file, 0, 1), Some("\r\n"));
        assert_eq!(end_around(&file, 1, 0), Some("\r\n"));
        assert_eq!(end_around(&file, 2, 1), Some("\n"));
        assert_eq!(end_around(&[], 0, 0), None);
    }
}
