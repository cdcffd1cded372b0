//! Why a file tool failed. Each message begins with a stable code and ends with what to do.

use std::io;
use std::path::Path;

use neuraxis_ports::ToolError;

use super::secret::{PROTECTED_NAMES, SECRET_FILES};
use crate::blocking::Cancelled;

#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(
        "outside_root: {path:?} leads outside the project folder; use a path inside it, relative to its top"
    )]
    OutsideRoot { path: String },
    #[error("not_found: there is no {path:?} in the project; {}", did_you_mean(suggestion.as_deref()))]
    NotFound {
        path: String,
        suggestion: Option<String>,
    },
    #[error("is_a_folder: {path:?} is a folder; list it with list_files")]
    IsFolder { path: String },
    #[error("not_a_folder: {path:?} is a file; read it with read_file")]
    NotFolder { path: String },
    #[error(
        "not_a_regular_file: {path:?} is neither a file nor a folder but, say, a pipe, socket or device; skip it"
    )]
    NotRegular { path: String },
    #[error(
        "secret_file: {path:?} is never read, because files named so hold secrets ({}); go on without it",
        SECRET_FILES.join(", ")
    )]
    Secret { path: String },
    #[error(
        "secret_file: {path:?} is never written, because files named so hold secrets ({}); go on without it",
        SECRET_FILES.join(", ")
    )]
    SecretTarget { path: String },
    #[error(
        "protected: {path:?} is never written, because it decides what may run here ({}); only people change it",
        PROTECTED_NAMES.join(", ")
    )]
    Protected { path: String },
    #[error("out_of_reach: {path:?} belongs to this program itself; go on without it")]
    Own { path: String },
    #[error(
        "no_permission: {path:?} must not be written by the user that runs this program; go on without it"
    )]
    NotWritable { path: String },
    #[error("no_folder: there is no folder {path:?}; set create_folders to true to have it made")]
    NoFolder { path: String },
    #[error("invalid_patch: {why}")]
    InvalidPatch { why: String },
    #[error("does_not_fit: {path:?}: {why}")]
    HunkMisfit { path: String, why: String },
    #[error("{reason}; {}", was_put_back(left))]
    PatchBroken {
        #[source]
        reason: Box<FileError>,
        left: Vec<String>,
    },
    #[error("too_big: {what}")]
    TooBig { what: String },
    #[error("write_failed: {path:?} cannot be written: {source}")]
    WriteFailed { path: String, source: io::Error },
    #[error(
        "no_permission: {path:?} must not be read by the user that runs this program; go on without it"
    )]
    NoPermission { path: String },
    #[error("invalid_path: {path:?} {why}")]
    InvalidPath { path: String, why: &'static str },
    #[error("invalid_pattern: {why}")]
    InvalidPattern { why: String },
    #[error("invalid_glob: {glob:?} is not a valid glob: {why}")]
    InvalidGlob { glob: String, why: String },
    #[error("past_the_end: {path:?} has {lines}; start_line {start} is past its end")]
    PastTheEnd {
        path: String,
        lines: String,
        start: u64,
    },
    #[error("io_error: {path:?} cannot be read: {source}")]
    Io { path: String, source: io::Error },
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(path) => format!("did you mean {path:?}?"),
        None => "list_files shows what there is".to_owned(),
    }
}

fn was_put_back(left: &[String]) -> String {
    if left.is_empty() {
        "no file was changed".to_owned()
    } else {
        format!(
            "these files were changed and could not be put back: {}",
            left.join(", ")
        )
    }
}

impl FileError {
    /// Names the cause of an error that the file system gave for a path. A missing file has no suggestion yet.
    pub(super) fn from_io(path: &Path, source: io::Error) -> Self {
        let escapes =
            source.kind() == io::ErrorKind::PermissionDenied && source.raw_os_error().is_none();
        let path = shown(path);
        match source.kind() {
            // The file system's own refusals carry its number; the one without is the sandbox's.
            _ if escapes => Self::OutsideRoot { path },
            io::ErrorKind::PermissionDenied => Self::NoPermission { path },
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound {
                path,
                suggestion: None,
            },
            io::ErrorKind::IsADirectory => Self::IsFolder { path },
            io::ErrorKind::InvalidFilename => Self::InvalidPath {
                path,
                why: "is too long or not a possible name",
            },
            _ => Self::Io { path, source },
        }
    }
}

impl FileError {
    /// Names the cause of an error that the file system gave when a path was to be written.
    pub(super) fn from_write(path: &Path, source: io::Error) -> Self {
        match Self::from_io(path, source) {
            Self::NoPermission { path } => Self::NotWritable { path },
            Self::Io { path, source } => Self::WriteFailed { path, source },
            other => other,
        }
    }
}

impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        let message = error.to_string();
        match error {
            FileError::Io { .. } | FileError::WriteFailed { .. } | FileError::Cancelled(_) => {
                Self::temporary(message)
            }
            _ => Self::permanent(message),
        }
    }
}

/// Writes a path the way the tools do everywhere: relative to the top of the project, with `/`, the top itself as `.`.
pub(super) fn shown(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}
