//! Tells whether a file is still as it was when it was read, without reading it.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// What tells a file from the one that was read before: also one that another link leads to, and one that was refused for who
/// can read or change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    identity: Identity,
}

/// The device, the number and the mode of a file, and when any of that was last changed.
#[cfg(unix)]
type Identity = (u64, u64, u32, (i64, i64));

/// Nothing, here.
#[cfg(not(unix))]
type Identity = ();

impl FileStamp {
    /// Looks at a file, or at what a link leads to.
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
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;

    let changed = (metadata.ctime(), metadata.ctime_nsec());
    (metadata.dev(), metadata.ino(), metadata.mode(), changed)
}

#[cfg(not(unix))]
const fn identity(_metadata: &Metadata) -> Identity {}
