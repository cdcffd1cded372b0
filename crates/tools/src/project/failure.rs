//! Why a file tool failed. Each message begins with a stable code and ends with advice.

use std::fmt;
use std::io;
use std::path::Path;

use neuraxis_core::{SECRET_FILES, escaped};
use neuraxis_ports::ToolError;

use super::secret::PROTECTED_NAMES;
use crate::blocking::Cancelled;

/// Not a [`std::error::Error`]: it is converted to a [`ToolError`] that says whether a retry would fail again, and any
/// standard error would become one that does not.
#[derive(Debug)]
pub(super) enum FileError {
    /// The project's folder no longer exists, or another folder has its path.
    RootGone,
    OutsideRoot {
        path: String,
    },
    NotFound {
        path: String,
        suggestion: Option<String>,
    },
    IsFolder {
        path: String,
    },
    NotFolder {
        path: String,
    },
    NotRegular {
        path: String,
    },
    Secret {
        path: String,
    },
    SecretTarget {
        path: String,
    },
    Protected {
        path: String,
    },
    PartOfRepository {
        path: String,
    },
    NamedByGit {
        path: String,
    },
    OfProgram {
        path: String,
    },
    NotWritable {
        path: String,
    },
    NoFolder {
        path: String,
    },
    Utf16 {
        path: String,
    },
    NotUtf8 {
        path: String,
    },
    InvalidPatch {
        why: String,
    },
    HunkMisfit {
        path: String,
        why: String,
    },
    PatchBroken {
        reason: Box<FileError>,
        left: Vec<String>,
    },
    TooBig {
        what: String,
    },
    WriteFailed {
        path: String,
        source: io::Error,
    },
    NoPermission {
        path: String,
    },
    InvalidPath {
        path: String,
        why: &'static str,
    },
    InvalidPattern {
        why: String,
    },
    InvalidGlob {
        glob: String,
        why: String,
    },
    PastTheEnd {
        path: String,
        lines: String,
        start: u64,
    },
    Io {
        path: String,
        source: io::Error,
    },
    Cancelled(Cancelled),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = quoted(self.name());
        match self {
            Self::RootGone => f.write_str(
                "project_gone: the project folder was deleted or replaced while this program had it open, and is \
                 unavailable until the program is restarted (for a server, SIGHUP is enough); tell the user",
            ),
            Self::OutsideRoot { .. } => write!(
                f,
                "outside_root: {path} leads outside the project folder; use a path inside it, relative to its top"
            ),
            Self::NotFound { suggestion, .. } => {
                let advice = did_you_mean(suggestion.as_deref());
                write!(f, "not_found: there is no {path} in the project; {advice}")
            }
            Self::IsFolder { .. } => write!(
                f,
                "is_a_folder: {path} is a folder; list it with list_files"
            ),
            Self::NotFolder { .. } => {
                write!(f, "not_a_folder: {path} is a file; read it with read_file")
            }
            Self::NotRegular { .. } => write!(
                f,
                "not_a_regular_file: {path} is neither a file nor a folder, but something like a pipe, socket or device; skip it"
            ),
            Self::Secret { .. } => write_secret(f, &path, "read"),
            Self::SecretTarget { .. } => write_secret(f, &path, "written"),
            Self::Protected { .. } => {
                let names = PROTECTED_NAMES.join(", ");
                let why = format!("it decides what may run here ({names})");
                write_protected(f, &path, &why)
            }
            Self::PartOfRepository { .. } => write_protected(f, &path, PART_OF_REPOSITORY),
            Self::NamedByGit { .. } => write_protected(f, &path, NAMED_BY_GIT),
            Self::OfProgram { .. } => write!(
                f,
                "out_of_reach: {path} belongs to this program itself; continue without it"
            ),
            Self::NotWritable { .. } => write!(
                f,
                "no_permission: the user who runs this program may not write {path}; continue without it"
            ),
            Self::NoFolder { .. } => write!(
                f,
                "no_folder: there is no folder {path}; set create_folders to true to create it"
            ),
            Self::Utf16 { .. } => write!(
                f,
                "is_utf_16: {path} is in UTF-16, which this tool does not write; change it with a command that keeps \
                 the encoding, or convert it to UTF-8 first, for example with `iconv -f UTF-16 -t UTF-8`"
            ),
            Self::NotUtf8 { .. } => write!(
                f,
                "is_not_utf_8: {path} is not in UTF-8, and this tool writes nothing else; change it with a command that \
                 keeps the encoding, or convert it to UTF-8 first, for example with `iconv -f CP932 -t UTF-8` if it is \
                 in Shift-JIS"
            ),
            Self::InvalidPatch { why } => write!(f, "invalid_patch: {why}"),
            Self::HunkMisfit { why, .. } => write!(f, "does_not_fit: {path}: {why}"),
            Self::PatchBroken { reason, left } => write!(f, "{reason}; {}", was_put_back(left)),
            Self::TooBig { what } => write!(f, "too_big: {what}"),
            Self::WriteFailed { source, .. } => {
                write!(f, "write_failed: {path} cannot be written: {source}")
            }
            Self::NoPermission { .. } => write!(
                f,
                "no_permission: the user who runs this program may not read {path}; continue without it"
            ),
            Self::InvalidPath { why, .. } => write!(f, "invalid_path: {path} {why}"),
            Self::InvalidPattern { why } => write!(f, "invalid_pattern: {why}"),
            Self::InvalidGlob { why, .. } => {
                write!(f, "invalid_glob: {path} is not a valid glob: {why}")
            }
            Self::PastTheEnd { lines, start, .. } => write!(
                f,
                "past_the_end: {path} has {lines}; start_line {start} is past its end"
            ),
            Self::Io { source, .. } => write!(f, "io_error: {path} cannot be read: {source}"),
            Self::Cancelled(cancelled) => cancelled.fmt(f),
        }
    }
}

/// Why a file that would turn a folder into a repository is never written.
const PART_OF_REPOSITORY: &str = "with the files beside it, git would take the folder for a repository and run what it configures";

/// Why a file that a repository's configuration names is never written.
const NAMED_BY_GIT: &str =
    "the configuration of the repository names it, and git reads or runs what it contains";

fn write_protected(f: &mut fmt::Formatter<'_>, path: &str, why: &str) -> fmt::Result {
    write!(
        f,
        "protected: {path} is never written, because {why}; only the user may change it"
    )
}

fn write_secret(f: &mut fmt::Formatter<'_>, path: &str, done: &str) -> fmt::Result {
    let names = SECRET_FILES.join(", ");
    write!(
        f,
        "secret_file: {path} is never {done}, because files with such names hold secrets ({names}); continue without it"
    )
}

impl From<Cancelled> for FileError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(path) => format!("did you mean {}?", quoted(path)),
        None => "list_files shows what there is".to_owned(),
    }
}

fn was_put_back(left: &[String]) -> String {
    if left.is_empty() {
        "no file was changed".to_owned()
    } else {
        format!(
            "these files were changed and could not be restored: {}",
            left.join(", ")
        )
    }
}

impl FileError {
    /// Returns the path or the glob that the error is about; empty if it is about neither.
    fn name(&self) -> &str {
        match self {
            Self::OutsideRoot { path }
            | Self::NotFound { path, .. }
            | Self::IsFolder { path }
            | Self::NotFolder { path }
            | Self::NotRegular { path }
            | Self::Secret { path }
            | Self::SecretTarget { path }
            | Self::Protected { path }
            | Self::PartOfRepository { path }
            | Self::NamedByGit { path }
            | Self::OfProgram { path }
            | Self::NotWritable { path }
            | Self::NoFolder { path }
            | Self::Utf16 { path }
            | Self::NotUtf8 { path }
            | Self::HunkMisfit { path, .. }
            | Self::WriteFailed { path, .. }
            | Self::NoPermission { path }
            | Self::InvalidPath { path, .. }
            | Self::PastTheEnd { path, .. }
            | Self::Io { path, .. } => path,
            Self::InvalidGlob { glob, .. } => glob,
            _ => "",
        }
    }

    /// Converts a file system error that occurred for a path. A missing file has no suggestion yet.
    pub(super) fn from_io(path: &Path, source: io::Error) -> Self {
        let escapes =
            source.kind() == io::ErrorKind::PermissionDenied && source.raw_os_error().is_none();
        let path = shown(path);
        match source.kind() {
            // The file system's own errors have an error number; the one without comes from `cap-std`'s path
            // confinement.
            _ if escapes => Self::OutsideRoot { path },
            io::ErrorKind::PermissionDenied => Self::NoPermission { path },
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound {
                path,
                suggestion: None,
            },
            io::ErrorKind::IsADirectory => Self::IsFolder { path },
            io::ErrorKind::InvalidFilename => Self::InvalidPath {
                path,
                why: "is too long or not a valid name",
            },
            _ => Self::Io { path, source },
        }
    }
}

impl FileError {
    /// Converts a file system error that occurred when writing a path.
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

/// Formats a path the way all tools do: relative to the project root, with `/`, and the root itself as `.`.
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

/// Quotes a name for a message, without characters that would hide or move the rest of it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", escaped(name.chars(), &['\'']))
}
