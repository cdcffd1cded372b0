//! Tells the lines of a patch that belong to a file or a hunk from all others. A parser passes over those without a word, so
//! that what stands among them would be lost.

use super::fit::quoted;
use super::read::{HINT, invalid};
use crate::project::failure::FileError;

/// What git writes between the line that begins a file and the names of it.
const GIT_HEADERS: &[&str] = &[
    "index ",
    "similarity index ",
    "dissimilarity index ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "Binary files ",
];

const NO_NEWLINE: &str = "\\ No newline at end of file";

/// Returns the lines of files and hunks alone, or says which line with a change belongs to none.
pub(super) fn taken(patch: &str) -> Result<String, FileError> {
    let begins = |mark: &str| patch.lines().any(|line| line.starts_with(mark));
    if begins("*** Begin Patch") {
        return Err(invalid(
            "this is no unified diff; write `--- a/path`, `+++ b/path` and hunks that begin with `@@ -1,3 +1,4 @@`",
        ));
    }
    let mut reader = Reader {
        is_git: begins("diff --git "),
        place: Place::Before,
        file: "",
        hunk: 0,
    };
    let mut taken = String::with_capacity(patch.len());
    let mut lines = (1..).zip(patch.split_inclusive('\n')).peekable();
    while let Some((number, line)) = lines.next() {
        if reader.takes(line) {
            taken.push_str(line);
        } else if !is_signature(line, lines.peek().map(|(_, next)| *next)) {
            reader.pass_over(number, line)?;
        }
    }
    // Only a mark says that a line of the file has no newline; that the patch itself ends without one says nothing.
    if !taken.is_empty() && !taken.ends_with('\n') {
        taken.push('\n');
    }
    Ok(taken)
}

/// Where in a patch a line stands.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    /// Before the first file, where a message may stand.
    Before,
    /// In what git says of a file.
    GitHeaders,
    /// At the names of a file.
    Names,
    /// In a hunk that takes so many lines yet, or behind one that is complete.
    Hunk { old: usize, new: usize },
    /// Behind a line that belongs to no hunk.
    After(&'a str),
    /// Behind something that the parser refuses.
    Unread,
}

#[derive(Debug)]
struct Reader<'a> {
    /// Whether each file begins with `diff --git`.
    is_git: bool,
    place: Place<'a>,
    file: &'a str,
    /// The number of the last hunk of the file.
    hunk: usize,
}

impl<'a> Reader<'a> {
    /// Takes a line that belongs to a file or a hunk; false for any other.
    fn takes(&mut self, line: &'a str) -> bool {
        match self.place {
            Place::Unread => {}
            Place::Hunk { old, new } if old > 0 || new > 0 => self.place = within(old, new, line),
            Place::Hunk { .. } if line.starts_with(NO_NEWLINE) => {}
            Place::Hunk { .. } | Place::Names | Place::GitHeaders if line.starts_with("@@ ") => {
                self.hunk += 1;
                self.place = match counts(line) {
                    Some((old, new)) => Place::Hunk { old, new },
                    None => Place::Unread,
                };
            }
            Place::Names | Place::GitHeaders if is_name(line) => self.begin(Place::Names, line),
            Place::GitHeaders if line.starts_with("GIT binary patch") => self.place = Place::Unread,
            Place::GitHeaders if GIT_HEADERS.iter().any(|start| line.starts_with(*start)) => {}
            _ if self.is_git && line.starts_with("diff --git ") => {
                self.begin(Place::GitHeaders, line);
            }
            _ if !self.is_git && is_name(line) => self.begin(Place::Names, line),
            _ => return false,
        }
        true
    }

    fn begin(&mut self, place: Place<'a>, line: &'a str) {
        self.place = place;
        self.hunk = 0;
        self.file = file_of(line).unwrap_or(self.file);
    }

    /// Passes over a line that changes nothing; one that would change something is refused.
    fn pass_over(&mut self, number: usize, line: &'a str) -> Result<(), FileError> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let is_before = matches!(self.place, Place::Before);
        if line.starts_with("@@") || (!is_before && line.starts_with([' ', '+', '-'])) {
            return Err(invalid(self.lost(number, line)));
        }
        // In a series of mails a message stands before the files of each.
        self.place = if is_before || line.starts_with("From ") {
            Place::Before
        } else {
            Place::After(line)
        };
        Ok(())
    }

    /// Says why a line belongs to no hunk, and what to do.
    fn lost(&self, number: usize, line: &str) -> String {
        let (file, hunk) = (self.file, self.hunk);
        let shown = quoted(line.trim_end());
        match self.place {
            _ if self.is_git && is_name(line) => format!(
                "line {number} of the patch, {shown}, has no line `diff --git` before it, as other files have; begin each \
                 file with one or none"
            ),
            Place::Hunk { .. } if !line.starts_with("@@") => format!(
                "the counts of hunk {hunk} of {file:?} are too small: line {number} of the patch, {shown}, is one line too \
                 many; count the lines of the hunk again"
            ),
            Place::After(stray) => format!(
                "line {number} of the patch, {shown}, is cut off by a line before it that belongs to no hunk, {}; leave that \
                 one out",
                quoted(stray.trim_end())
            ),
            Place::Before => format!(
                "the hunk in line {number} of the patch, {shown}, has no file; write `--- a/path` and `+++ b/path` before it"
            ),
            _ => format!("line {number} of the patch, {shown}, begins no hunk; {HINT}"),
        }
    }
}

/// Takes a line off what a hunk still takes.
fn within<'a>(old: usize, new: usize, line: &str) -> Place<'a> {
    let left = match line.chars().next() {
        Some(' ' | '\n') => old.checked_sub(1).zip(new.checked_sub(1)),
        Some('-') => old.checked_sub(1).map(|old| (old, new)),
        Some('+') => new.checked_sub(1).map(|new| (old, new)),
        _ if line.starts_with(NO_NEWLINE) => Some((old, new)),
        _ => None,
    };
    match left {
        Some((old, new)) => Place::Hunk { old, new },
        None => Place::Unread,
    }
}

/// Returns how many lines a hunk has before and after, as its first line says.
fn counts(line: &str) -> Option<(usize, usize)> {
    let (ranges, _) = line.strip_prefix("@@ ")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(' ')?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse::<usize>().ok(),
        None => Some(1),
    };
    Some((
        count(old.strip_prefix('-')?)?,
        count(new.strip_prefix('+')?)?,
    ))
}

fn is_name(line: &str) -> bool {
    line.starts_with("--- ") || line.starts_with("+++ ")
}

/// Returns what a line calls the file that begins there.
fn file_of(line: &str) -> Option<&str> {
    let Some(name) = line
        .strip_prefix("--- ")
        .or_else(|| line.strip_prefix("+++ "))
    else {
        return Some(line.trim_end());
    };
    let name = name.split('\t').next().unwrap_or_default().trim_end();
    let stripped = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/"));
    (name != "/dev/null").then_some(stripped.unwrap_or(name))
}

/// Tells whether a line begins the end of a mail that git writes: its version follows.
fn is_signature(line: &str, next: Option<&str>) -> bool {
    line.trim_end() == "--"
        && next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()))
}
