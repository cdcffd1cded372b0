//! Computes the new content of every file before any file is changed.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::fs::Permissions;
use diffy::{Line, Patch};
use serde::Serialize;

use super::PATCH_MAX_FILE_BYTES;
use super::fit::{self, MovedHunk};
use super::read::{RequestedChange, Section};
use crate::blocking::Stop;
use crate::project::failure::{FileError, shown};
use crate::project::root::{LocatedFile, ProjectRoot};
use crate::project::target::{Existing, Folders, Target};
use crate::summary::grouped;

/// The maximum total size of all files, before and after, in bytes.
const MAX_TOTAL_BYTES: u64 = 32 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Operation {
    Created,
    Modified,
    Deleted,
    Renamed,
    Copied,
}

/// The planned change of one file.
#[derive(Debug)]
pub(super) struct PlannedChange {
    pub(super) operation: Operation,
    pub(super) from: Option<String>,
    pub(super) added_lines: u64,
    pub(super) removed_lines: u64,
    /// The hunks that fit at another line than the one they state.
    pub(super) moved: Vec<MovedHunk>,
    /// The header of each hunk, with its actual line numbers.
    pub(super) headers: Vec<String>,
    /// The file to write, if any.
    pub(super) write: Option<Write>,
    /// The file to remove, if any, and its content.
    pub(super) remove: Option<(Target, Vec<u8>)>,
}

#[derive(Debug)]
pub(super) struct Write {
    pub(super) target: Target,
    pub(super) content: Vec<u8>,
    pub(super) permissions: Option<Permissions>,
    /// The previous content.
    pub(super) before: Option<Vec<u8>>,
}

impl PlannedChange {
    pub(super) fn path(&self) -> &Path {
        let written = self.write.as_ref().map(|write| &write.target);
        let removed = self.remove.as_ref().map(|(target, _)| target);
        written
            .or(removed)
            .map_or_else(|| Path::new(""), |target| target.path.as_path())
    }
}

pub(super) fn plan(
    root: &ProjectRoot,
    sections: &[Section<'_>],
    stop: &Stop,
) -> Result<Vec<PlannedChange>, FileError> {
    let mut planned = Vec::with_capacity(sections.len());
    let mut touched = BTreeSet::new();
    let mut total = 0_u64;
    for section in sections {
        stop.check()?;
        let change = plan_one(root, section, stop)?;
        for (path, bytes) in touched_by(&change) {
            total = total.saturating_add(bytes);
            if !touched.insert(path.clone()) {
                return Err(FileError::InvalidPatch {
                    why: format!("it changes {:?} twice; combine its hunks", shown(&path)),
                });
            }
        }
        check_total(total)?;
        planned.push(change);
    }
    Ok(planned)
}

/// Refuses files that exceed the maximum total size.
pub(super) fn check_total(bytes: u64) -> Result<(), FileError> {
    if bytes > MAX_TOTAL_BYTES {
        return Err(FileError::TooBig {
            what: format!(
                "the files have more than {} bytes in total; apply the patch in parts",
                grouped(MAX_TOTAL_BYTES)
            ),
        });
    }
    Ok(())
}

/// Returns the files that a change touches, and the number of bytes it holds in memory for each.
fn touched_by(change: &PlannedChange) -> Vec<(PathBuf, u64)> {
    let written = change.write.as_ref().map(|write| {
        let before = write.before.as_ref().map_or(0, Vec::len);
        let bytes = write.content.len() + before;
        (write.target.path.clone(), bytes as u64)
    });
    let removed = change.remove.as_ref();
    let removed = removed.map(|(target, held)| (target.path.clone(), held.len() as u64));
    written.into_iter().chain(removed).collect()
}

fn plan_one(
    root: &ProjectRoot,
    section: &Section<'_>,
    stop: &Stop,
) -> Result<PlannedChange, FileError> {
    let hunks = &section.hunks;
    let (mut moved, mut headers) = (Vec::new(), Vec::new());
    let mut patched = |content: &[u8], path: &str| -> Result<Vec<u8>, FileError> {
        let patched = fit::patched(content, hunks, path, stop)?;
        (moved, headers) = (patched.moved, patched.headers);
        Ok(patched.content)
    };
    let (operation, write, remove) = match &section.wanted {
        RequestedChange::Create { path } => {
            let target = fresh(root, path)?;
            check_adds(hunks, path)?;
            let content = patched(b"", path)?;
            let permissions = section.is_executable.then(executable).flatten();
            (
                Operation::Created,
                Some(new_file(target, content, permissions)),
                None,
            )
        }
        RequestedChange::Modify { path } => {
            let found = present(root, path);
            let (target, before) = found.map_err(|error| of_new_file(error, hunks, path))?;
            let content = patched(&before, path)?;
            let write = Write {
                target,
                content: bounded(content, path)?,
                permissions: None,
                before: Some(before),
            };
            (Operation::Modified, Some(write), None)
        }
        RequestedChange::Delete { path } => {
            let (target, before) = present(root, path)?;
            let left = patched(&before, path)?;
            if !left.is_empty() {
                return Err(FileError::InvalidPatch {
                    why: format!("it deletes {path:?}, but does not remove all of its lines"),
                });
            }
            (Operation::Deleted, None, Some((target, before)))
        }
        RequestedChange::Rename { from, to } => {
            let (source, before) = present(root, from)?;
            let content = bounded(patched(&before, from)?, to)?;
            let write = new_file(fresh(root, to)?, content, permissions_of(&source));
            (Operation::Renamed, Some(write), Some((source, before)))
        }
        RequestedChange::Copy { from, to } => {
            let (source, before) = present(root, from)?;
            let content = bounded(patched(&before, from)?, to)?;
            let write = new_file(fresh(root, to)?, content, permissions_of(&source));
            (Operation::Copied, Some(write), None)
        }
    };
    let from = match &section.wanted {
        RequestedChange::Rename { from, .. } | RequestedChange::Copy { from, .. } => {
            Some(from.clone())
        }
        _ => None,
    };
    Ok(PlannedChange {
        operation,
        from,
        added_lines: lines(hunks, |line| matches!(line, Line::Insert(_))),
        removed_lines: lines(hunks, |line| matches!(line, Line::Delete(_))),
        moved,
        headers,
        write,
        remove,
    })
}

fn new_file(target: Target, content: Vec<u8>, permissions: Option<Permissions>) -> Write {
    Write {
        target,
        content,
        permissions,
        before: None,
    }
}

/// Finds a path at which nothing exists yet.
fn fresh(root: &ProjectRoot, path: &str) -> Result<Target, FileError> {
    let target = Target::find(root, path, Folders::Create)?;
    if target.existing.is_some() {
        return Err(FileError::InvalidPatch {
            why: format!("it creates {path:?}, which already exists; read it and change it"),
        });
    }
    check_symlinks(root, path, &target)?;
    Ok(target)
}

/// Checks that the hunks of a new file only add lines.
fn check_adds(hunks: &Patch<'_, str>, path: &str) -> Result<(), FileError> {
    if lines(hunks, |line| !matches!(line, Line::Insert(_))) > 0 {
        return Err(FileError::InvalidPatch {
            why: format!(
                "it creates {path:?}, and each line of a new file must begin with `+`, even an empty one"
            ),
        });
    }
    Ok(())
}

/// Finds an existing file and reads it.
pub(super) fn present(root: &ProjectRoot, path: &str) -> Result<(Target, Vec<u8>), FileError> {
    let target = Target::find(root, path, Folders::Create)?;
    check_symlinks(root, path, &target)?;
    let content = match &target.existing {
        Some(existing) => content_of(root, existing)?,
        // Located again to get a suggestion of what may have been meant.
        None => {
            root.locate(path)?;
            return Err(FileError::NotFound {
                path: shown(&target.path),
                suggestion: None,
            });
        }
    };
    Ok((target, content))
}

/// Explains how to create a file, if the hunks only add lines to a missing one.
fn of_new_file(error: FileError, hunks: &Patch<'_, str>, path: &str) -> FileError {
    let mut ranges = hunks.hunks().iter().map(diffy::Hunk::old_range);
    match error {
        FileError::NotFound { .. } if ranges.all(|range| range.is_empty()) => {
            FileError::InvalidPatch {
                why: format!(
                    "there is no {path:?} in the project; to create it, write `--- /dev/null` instead of `--- a/{path}`"
                ),
            }
        }
        other => other,
    }
}

/// Refuses paths through symlinks: the policy judged the name in the patch.
fn check_symlinks(root: &ProjectRoot, path: &str, target: &Target) -> Result<(), FileError> {
    let is_symlink = |part: &Path| {
        let found = root.dir().symlink_metadata(part);
        found.is_ok_and(|found| found.is_symlink())
    };
    if root.relative(path)?.ancestors().any(is_symlink) {
        return Err(FileError::InvalidPatch {
            why: format!(
                "{path:?} leads through a symlink to {:?}, but a patch changes only what it names; name the file itself",
                shown(&target.path)
            ),
        });
    }
    Ok(())
}

fn content_of(root: &ProjectRoot, existing: &Existing) -> Result<Vec<u8>, FileError> {
    let file: &LocatedFile = &existing.file;
    if existing.bytes > PATCH_MAX_FILE_BYTES {
        return Err(too_big(&shown(&file.path)));
    }
    let (opened, _) = root.open_file(file)?;
    let mut content = Vec::new();
    let read = opened
        .take(PATCH_MAX_FILE_BYTES + 1)
        .read_to_end(&mut content);
    read.map_err(|error| FileError::from_io(&file.path, error))?;
    bounded(content, &shown(&file.path))
}

fn bounded(content: Vec<u8>, path: &str) -> Result<Vec<u8>, FileError> {
    if content.len() as u64 > PATCH_MAX_FILE_BYTES {
        return Err(too_big(path));
    }
    Ok(content)
}

fn too_big(path: &str) -> FileError {
    FileError::TooBig {
        what: format!(
            "{path:?} has more than {} bytes; change it with a program",
            grouped(PATCH_MAX_FILE_BYTES)
        ),
    }
}

fn permissions_of(target: &Target) -> Option<Permissions> {
    let existing = target.existing.as_ref()?;
    Some(existing.permissions.clone())
}

#[cfg(unix)]
fn executable() -> Option<Permissions> {
    use cap_std::fs::PermissionsExt;

    Some(Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
const fn executable() -> Option<Permissions> {
    None
}

fn lines(patch: &Patch<'_, str>, counts: fn(&Line<'_, str>) -> bool) -> u64 {
    let lines = patch.hunks().iter().flat_map(diffy::Hunk::lines);
    lines.filter(|line| counts(line)).count() as u64
}
