//! Opens files that somebody else may have put in their place, and makes those that are the user's alone.
//!
//! Not for what such a file holds: the module that needs it knows.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// What becomes of a name that is a symlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// The file that it leads to is opened: whoever named it knows where it leads, and secrets are mounted so.
    Followed,
    /// It is an error: nobody named it.
    Refused,
}

/// Reads a regular file of at most this many bytes.
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

/// Opens a regular file for reading. Anything else (a pipe, a device, a folder) is an error, and is not waited for.
pub(crate) fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // Opening a device may already do something.
    if links == Links::Followed && !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let file = open(path, links)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file()),
    }
}

/// Opens a file for reading, whatever it is. A pipe without a writer is not waited for.
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

/// Tells whether others may do with a file what is forbidden, as bits of its mode, or own it. What the system owns is trusted.
#[cfg(unix)]
pub(crate) fn others_may(metadata: &Metadata, forbidden: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    /// The user to whom the system belongs.
    const ROOT: u32 = 0;
    let us = rustix::process::geteuid().as_raw();
    metadata.mode() & forbidden != 0 || (metadata.uid() != us && metadata.uid() != ROOT)
}

#[cfg(not(unix))]
pub(crate) fn others_may(_metadata: &Metadata, _forbidden: u32) -> bool {
    false
}

/// Makes a folder of the user's alone, and those above it, if they are not there.
///
/// # Errors
///
/// What the operating system said.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a secret to a new file of the user's alone, in a folder that is made if need be. It has no name of its own yet.
pub(crate) fn write_private(folder: &Path, secret: &str) -> io::Result<NamedTempFile> {
    make_folder(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    writeln!(file, "{secret}")?;
    file.as_file().sync_all()?;
    Ok(file)
}
