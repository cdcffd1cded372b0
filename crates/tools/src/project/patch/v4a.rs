//! Converts patches in the V4A format, which OpenAI's models are taught (the prompting guide of GPT-4.1), to the
//! equivalent unified diff. Hunks in this format have no numbers: text after `@@` names lines above the hunk, and a
//! hunk that only adds lines goes directly below the last of these. If numbers are given anyway, they apply if the
//! lines fit there, and the text after them is treated as such a line if exactly one line of the file equals it. Lines
//! are not added below that text without context lines, because it is often much further up.
//!
//! The policy reads paths from the same lines (`*** Update File: ` and so on) before a call may run.

use super::PATCH_MAX_FILES;
use super::fit::{MAX_COMPARISONS, NO_LINE, lines_at, quoted, text_of};
use super::hunk::{NO_FILE, NO_NEWLINE, Range, names, ranges};
use super::plan::{check_total, present};
use super::read::{check_plain, invalid, too_many_files};
use crate::blocking::Stop;
use crate::project::content::BYTE_ORDER_MARK;
use crate::project::failure::FileError;
use crate::project::root::ProjectRoot;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File: ";
const UPDATE: &str = "*** Update File: ";
const DELETE: &str = "*** Delete File: ";
const MOVE: &str = "*** Move to: ";

/// Returns whether a patch has this format.
pub(super) fn is_v4a(patch: &str) -> bool {
    patch.lines().any(|line| line.trim_end() == BEGIN)
}

/// Returns the equivalent unified diff, in git's format.
pub(super) fn unified(root: &ProjectRoot, patch: &str, stop: &Stop) -> Result<String, FileError> {
    let changes = changes(patch)?;
    if changes.len() > PATCH_MAX_FILES {
        return Err(too_many_files());
    }
    let mut diff = String::with_capacity(patch.len() * 2);
    for change in changes {
        stop.check()?;
        diff.push_str(&section(root, &change)?);
        // A short line can delete a long file.
        check_total(diff.len() as u64)?;
    }
    Ok(diff)
}

fn section(root: &ProjectRoot, change: &Change<'_>) -> Result<String, FileError> {
    Ok(match change {
        Change::Add { path, lines } => {
            let hunk = hunk(None, lines);
            format!(
                "diff --git a/{path} b/{path}\nnew file mode 100644\n--- {NO_FILE}\n+++ b/{path}\n{hunk}"
            )
        }
        Change::Delete { path } => {
            let hunk = all_removed(root, path)?;
            format!(
                "diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ {NO_FILE}\n{hunk}"
            )
        }
        Change::Update { path, to, hunks } => {
            let new = to.unwrap_or(path);
            let moved = to.map(|to| format!("rename from {path}\nrename to {to}\n"));
            let names = (!hunks.is_empty()).then(|| format!("--- a/{path}\n+++ b/{new}\n"));
            let (moved, names) = (moved.unwrap_or_default(), names.unwrap_or_default());
            let hunks = placed(root, path, hunks)?;
            format!("diff --git a/{path} b/{new}\n{moved}{names}{hunks}")
        }
    })
}

/// The change that a patch makes to one file.
enum Change<'a> {
    Add {
        path: &'a str,
        lines: Vec<&'a str>,
    },
    Delete {
        path: &'a str,
    },
    Update {
        path: &'a str,
        to: Option<&'a str>,
        hunks: Vec<Hunk<'a>>,
    },
}

#[derive(Default)]
struct Hunk<'a> {
    /// The lines of the file above the hunk, in order.
    below: Vec<&'a str>,
    /// The lines of the file that the hunk claims to take, as in a unified diff.
    claimed: Option<Range>,
    /// The text after the ranges, as in a unified diff: often a line further up.
    section: Option<&'a str>,
    /// The hunk's lines, each with its sign.
    lines: Vec<&'a str>,
    /// Whether it ends at the end of the file.
    is_last: bool,
}

impl<'a> Hunk<'a> {
    /// Returns the lines that the hunk expects in the file.
    fn old(&self) -> Vec<&'a str> {
        let lines = self.lines.iter().filter(|line| !line.starts_with('+'));
        // An empty line stands for a space and an empty line of the file.
        lines
            .map(|line| line.get(1..).unwrap_or_default())
            .collect()
    }

    /// Reads the position from a line that begins with `@@`.
    fn read_position(&mut self, line: &'a str) {
        let behind = line.strip_prefix("@@").unwrap_or(line);
        let is_text = |text: &&str| !text.is_empty();
        let Some((old, _)) = ranges(line) else {
            self.below.extend(Some(behind.trim()).filter(is_text));
            return;
        };
        self.claimed = Some(old);
        let section = behind.split_once(" @@").map(|(_, section)| section.trim());
        self.section = section.filter(is_text);
    }

    /// Returns the index of the line at which the hunk claims to begin.
    fn claimed_start(&self, old: &[&str]) -> Option<usize> {
        let start = self.claimed?.start_for(old.len())?;
        // A hunk that takes no lines names the line before it.
        Some(start.saturating_sub(usize::from(!old.is_empty())))
    }

    /// Returns the index of the first line below the text after the hunk's ranges, if exactly one line of the file
    /// equals that text.
    fn below_section(&self, file: &[&str]) -> Option<usize> {
        let section = self.section?;
        let mut named = file.iter().enumerate();
        let (at, _) = named.find(|(_, line)| line.trim() == section)?;
        named
            .all(|(_, line)| line.trim() != section)
            .then_some(at + 1)
    }
}

fn changes(patch: &str) -> Result<Vec<Change<'_>>, FileError> {
    let mut changes = Vec::new();
    let mut is_within = false;
    for (number, line) in (1..).zip(patch.lines()) {
        match line.trim_end() {
            BEGIN => is_within = true,
            END => is_within = false,
            _ if is_within => read(&mut changes, line).map_err(|why| {
                invalid(format!(
                    "line {number} of the patch, {}, {why}",
                    quoted(line)
                ))
            })?,
            _ if line.starts_with(['+', '-', ' ', '@', '*']) && !line.trim().is_empty() => {
                return Err(invalid(format!(
                    "line {number} of the patch, {}, is not between `{BEGIN}` and `{END}`",
                    quoted(line)
                )));
            }
            _ => {}
        }
    }
    if changes.is_empty() {
        return Err(invalid(format!(
            "it changes no file; write `{UPDATE}path`, `{ADD}path` or `{DELETE}path`"
        )));
    }
    for change in &mut changes {
        finish(change)?;
    }
    Ok(changes)
}

/// Processes one more line, or returns what is wrong with it.
fn read<'a>(changes: &mut Vec<Change<'a>>, line: &'a str) -> Result<(), String> {
    if let Some(path) = line.strip_prefix(ADD) {
        let lines = Vec::new();
        changes.push(Change::Add { path, lines });
        return Ok(());
    }
    if let Some(path) = line.strip_prefix(DELETE) {
        changes.push(Change::Delete { path });
        return Ok(());
    }
    if let Some(path) = line.strip_prefix(UPDATE) {
        let (to, hunks) = (None, Vec::new());
        changes.push(Change::Update { path, to, hunks });
        return Ok(());
    }
    match changes.last_mut() {
        Some(Change::Update { to, hunks, .. }) => match line.strip_prefix(MOVE) {
            Some(path) if to.is_none() && hunks.is_empty() => *to = Some(path),
            _ => read_of_update(hunks, line)?,
        },
        // An empty line is part of the file if more of the file's lines come next.
        Some(Change::Add { lines, .. }) if line.is_empty() || line.starts_with('+') => {
            lines.push(line);
        }
        _ if line.trim().is_empty() => {}
        Some(Change::Add { .. }) => {
            return Err(
                "does not begin with `+`, as each line of a new file must, even an empty one"
                    .into(),
            );
        }
        Some(Change::Delete { .. }) => {
            return Err(format!(
                "follows a deleted file; begin the next file with `{UPDATE}path`"
            ));
        }
        None => {
            return Err(format!(
                "has no file; write `{UPDATE}path`, `{ADD}path` or `{DELETE}path` before it"
            ));
        }
    }
    Ok(())
}

/// Processes one more line of a changed file.
fn read_of_update<'a>(hunks: &mut Vec<Hunk<'a>>, line: &'a str) -> Result<(), String> {
    if line.starts_with("@@") {
        if hunks.last().is_none_or(|hunk| !hunk.lines.is_empty()) {
            hunks.push(Hunk::default());
        }
        if let Some(hunk) = hunks.last_mut() {
            hunk.read_position(line);
        }
        return Ok(());
    }
    if !(line.is_empty() || line.starts_with([' ', '+', '-']) || line.trim_end() == END_OF_FILE) {
        return Err(
            "does not begin with a space, `+` or `-`; add one if it is a line of the file".into(),
        );
    }
    if hunks.last().is_none_or(|hunk| hunk.is_last) {
        hunks.push(Hunk::default());
    }
    if let Some(hunk) = hunks.last_mut() {
        if line.trim_end() == END_OF_FILE {
            hunk.is_last = true;
        } else {
            hunk.lines.push(line);
        }
    }
    Ok(())
}

/// Removes empty lines that only separate parts of the patch, and checks that names are plain and hunks have lines.
fn finish(change: &mut Change<'_>) -> Result<(), FileError> {
    match change {
        Change::Delete { path } => check_plain(path),
        Change::Add { path, lines } => {
            without_empty_end(lines);
            for line in lines.iter_mut().filter(|line| line.is_empty()) {
                *line = "+";
            }
            check_plain(path)
        }
        Change::Update { path, to, hunks } => {
            for hunk in hunks.iter_mut() {
                without_empty_end(&mut hunk.lines);
            }
            without_names(path, *to, hunks)?;
            hunks.retain(|hunk| !hunk.lines.is_empty() || !hunk.below.is_empty());
            if hunks.iter().any(|hunk| hunk.lines.is_empty()) {
                return Err(invalid(format!(
                    "a hunk of {path:?} has no lines after its `@@`"
                )));
            }
            if hunks.is_empty() && to.is_none() {
                return Err(invalid(format!("it contains no change to {path:?}")));
            }
            to.map_or(Ok(()), check_plain)?;
            check_plain(path)
        }
    }
}

fn without_empty_end(lines: &mut Vec<&str>) {
    let last = lines.iter().rposition(|line| !line.is_empty());
    lines.truncate(last.map_or(0, |last| last + 1));
}

/// Removes the names that a unified diff has before its hunks, if they are the file's own. Other names among the lines
/// of hunks would begin another file.
fn without_names(path: &str, to: Option<&str>, hunks: &mut [Hunk<'_>]) -> Result<(), FileError> {
    if let Some(first) = hunks.first_mut().filter(|first| first.below.is_empty()) {
        let is_name = |at: usize, mark: &str, name: &str| {
            let line = first.lines.get(at).and_then(|line| line.strip_prefix(mark));
            let named = line.map(|line| line.split('\t').next().unwrap_or(line).trim_end());
            let after = |start: &str| named.and_then(|named| named.strip_prefix(start));
            [named, after("a/"), after("b/")].contains(&Some(name))
        };
        let is_new = is_name(1, "+++ ", path) || to.is_some_and(|to| is_name(1, "+++ ", to));
        if is_name(0, "--- ", path) && is_new {
            first.lines.drain(..2);
        }
    }
    let last = hunks.len().saturating_sub(1);
    for (at, hunk) in hunks.iter().enumerate() {
        let mut lines = hunk.lines.clone();
        lines.extend((at < last).then_some("@@"));
        let behind = |at: usize| names(lines.get(at..).unwrap_or_default());
        let mut named = (0..lines.len()).filter_map(behind);
        if let Some((old, new)) =
            named.find(|(old, new)| old == new || [old, new].contains(&&NO_FILE))
        {
            return Err(invalid(format!(
                "the lines of {path:?} contain names as in a unified diff, `--- {old}` and `+++ {new}`; omit them, and \
                 begin each file with `{UPDATE}path`, `{ADD}path` or `{DELETE}path`"
            )));
        }
    }
    Ok(())
}

/// Returns the hunk that removes all lines of a file.
fn all_removed(root: &ProjectRoot, path: &str) -> Result<String, FileError> {
    let (_, content) = present(root, path)?;
    let text = text_of(&content, path)?;
    let lines = text.lines().count();
    if lines.saturating_mul(lines) > MAX_COMPARISONS {
        return Err(FileError::TooBig {
            what: format!(
                "{path:?} has more lines than a patch can remove; delete it with a program"
            ),
        });
    }
    let removed: Vec<String> = text
        .split_inclusive('\n')
        .map(|line| format!("-{line}"))
        .collect();
    let mut written = hunk(Some(1), &removed);
    if !text.is_empty() && !text.ends_with('\n') {
        written.push_str(NO_NEWLINE);
        written.push('\n');
    }
    Ok(written)
}

/// Returns the hunks of a changed file, with their line numbers as far as those are certain.
fn placed(root: &ProjectRoot, path: &str, hunks: &[Hunk<'_>]) -> Result<String, FileError> {
    let (_, content) = present(root, path)?;
    let text = text_of(&content, path)?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let file: Vec<&str> = text.lines().collect();
    let named = |hunk: &Hunk<'_>| hunk.below.len() + usize::from(hunk.section.is_some());
    let wanted = hunks.iter().map(|hunk| hunk.lines.len() + named(hunk));
    if wanted.sum::<usize>().saturating_mul(file.len()) > MAX_COMPARISONS {
        return Err(FileError::TooBig {
            what: format!("there is too much to compare in {path:?}; apply the patch in parts"),
        });
    }
    let mut written = String::new();
    let mut next = 0;
    for (number, each) in (1..).zip(hunks) {
        let is_at_end = !written.is_empty() && next == file.len();
        let start = start(&file, each, &mut next)
            .map_err(|why| invalid(format!("{why} in {path:?}; read the file again")))?;
        if start.is_none() {
            check_sure(&file, each).map_err(|why| FileError::HunkMisfit {
                path: path.to_owned(),
                why: format!("hunk {number} of {} {why}", hunks.len()),
            })?;
        }
        // Lines added at the end become part of a hunk that reaches the end: there is no line left to put them after.
        if is_at_end && (each.is_last || file.is_empty()) && each.old().is_empty() {
            push(&mut written, &each.lines);
            continue;
        }
        // A hunk that takes no lines names the line before it.
        let line = start.map(|start| start + usize::from(!each.old().is_empty()));
        written.push_str(&hunk(line, &each.lines));
    }
    Ok(written)
}

/// Returns the index of the line at which a hunk begins, if the patch says where, either below certain lines or at the
/// end, or if the hunk fits in only one place.
fn start(file: &[&str], hunk: &Hunk<'_>, next: &mut usize) -> Result<Option<usize>, String> {
    let old = hunk.old();
    for below in &hunk.below {
        let behind = file.get(*next..).unwrap_or_default();
        let found = behind.iter().position(|line| line.trim() == *below);
        let found = found.ok_or_else(|| format!("`@@ {below}` matches no later line"))?;
        *next += found + 1;
    }
    // Only that line says where to add, and another equal line may be meant.
    let behind = file.get(*next..).unwrap_or_default();
    let may_be_another = match hunk.below.as_slice() {
        [only] if old.is_empty() => behind.iter().any(|line| line.trim() == *only),
        _ => false,
    };
    let fits = |start: &usize| matches_at(file, &old, *start);
    let claimed = hunk.claimed_start(&old);
    let section = hunk.below_section(file);
    let first_from = |from: usize| {
        let claimed = claimed.filter(|line| *line >= from && fits(line));
        claimed.or_else(|| (from..=file.len()).find(fits))
    };
    let at_end = file.len().checked_sub(old.len());
    let start = match at_end {
        Some(at_end) if hunk.is_last => Some(at_end).filter(fits),
        // A section line may also be the first line of the hunk itself.
        _ => first_from(section.unwrap_or_default().max(*next)).or_else(|| first_from(*next)),
    };
    // Without a line number, the hunk would make those of all later hunks invalid.
    let is_only = || (0..file.len()).filter(fits).nth(1).is_none();
    let is_below = |start: usize| {
        let is_below_section = section.is_some_and(|section| section <= start);
        (!hunk.below.is_empty() && !may_be_another) || (is_below_section && !old.is_empty())
    };
    match (start, hunk.below.last()) {
        (None, Some(below)) => Err(format!("the lines of the hunk are not below `@@ {below}`")),
        (start, _) => {
            *next = start.map_or(*next, |start| start + old.len());
            let is_sure = |start: &usize| {
                let is_stated = is_below(*start) || claimed == Some(*start);
                hunk.is_last || is_stated || file.is_empty() || (!old.is_empty() && is_only())
            };
            Ok(start.filter(is_sure))
        }
    }
}

fn matches_at(file: &[&str], old: &[&str], start: usize) -> bool {
    let here = file.get(start..).and_then(|here| here.get(..old.len()));
    here == Some(old)
}

/// Refuses lines without a stated position that fit in more than one place, and lines whose place to be added is
/// unknown.
fn check_sure(file: &[&str], hunk: &Hunk<'_>) -> Result<(), String> {
    let old = hunk.old();
    if let ([], [below]) = (old.as_slice(), hunk.below.as_slice()) {
        let named =
            (0..file.len()).filter(|at| file.get(*at).is_some_and(|line| line.trim() == *below));
        return Err(format!(
            "only adds lines below `@@ {below}`, which is in more than one place: at lines {}; before it, put `@@ LINE` \
             with a line further up, or include lines of the file around what it adds",
            lines_at(named)
        ));
    }
    if old.is_empty() {
        return Err(
            "only adds lines and does not say where; before them, put `@@ LINE` with the line above, or include lines \
             of the file around what it adds"
                .into(),
        );
    }
    let places = || (0..file.len()).filter(|start| matches_at(file, &old, *start));
    if places().nth(1).is_none() {
        return Ok(());
    }
    Err(format!(
        "fits in more than one place: at lines {}; before it, put `@@ LINE` with a line further up, or include more \
         lines around the change",
        lines_at(places())
    ))
}

/// Returns a hunk as text, given its lines with their signs. Without a line number, it goes to the only place where it
/// fits.
fn hunk(line: Option<usize>, signed: &[impl AsRef<str>]) -> String {
    if signed.is_empty() {
        return String::new();
    }
    let lines = || signed.iter().map(AsRef::as_ref);
    let count = |other: char| lines().filter(|line| !line.starts_with(other)).count();
    let (old, new) = (count('+'), count('-'));
    let line = line.unwrap_or(NO_LINE);
    let mut written = format!("@@ -{line},{old} +0,{new} @@\n");
    push(&mut written, signed);
    written
}

fn push(written: &mut String, lines: &[impl AsRef<str>]) {
    for line in lines {
        let line: &str = line.as_ref();
        written.push_str(if line.is_empty() { " " } else { line });
        if !line.ends_with('\n') {
            written.push('\n');
        }
    }
}
