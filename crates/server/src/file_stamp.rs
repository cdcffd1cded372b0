//! Detects whether a file has changed since it was read, without reading it.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Distinguishes a file from the one that was read before, also if a link now leads to another file, or if the file was
/// refused because of its permissions and those have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    identity: InodeState,
}

/// The device, inode and mode of a file, and the time when any of these last changed.
#[cfg(unix)]
type InodeState = (u64, u64, u32, (i64, i64));

/// Not available on this platform.
#[cfg(not(unix))]
type InodeState = ();

impl FileStamp {
    /// Inspects a file, or the file that a link leads to.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            identity: identity(&metadata),
        })
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> InodeState {
    use std::os::unix::fs::MetadataExt;

    let changed = (metadata.ctime(), metadata.ctime_nsec());
    (metadata.dev(), metadata.ino(), metadata.mode(), changed)
}

#[cfg(not(unix))]
const fn identity(_metadata: &Metadata) -> InodeState {}
