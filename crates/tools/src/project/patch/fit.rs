//! Puts hunks in place, or says which one does not fit and what stands there instead.

use diffy::{Hunk, Line, Patch};
use serde::Serialize;

use crate::blocking::Stop;
use crate::project::failure::FileError;
use crate::summary::{MAX_QUOTED_CHARS, count, enumerate, one_line};

/// The most comparisons of lines that one file may cost: less than a second of work.
const MAX_COMPARISONS: usize = 100_000_000;

/// The most lines of the file that an error shows.
const MAX_SHOWN_LINES: usize = 8;

/// How many places an error names of those where a hunk fits.
const MAX_NAMED_PLACES: usize = 8;

/// What hunks make of a file.
#[derive(Debug)]
pub(super) struct Patched {
    pub(super) content: Vec<u8>,
    pub(super) moved: Vec<Moved>,
}

/// A hunk that fits at another line than its own.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Moved {
    /// Its number in the changes of the file, from 1.
    hunk: usize,
    /// The line at which it begins in the file as it is now.
    line: usize,
}

/// Applies the hunks to the content of a file.
pub(super) fn patched(
    content: &[u8],
    patch: &Patch<'_, str>,
    path: &str,
    stop: &Stop,
) -> Result<Patched, FileError> {
    let Ok(text) = std::str::from_utf8(content) else {
        return Err(FileError::InvalidPatch {
            why: format!("{path:?} is no UTF-8 text, so that it cannot be patched"),
        });
    };
    let file: Vec<&str> = text.split_inclusive('\n').collect();
    let old_lines = |hunk: &Hunk<'_, str>| old(hunk).count().max(1);
    let wanted: usize = patch.hunks().iter().map(old_lines).sum();
    if wanted.saturating_mul(file.len()) > MAX_COMPARISONS {
        return Err(FileError::TooBig {
            what: format!("there is too much to compare in {path:?}; apply the patch in parts"),
        });
    }
    stop.check()?;
    in_place(&file, patch).map_err(|why| FileError::HunkMisfit {
        path: path.to_owned(),
        why,
    })
}

/// Puts all hunks in their places, one behind the other.
fn in_place(file: &[&str], patch: &Patch<'_, str>) -> Result<Patched, String> {
    let all = patch.hunks().len();
    let mut lines: Vec<&str> = Vec::with_capacity(file.len());
    let mut moved = Vec::new();
    // The first line behind the hunk before, where that stands, and where it says it does.
    let (mut next, mut before, mut before_said) = (0, 0, 0);
    for (number, hunk) in (1..).zip(patch.hunks()) {
        let wanted: Vec<&str> = old(hunk).collect();
        let said = said(hunk);
        // What moved the hunk before moves this one as well.
        let expected = said.saturating_add(before).saturating_sub(before_said);
        let start = find(file, &wanted, next, expected)
            .map_err(|why| format!("hunk {number} of {all} (@@ -{} @@) {why}", hunk.old_range()))?;
        lines.extend(file.get(next..start).unwrap_or_default());
        if start != said {
            let line = lines.len() + 1;
            moved.push(Moved { hunk: number, line });
        }
        lines.extend(new(hunk));
        next = start + wanted.len();
        (before, before_said) = (start, said);
    }
    lines.extend(file.get(next..).unwrap_or_default());
    let mut followed = lines.iter().rev().skip(1);
    if let Some(line) = followed.find(|line| !line.ends_with('\n')) {
        return Err(format!(
            "the line {} has no newline at its end and would become one with the next; remove it and add it again with a \
             newline",
            quoted(line)
        ));
    }
    let content = lines.concat().into_bytes();
    Ok(Patched { content, moved })
}

/// Returns the line at which a hunk says that it begins, from 0.
fn said(hunk: &Hunk<'_, str>) -> usize {
    let range = hunk.old_range();
    // One that takes no line names the line before it.
    if range.is_empty() {
        range.start()
    } else {
        range.start().saturating_sub(1)
    }
}

/// Returns the line at which some lines stand, from 0: the expected one, or else the only one behind the hunk before.
fn find(file: &[&str], wanted: &[&str], next: usize, expected: usize) -> Result<usize, String> {
    let fits = |start: &usize| {
        let here = file.get(*start..);
        here.is_some_and(|here| here.starts_with(wanted))
    };
    if expected >= next && fits(&expected) {
        return Ok(expected);
    }
    let mut places = (next..=file.len()).filter(fits);
    match (places.next(), places.next()) {
        (None, _) => Err(misfit(file, wanted, expected)),
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) if wanted.is_empty() => Err(format!(
            "only adds lines, and its own line is not in the file, which has {}, or lies before another hunk; give it the \
             right line, or lines around what it adds",
            count(file.len() as u64, "line", "lines")
        )),
        (Some(first), Some(second)) => {
            let others = places.by_ref().take(MAX_NAMED_PLACES - 2);
            let named: Vec<usize> = [first, second].into_iter().chain(others).collect();
            let total = (named.len() + places.count()) as u64;
            Err(format!(
                "fits in more than one place, and not at its own line: at the lines {}; give it the right line, or more \
                 lines around the change",
                enumerate(named.iter().map(|start| (start + 1).to_string()), total)
            ))
        }
    }
}

/// Returns the lines that a hunk expects in the file.
fn old<'a>(hunk: &Hunk<'a, str>) -> impl Iterator<Item = &'a str> {
    hunk.lines().iter().filter_map(|line| match line {
        Line::Context(text) | Line::Delete(text) => Some(*text),
        Line::Insert(_) => None,
    })
}

/// Returns the lines that a hunk leaves in the file.
fn new<'a>(hunk: &Hunk<'a, str>) -> impl Iterator<Item = &'a str> {
    hunk.lines().iter().filter_map(|line| match line {
        Line::Context(text) | Line::Insert(text) => Some(*text),
        Line::Delete(_) => None,
    })
}

/// Says why lines do not fit anywhere, and what the place that resembles them most looks like.
fn misfit(file: &[&str], wanted: &[&str], expected: usize) -> String {
    let place = nearest(file, wanted, expected);
    match place.equal {
        0 => "does not fit: none of its lines is in the file; read the file again".to_owned(),
        equal if equal == wanted.len() => format!(
            "does not fit: its lines are in line {}, which an earlier hunk has taken or left behind; put the hunks in the \
             order of the file, and what overlaps into one",
            place.start + 1
        ),
        _ => format!("does not fit. {}", difference(file, wanted, place.start)),
    }
}

/// The place in a file that resembles some lines most.
struct Resemblance {
    /// The index of its first line.
    start: usize,
    /// How many of the lines are the same there.
    equal: usize,
}

/// Finds the place with the most equal lines; of several, the one nearest to where the lines were expected.
fn nearest(file: &[&str], wanted: &[&str], expected: usize) -> Resemblance {
    let mut best = Resemblance { start: 0, equal: 0 };
    for start in 0..file.len() {
        let here = file.get(start..).unwrap_or_default();
        let equal = here.iter().zip(wanted).filter(|(is, should)| is == should);
        let equal = equal.count();
        let nearer = start.abs_diff(expected) < best.start.abs_diff(expected);
        if equal > best.equal || (equal == best.equal && equal > 0 && nearer) {
            best = Resemblance { start, equal };
        }
    }
    best
}

/// Says where the lines differ from those of the file, and shows what is there.
fn difference(file: &[&str], wanted: &[&str], start: usize) -> String {
    let here = file.get(start..).unwrap_or_default();
    let differs = (0..wanted.len()).find(|&at| here.get(at) != wanted.get(at));
    let at = differs.unwrap_or_default();
    let should = wanted.get(at).map(|line| quoted(line)).unwrap_or_default();
    let is = here.get(at).map_or_else(
        || "the file ends".to_owned(),
        |line| format!("the file has {}", quoted(line)),
    );
    let shown = here.iter().take(wanted.len().min(MAX_SHOWN_LINES));
    let shown: String = (start + 1..)
        .zip(shown)
        .map(|(number, line)| format!("\n{number}: {}", one_line_as_is(line)))
        .collect();
    format!(
        "It resembles line {} most, but where it expects {should}, in line {}, {is}. There:{shown}",
        start + 1,
        start + at + 1,
    )
}

/// Quotes a line with what cannot be seen of it, such as blanks at its end.
pub(super) fn quoted(line: &str) -> String {
    let mut text: String = line.chars().take(MAX_QUOTED_CHARS).collect();
    if line.chars().nth(MAX_QUOTED_CHARS).is_some() {
        text.push('…');
    }
    format!("{text:?}")
}

fn one_line_as_is(line: &str) -> String {
    let indent: String = line
        .chars()
        .take_while(|c| *c == ' ')
        .take(MAX_QUOTED_CHARS)
        .collect();
    indent + &one_line(line, MAX_QUOTED_CHARS)
}
