//! Applies planned changes: all new content is on disk before the first file changes, and if a file cannot be changed,
//! the earlier ones are restored.

use std::path::PathBuf;

use super::plan::{PlannedChange, Write};
use crate::project::failure::{FileError, shown};
use crate::project::root::ProjectRoot;
use crate::project::target::{Folders, Target, UnnamedFile};

pub(super) fn commit(root: &ProjectRoot, planned: &[PlannedChange]) -> Result<(), FileError> {
    let mut made = Vec::new();
    let changed = change(root, planned, &mut made);
    if changed.is_err() {
        for folder in made.iter().rev() {
            // A folder that was not created, or is not empty, stays.
            let _ = root.dir().remove_dir(folder);
        }
    }
    changed
}

/// Changes the files, and records the folders that are created for them, parents first.
fn change(
    root: &ProjectRoot,
    planned: &[PlannedChange],
    made: &mut Vec<PathBuf>,
) -> Result<(), FileError> {
    let writes: Vec<&Write> = planned
        .iter()
        .filter_map(|change| change.write.as_ref())
        .collect();
    let mut folders = Vec::with_capacity(writes.len());
    for write in &writes {
        made.extend(write.target.missing_folders(root));
        folders.push(write.target.folder(root)?);
    }
    let mut prepared: Vec<UnnamedFile<'_>> = Vec::with_capacity(writes.len());
    for (write, folder) in writes.iter().zip(&folders) {
        let permissions = write.permissions.clone();
        prepared.push(write.target.prepare(folder, &write.content, permissions)?);
    }
    let mut done = Vec::new();
    for (write, prepared) in writes.into_iter().zip(prepared) {
        // Together with what the patch has already written, this file may form a repository.
        let checked = write.target.check_repository(root);
        if let Err(error) = checked.and_then(|()| prepared.commit()) {
            return Err(undo(root, &done, error));
        }
        done.push(CompletedChange::Written(write));
    }
    for (target, before) in planned.iter().filter_map(|change| change.remove.as_ref()) {
        if let Err(error) = target.remove(root) {
            return Err(undo(root, &done, error));
        }
        done.push(CompletedChange::Removed(target, before));
    }
    Ok(())
}

/// A completed change.
#[derive(Debug)]
enum CompletedChange<'a> {
    Written(&'a Write),
    Removed(&'a Target, &'a [u8]),
}

/// Undoes completed changes, and returns the error with the outcome of that.
fn undo(root: &ProjectRoot, done: &[CompletedChange<'_>], error: FileError) -> FileError {
    let mut left = Vec::new();
    for done in done.iter().rev() {
        let (target, undone) = match done {
            CompletedChange::Written(write) => match &write.before {
                Some(before) => (&write.target, restore(root, &write.target, before)),
                None => (&write.target, write.target.remove(root)),
            },
            CompletedChange::Removed(target, before) => (*target, restore(root, target, before)),
        };
        if undone.is_err() {
            left.push(shown(&target.path));
        }
    }
    FileError::PatchBroken {
        reason: Box::new(error),
        left,
    }
}

fn restore(root: &ProjectRoot, target: &Target, before: &[u8]) -> Result<(), FileError> {
    let permissions = target
        .existing
        .as_ref()
        .map(|existing| existing.permissions.clone());
    let place = Target::find(root, &shown(&target.path), Folders::Create)?;
    let folder = place.folder(root)?;
    place.prepare(&folder, before, permissions)?.commit()
}
