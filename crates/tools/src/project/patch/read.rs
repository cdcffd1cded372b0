//! Parses the text of a patch into the change of each file.
//!
//! Before a call may run, the policy reads paths from the same lines (`---`, `+++`, `rename from` and so on). So
//! anything that names a file in another way is refused here.

use std::borrow::Cow;

use diffy::Patch;
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchKind, PatchSet};

use super::PATCH_MAX_FILES;
use crate::project::failure::FileError;

/// The change that a patch makes to one file.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) wanted: RequestedChange,
    pub(super) hunks: Patch<'a, str>,
    pub(super) is_executable: bool,
}

#[derive(Debug)]
pub(super) enum RequestedChange {
    Create { path: String },
    Delete { path: String },
    Modify { path: String },
    Rename { from: String, to: String },
    Copy { from: String, to: String },
}

impl RequestedChange {
    /// Returns the file that will exist afterwards, or that will be deleted.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Create { path } | Self::Delete { path } | Self::Modify { path } => path,
            Self::Rename { to, .. } | Self::Copy { to, .. } => to,
        }
    }
}

/// Parses a patch that contains only lines of files and hunks.
pub(super) fn sections(patch: &str) -> Result<Vec<Section<'_>>, FileError> {
    let is_git = patch.starts_with("diff --git ");
    let options = if is_git {
        ParseOptions::gitdiff()
    } else {
        ParseOptions::unidiff()
    };
    let mut sections = Vec::new();
    for parsed in PatchSet::parse(patch, options) {
        let file = parsed.map_err(|error| invalid(format!("{error}; {HINT}")))?;
        if sections.len() == PATCH_MAX_FILES {
            return Err(too_many_files());
        }
        sections.push(section(file)?);
    }
    if sections.is_empty() {
        return Err(invalid(format!("it changes no file; {HINT}")));
    }
    Ok(sections)
}

pub(super) const HINT: &str = "each hunk needs a line `@@ -line,count +line,count @@`, and each of its lines begins \
    with a space, `+` or `-`";

pub(super) fn too_many_files() -> FileError {
    FileError::TooBig {
        what: format!("the patch changes more than {PATCH_MAX_FILES} files; apply it in parts"),
    }
}

pub(super) fn invalid(why: impl Into<String>) -> FileError {
    FileError::InvalidPatch { why: why.into() }
}

fn section<'a>(file: FilePatch<'a, str>) -> Result<Section<'a>, FileError> {
    let (old_mode, new_mode) = (file.old_mode().copied(), file.new_mode().copied());
    let wanted = requested_change(file.operation())?;
    let path = wanted.path().to_owned();
    let modes = [old_mode, new_mode];
    let special = [FileMode::Symlink, FileMode::Gitlink].map(Some);
    if modes.iter().any(|mode| special.contains(mode)) {
        return Err(invalid(format!(
            "it does not treat {path:?} as a regular file; symlinks and submodules cannot be created or changed"
        )));
    }
    let creates = matches!(wanted, RequestedChange::Create { .. });
    if !creates && old_mode.is_some() && new_mode.is_some() && old_mode != new_mode {
        return Err(invalid(format!(
            "it changes the mode of {path:?}; only contents can be changed"
        )));
    }
    let PatchKind::Text(hunks) = file.into_patch() else {
        return Err(invalid(format!("the change to {path:?} is binary")));
    };
    let moves = matches!(
        wanted,
        RequestedChange::Rename { .. } | RequestedChange::Copy { .. }
    );
    if let RequestedChange::Rename { from, to } | RequestedChange::Copy { from, to } = &wanted {
        check_names(&hunks, from, to)?;
    }
    if !moves {
        check_changes(&wanted, &hunks)?;
    }
    Ok(Section {
        wanted,
        hunks,
        is_executable: creates && new_mode == Some(FileMode::Executable),
    })
}

/// Checks that the changed file is named in lines that the policy reads, and that there is something to change: only an
/// empty file is deleted without hunks.
fn check_changes(wanted: &RequestedChange, hunks: &Patch<'_, str>) -> Result<(), FileError> {
    let path = wanted.path();
    let is_named = hunks.original().is_some() || hunks.modified().is_some();
    match wanted {
        RequestedChange::Delete { .. } if is_named => Ok(()),
        RequestedChange::Delete { .. } => Err(invalid(format!(
            "{path:?} is deleted without a file name line; also write `--- a/{path}` and `+++ /dev/null`, for an empty \
             file without hunks"
        ))),
        _ if hunks.hunks().is_empty() => Err(invalid(format!(
            "there are no hunks for {path:?}; to create an empty file, use write_file"
        ))),
        _ if !is_named => Err(invalid(format!(
            "the hunks of {path:?} have no file name lines; write `--- a/{path}` and `+++ b/{path}` before them"
        ))),
        _ => Ok(()),
    }
}

/// Checks that the hunks refer to the file that is moved.
fn check_names(hunks: &Patch<'_, str>, from: &str, to: &str) -> Result<(), FileError> {
    for (named, meant) in [(hunks.original(), from), (hunks.modified(), to)] {
        let Some(named) = named else { continue };
        let stripped = named
            .strip_prefix("a/")
            .or_else(|| named.strip_prefix("b/"));
        if ![named, stripped.unwrap_or(named)].contains(&meant) {
            return Err(invalid(format!(
                "its hunks are for {named:?}, but it moves or copies {from:?} to {to:?}; write a section for each file"
            )));
        }
    }
    Ok(())
}

fn requested_change(operation: &FileOperation<'_, str>) -> Result<RequestedChange, FileError> {
    Ok(match operation {
        FileOperation::Create(path) => RequestedChange::Create {
            path: of_header(path)?,
        },
        FileOperation::Delete(path) => RequestedChange::Delete {
            path: of_header(path)?,
        },
        FileOperation::Modify { original, modified } => {
            let (original, path) = (of_header(original)?, of_header(modified)?);
            if original != path {
                return Err(invalid(format!(
                    "its headers name two files, {original:?} and {path:?}; to move a file, write a git diff with \
                     `rename from` and `rename to`"
                )));
            }
            RequestedChange::Modify { path }
        }
        FileOperation::Rename { from, to } => RequestedChange::Rename {
            from: plain(from)?,
            to: plain(to)?,
        },
        FileOperation::Copy { from, to } => RequestedChange::Copy {
            from: plain(from)?,
            to: plain(to)?,
        },
    })
}

/// Parses the path of a `---` or `+++` line in the same way as the policy.
#[expect(
    clippy::ptr_arg,
    reason = "a name that was written with escapes is known by its being owned"
)]
fn of_header(path: &Cow<'_, str>) -> Result<String, FileError> {
    let path = plain(path)?;
    let stripped = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/"));
    Ok(stripped.map_or_else(|| path.clone(), str::to_owned))
}

/// Refuses names with escapes: those who judge a patch may read them differently.
#[expect(
    clippy::ptr_arg,
    reason = "a name that was written with escapes is known by its being owned"
)]
fn plain(path: &Cow<'_, str>) -> Result<String, FileError> {
    if matches!(path, Cow::Owned(_)) {
        return Err(not_plain(path));
    }
    check_plain(path)?;
    Ok(path.clone().into_owned())
}

/// Refuses a name that stands for another, or for none.
pub(super) fn check_plain(path: &str) -> Result<(), FileError> {
    if path.contains(['"', '\\']) || path.chars().any(char::is_control) {
        return Err(not_plain(path));
    }
    Ok(())
}

fn not_plain(path: &str) -> FileError {
    invalid(format!(
        "the name {path:?} is written with quotes or escapes; only plain names are supported"
    ))
}
