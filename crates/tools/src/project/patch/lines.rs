//! Separates the lines of a patch that belong to a file or a hunk from all others. A parser silently skips other lines,
//! so changes among them would be lost.

use super::fit::quoted;
use super::hunk::{Hunks, NO_FILE, is_mail, is_signature};
use super::read::{HINT, invalid};
use crate::project::failure::FileError;

/// What git writes between the line that begins a file and the file's names.
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

/// The beginnings of lines that name a file.
const NAMES: [&str; 6] = [
    "--- ",
    "+++ ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
];

/// Returns only the lines of files and hunks, with corrected counts for each hunk, or an error that names a line with a
/// change that belongs to none.
pub(super) fn applied_lines(patch: &str) -> Result<String, FileError> {
    let begins = |mark: &str| patch.lines().any(|line| line.starts_with(mark));
    let mut reader = Reader {
        is_git: begins("diff --git "),
        place: Place::Before,
        hunks: Hunks::default(),
    };
    let mut applied_lines = String::with_capacity(patch.len());
    let lines: Vec<&str> = patch.split_inclusive('\n').collect();
    let mut at = 0;
    while let Some((&line, behind)) = lines.get(at..).and_then(<[_]>::split_first) {
        at += 1;
        if reader.is_hunk(line) {
            let lines = reader.hunks.read(line, behind);
            let lines = lines.map_err(|stray| without_sign(at + stray + 1, behind.get(stray)))?;
            if lines.is_empty() {
                let shown = quoted(line.trim_end());
                return Err(invalid(format!(
                    "the hunk in line {at} of the patch, {shown}, has no lines; {HINT}"
                )));
            }
            applied_lines.push_str(&reader.hunks.header());
            applied_lines.extend(lines.iter().copied());
            at += lines.len();
            reader.place = Place::Hunk;
        } else if reader.consume_file_line(line) {
            check_quotes(at, line)?;
            // The parser would take the names after a file without hunks for further names of that file.
            if !reader.is_git && line.starts_with("--- ") && ends_with_deletion(&applied_lines) {
                applied_lines.push('\n');
            }
            applied_lines.push_str(line);
        } else if !is_signature(line, behind.first().copied()) {
            reader.pass_over(at, line)?;
        }
    }
    // Only a marker says that a line of the file has no newline; a missing newline at the end of the patch means
    // nothing.
    if !applied_lines.is_empty() && !applied_lines.ends_with('\n') {
        applied_lines.push('\n');
    }
    Ok(applied_lines)
}

/// The position of a line in a patch.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    /// Before the first file, where a message may be.
    Before,
    /// Among git's headers of a file.
    GitHeaders,
    /// At the names of a file.
    Names,
    /// After a hunk.
    Hunk,
    /// After a line that does not belong to a hunk.
    After(&'a str),
    /// After something that the parser refuses.
    Unread,
}

#[derive(Debug)]
struct Reader<'a> {
    /// Whether each file begins with `diff --git`.
    is_git: bool,
    place: Place<'a>,
    /// The hunks of the file.
    hunks: Hunks,
}

impl<'a> Reader<'a> {
    /// Returns whether a line begins a hunk of the file.
    fn is_hunk(&self, line: &str) -> bool {
        let may_be = matches!(self.place, Place::Hunk | Place::Names | Place::GitHeaders);
        // With another `@`, it is a merge diff.
        may_be && line.starts_with("@@") && !line.starts_with("@@@")
    }

    /// Processes a line that belongs to a file; returns `false` for any other line.
    fn consume_file_line(&mut self, line: &'a str) -> bool {
        match self.place {
            Place::Unread => {}
            Place::Names | Place::GitHeaders if is_name(line) => self.begin(Place::Names),
            Place::GitHeaders if line.starts_with("GIT binary patch") => self.place = Place::Unread,
            Place::GitHeaders if GIT_HEADERS.iter().any(|start| line.starts_with(*start)) => {}
            _ if self.is_git && line.starts_with("diff --git ") => self.begin(Place::GitHeaders),
            _ if !self.is_git && is_name(line) => self.begin(Place::Names),
            _ => return false,
        }
        true
    }

    fn begin(&mut self, place: Place<'a>) {
        self.place = place;
        self.hunks = Hunks::default();
    }

    /// Skips a line that changes nothing; refuses one that would change something.
    fn pass_over(&mut self, number: usize, line: &'a str) -> Result<(), FileError> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let is_before = matches!(self.place, Place::Before);
        if line.starts_with("@@") || (!is_before && line.starts_with([' ', '+', '-'])) {
            return Err(invalid(self.explain_stray_line(number, line)));
        }
        // In a series of mails, each has a message before its files.
        self.place = if is_before || is_mail(line) {
            Place::Before
        } else {
            Place::After(line)
        };
        Ok(())
    }

    /// Explains why a line does not belong to a hunk, and what to do.
    fn explain_stray_line(&self, number: usize, line: &str) -> String {
        let shown = quoted(line.trim_end());
        match self.place {
            _ if self.is_git && is_name(line) => format!(
                "line {number} of the patch, {shown}, has no `diff --git` line before it, unlike other files; begin \
                 every file with one, or none"
            ),
            Place::After(stray) => format!(
                "line {number} of the patch, {shown}, is cut off by an earlier line that belongs to no hunk, {}; begin \
                 that line with a space, `+` or `-` if it is a line of the file, or else omit it",
                quoted(stray.trim_end())
            ),
            Place::Before => format!(
                "the hunk in line {number} of the patch, {shown}, has no file; write `--- a/path` and `+++ b/path` before it"
            ),
            _ => format!("line {number} of the patch, {shown}, belongs to no hunk; {HINT}"),
        }
    }
}

/// Refuses a name in quotes. The parser would silently remove them, but the rule or the user that judged the patch may
/// not have.
fn check_quotes(number: usize, line: &str) -> Result<(), FileError> {
    let named = NAMES.iter().find_map(|start| line.strip_prefix(*start));
    let named = named.and_then(|named| named.split('\t').next());
    if named.is_some_and(|named| named.contains('"')) {
        let shown = quoted(line.trim_end());
        return Err(invalid(format!(
            "the name in line {number} of the patch, {shown}, is written with quotes or escapes; only plain names are \
             supported"
        )));
    }
    Ok(())
}

/// Refuses a line that may belong to the hunk before it.
fn without_sign(number: usize, line: Option<&&str>) -> FileError {
    let shown = quoted(line.copied().unwrap_or_default().trim_end());
    invalid(format!(
        "line {number} of the patch, {shown}, does not begin with a space, `+` or `-`; add one if it is a line of the \
         file, or else omit it"
    ))
}

/// Returns whether the last line says that a file is deleted.
fn ends_with_deletion(applied_lines: &str) -> bool {
    let last = applied_lines.lines().next_back();
    let name = last.and_then(|last| last.strip_prefix("+++ "));
    name.is_some_and(|name| name.starts_with(NO_FILE))
}

fn is_name(line: &str) -> bool {
    line.starts_with("--- ") || line.starts_with("+++ ")
}
