//! Makes sure that what is kept goes into a file of one's own: no link that leads elsewhere, nothing that another user put
//! there, and nothing that others can read.
//!
//! Only the last part of a path is looked at. Whoever can write to a folder above can put another file in its place between
//! the look and the use of it.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Why a file or a folder is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnsafeFile {
    /// The last part of the path is a symbolic link, whose target another could change.
    #[error("{} is a symbolic link: name the place itself", path.display())]
    Link {
        /// The file or folder.
        path: PathBuf,
    },
    /// It is something else, such as a device or a pipe.
    #[error("{} is not a {expected}", path.display())]
    Other {
        /// The file or folder.
        path: PathBuf,
        /// What had to be there.
        expected: &'static str,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to another user (uid {owner}): what is kept there is theirs to change", path.display())]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Others can write to it, and that cannot be changed.
    #[error("others can write to {}: take that from them with `chmod go-w`", path.display())]
    Writable {
        /// The file or folder.
        path: PathBuf,
    },
}

/// What has to be there.
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

/// Checks a file if it is there, without opening it: to close it again would let go of locks that this process has on it.
pub(crate) fn check_file(path: &Path) -> Result<(), UnsafeFile> {
    check_path(path, Expected::File)
}

/// Checks a folder if it is there.
pub(crate) fn check_folder(path: &Path) -> Result<(), UnsafeFile> {
    check_path(path, Expected::Folder)
}

/// Makes a folder, and those above it that are missing, for nobody else to read.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file to append to it and to look at its end, makes it if it is missing, and checks what was opened.
pub(crate) fn append_to(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).read(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;

        use rustix::fs::OFlags;

        // A pipe without a reader would be waited for.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    // Says that it is a link, where that is why it cannot be opened.
    check_file(path).map_err(io::Error::other)?;
    let file = options.open(path)?;
    check(path, &file.metadata()?, Expected::File).map_err(io::Error::other)?;
    tighten_file(path);
    Ok(file)
}

/// Takes from others what they can do with one's own file, if anything: what was said is not theirs to read.
pub(crate) fn tighten_file(path: &Path) {
    #[cfg(unix)]
    owned::tighten(path, FORBIDDEN_WITH_FILES);
}

/// Takes from others that they can put something into one's own folder.
pub(crate) fn tighten_folder(path: &Path) {
    #[cfg(unix)]
    owned::tighten(path, WRITABLE_BY_OTHERS);
}

/// What of a mode lets others write.
#[cfg(unix)]
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// What of a mode nobody else has any use for.
#[cfg(unix)]
const FORBIDDEN_WITH_FILES: u32 = 0o077;

fn check_path(path: &Path, expected: Expected) -> Result<(), UnsafeFile> {
    match path.symlink_metadata() {
        Ok(found) => check(path, &found, expected),
        // It is not there, or nobody here can tell: whoever uses it finds out.
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

    /// The user to whom the system belongs.
    const ROOT: u32 = 0;

    /// Refuses what is another user's, and what is not ours to change and others can write to.
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
                %path, "others could use it: its mode was changed from {mode:o} to {tightened:o}"
            ),
            Err(error) => tracing::warn!(
                %path, %error, "others can use it, and its mode {mode:o} cannot be changed to {tightened:o}"
            ),
        }
    }
}
