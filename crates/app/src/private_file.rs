//! Opens files that another user may have replaced, and creates files that only the user can access.
//!
//! Does not interpret the content of such a file; the module that needs it does.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// How to treat a symlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Open its target: the user named the link and knows where it leads, and secrets are mounted as links.
    Followed,
    /// Return an error: the user did not name it.
    Refused,
}

/// Reads a regular file of at most `most` bytes.
pub(crate) fn read_regular(path: &Path, links: Links, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path, links)?;
    let mut bytes = Vec::new();
    let mut bounded = file.take(most.saturating_add(1));
    bounded.read_to_end(&mut bytes)?;
    if bounded.limit() == 0 {
        let message = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Opens a regular file for reading. Anything else (a pipe, a device, a folder) is an error, and never blocks.
pub(crate) fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // Opening a device may already have an effect.
    if links == Links::Followed && !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let file = open(path, links)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file()),
    }
}

/// Opens a file of any kind for reading. Does not block on a pipe without a writer.
pub(crate) fn open(path: &Path, links: Links) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;

        use rustix::fs::OFlags;

        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, links == Links::Refused);
        options.custom_flags(flags.bits().cast_signed());
    }
    options.open(path)
}

/// Returns whether other users have one of the `forbidden` mode bits on a file, or own it. Files owned by root are
/// trusted.
#[cfg(unix)]
pub(crate) fn is_accessible_to_others(metadata: &Metadata, forbidden: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    /// The user id of root.
    const ROOT: u32 = 0;
    let us = rustix::process::geteuid().as_raw();
    metadata.mode() & forbidden != 0 || (metadata.uid() != us && metadata.uid() != ROOT)
}

#[cfg(not(unix))]
pub(crate) fn is_accessible_to_others(_metadata: &Metadata, _forbidden: u32) -> bool {
    false
}

/// Creates a folder that only the user can access, and its missing parents.
///
/// # Errors
///
/// The error of the operating system.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a secret to a new file that only the user can access, creating the folder if needed. The file is still
/// temporary.
pub(crate) fn write_private(folder: &Path, secret: &str) -> io::Result<NamedTempFile> {
    make_folder(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    writeln!(file, "{secret}")?;
    file.as_file().sync_all()?;
    Ok(file)
}
