//! Makes sure that stored data goes into a file of the current user: not through a symbolic link, not into a file that
//! another user put there, and not readable by others.
//!
//! Only the last component of a path is checked. A user who can write to a parent folder can replace the file between
//! the check and its use.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Why a file or a folder is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnsafeFile {
    /// The last component of the path is a symbolic link, whose target another user could change.
    #[error("{} is a symbolic link; use the path of its target", path.display())]
    Link {
        /// The file or folder.
        path: PathBuf,
    },
    /// It is something else, such as a device or a pipe.
    #[error("{} is not a {expected}", path.display())]
    Other {
        /// The file or folder.
        path: PathBuf,
        /// The kind that was required.
        expected: &'static str,
    },
    /// It belongs to another user.
    #[error("{} belongs to another user (uid {owner}), who could change its contents", path.display())]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// Others can write to it, and that cannot be changed.
    #[error("other users can write to {}; revoke that with `chmod go-w`", path.display())]
    Writable {
        /// The file or folder.
        path: PathBuf,
    },
}

/// The kind that a path must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    File,
    Folder,
}

impl Expected {
    const fn name(self) -> &'static str {
        match self {
            Self::File => "regular file",
            Self::Folder => "folder",
        }
    }
}

/// Checks a file if it exists, without opening it: closing it again would release the locks that this process has on
/// it.
pub(crate) fn check_file(path: &Path) -> Result<(), UnsafeFile> {
    check_path(path, Expected::File)
}

/// Checks a folder if it exists.
pub(crate) fn check_folder(path: &Path) -> Result<(), UnsafeFile> {
    check_path(path, Expected::Folder)
}

/// Creates a folder and its missing parents, readable only by the owner.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file to append to it and to read its end, creates it if it is missing, and checks the opened file.
pub(crate) fn append_to(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).read(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;

        use rustix::fs::OFlags;

        // Opening a pipe without a reader would block.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    // If it cannot be opened because it is a link, report that.
    check_file(path).map_err(io::Error::other)?;
    let file = options.open(path)?;
    check(path, &file.metadata()?, Expected::File).map_err(io::Error::other)?;
    tighten_file(path);
    Ok(file)
}

/// Removes other users' access to one's own file: its content is private.
pub(crate) fn tighten_file(path: &Path) {
    #[cfg(unix)]
    owned::tighten(path, FORBIDDEN_WITH_FILES);
}

/// Removes other users' permission to create files in one's own folder.
pub(crate) fn tighten_folder(path: &Path) {
    #[cfg(unix)]
    owned::tighten(path, WRITABLE_BY_OTHERS);
}

/// The mode bits that let others write.
#[cfg(unix)]
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The mode bits for group and others, who have no use for the file.
#[cfg(unix)]
const FORBIDDEN_WITH_FILES: u32 = 0o077;

fn check_path(path: &Path, expected: Expected) -> Result<(), UnsafeFile> {
    match path.symlink_metadata() {
        Ok(found) => check(path, &found, expected),
        // It does not exist, or its metadata cannot be read: using it will report why.
        Err(_) => Ok(()),
    }
}

fn check(path: &Path, found: &Metadata, expected: Expected) -> Result<(), UnsafeFile> {
    let path = || path.to_owned();
    if found.is_symlink() {
        return Err(UnsafeFile::Link { path: path() });
    }
    let fits = match expected {
        Expected::File => found.is_file(),
        Expected::Folder => found.is_dir(),
    };
    if !fits {
        let expected = expected.name();
        return Err(UnsafeFile::Other {
            path: path(),
            expected,
        });
    }
    #[cfg(unix)]
    owned::check(&path(), found)?;
    Ok(())
}

#[cfg(unix)]
mod owned {
    use std::fs::{Metadata, Permissions, set_permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::Path;

    use super::{UnsafeFile, WRITABLE_BY_OTHERS};

    /// The superuser's id.
    const ROOT: u32 = 0;

    /// Refuses a file of another user other than the superuser, and a file of the superuser that others can write to.
    pub(super) fn check(path: &Path, found: &Metadata) -> Result<(), UnsafeFile> {
        let owner = found.uid();
        let us = rustix::process::geteuid().as_raw();
        if owner == us {
            return Ok(());
        }
        let path = path.to_owned();
        match found.mode() & WRITABLE_BY_OTHERS {
            _ if owner != ROOT => Err(UnsafeFile::Foreign { path, owner }),
            0 => Ok(()),
            _ => Err(UnsafeFile::Writable { path }),
        }
    }

    pub(super) fn tighten(path: &Path, forbidden: u32) {
        let Ok(found) = path.symlink_metadata() else {
            return;
        };
        let mode = found.mode() & 0o7777;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        if mode & forbidden == 0 || !is_ours || found.is_symlink() {
            return;
        }
        let tightened = mode & !forbidden;
        let changed = set_permissions(path, Permissions::from_mode(tightened));
        let path = path.display();
        match changed {
            Ok(()) => tracing::warn!(
                %path, "other users had access; changed the mode from {mode:o} to {tightened:o}"
            ),
            Err(error) => tracing::warn!(
                %path, %error, "other users have access, and changing the mode from {mode:o} to {tightened:o} failed"
            ),
        }
    }
}
