//! Applies hunks to a file, or says which one does not fit and what stands there instead.

use diffy::{Hunk, Line, Patch};

use crate::blocking::Stop;
use crate::project::failure::FileError;
use crate::summary::{MAX_QUOTED_CHARS, one_line};

/// The most comparisons of lines that one file may cost: less than a second of work.
const MAX_COMPARISONS: usize = 100_000_000;

/// The most lines of the file that an error shows.
const MAX_SHOWN_LINES: usize = 8;

/// Applies the hunks to the content of a file.
pub(super) fn patched(
    content: &[u8],
    patch: &Patch<'_, str>,
    path: &str,
    stop: &Stop,
) -> Result<Vec<u8>, FileError> {
    let Ok(text) = std::str::from_utf8(content) else {
        return Err(FileError::InvalidPatch {
            why: format!("{path:?} is no UTF-8 text, so that it cannot be patched"),
        });
    };
    let lines = text.split_inclusive('\n').count();
    let old_lines = |hunk: &Hunk<'_, str>| old(hunk).count().max(1);
    let wanted: usize = patch.hunks().iter().map(old_lines).sum();
    if wanted.saturating_mul(lines) > MAX_COMPARISONS {
        return Err(FileError::TooBig {
            what: format!("there is too much to compare in {path:?}; apply the patch in parts"),
        });
    }
    stop.check()?;
    match diffy::apply(text, patch) {
        Ok(patched) => Ok(patched.into_bytes()),
        Err(error) => Err(FileError::HunkMisfit {
            path: path.to_owned(),
            why: explain(text, patch).unwrap_or_else(|| {
                format!("{error}: its lines are there, but another hunk has changed them already")
            }),
        }),
    }
}

/// Returns the lines that a hunk expects in the file.
fn old<'a>(hunk: &Hunk<'a, str>) -> impl Iterator<Item = &'a str> {
    hunk.lines().iter().filter_map(|line| match line {
        Line::Context(text) | Line::Delete(text) => Some(*text),
        Line::Insert(_) => None,
    })
}

/// Says which hunk does not fit anywhere, and what the place that resembles it most looks like.
fn explain(text: &str, patch: &Patch<'_, str>) -> Option<String> {
    let file: Vec<&str> = text.split_inclusive('\n').collect();
    let all = patch.hunks().len();
    for (number, hunk) in (1..).zip(patch.hunks()) {
        let old: Vec<&str> = old(hunk).collect();
        let place = nearest(&file, &old, hunk.old_range().start().saturating_sub(1));
        if place.equal == old.len() {
            continue;
        }
        let which = format!("hunk {number} of {all} (@@ -{} @@)", hunk.old_range());
        return Some(match place.equal {
            0 => format!(
                "{which} does not fit: none of its lines is in the file; read the file again"
            ),
            _ => format!(
                "{which} does not fit. {}",
                difference(&file, &old, place.start)
            ),
        });
    }
    None
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
