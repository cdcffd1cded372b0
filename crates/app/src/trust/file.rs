//! Reads and writes the file of decisions: only the user's own file, no link, never partially, and by one process at a
//! time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::private_file::{Links, is_accessible_to_others, make_folder, open_regular};

/// The maximum size of the file in bytes.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// How long to wait for other processes that change the file, each of which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before trying the lock again.
const PAUSE: Duration = Duration::from_millis(5);

/// Why the decisions cannot be read or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There is no folder to store them in.
    #[error("there is no data folder, so nothing can be remembered; set HOME")]
    NoDataFolder,
    /// The path of the folder cannot be written as text.
    #[error("{}: the name of the folder is not Unicode; name its file with --config", folder.display())]
    NotUnicode {
        /// The folder.
        folder: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("cannot {doing} {}", file.display())]
    Io {
        /// The attempted operation: `read`, `write`, `lock` or `remove`.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another user may have written the file.
    #[error("{} is a link, not a regular file, or writable by other users; remove it", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The file contains something else.
    #[error("{} is not a list of what you trust; remove it", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
}

impl TrustError {
    /// Returns why a file cannot be used, with the error of the operating system.
    pub(crate) fn in_full(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// Reads the file; `None` if it does not exist.
pub(super) fn read(file: &Path) -> Result<Option<String>, TrustError> {
    let failed = |source| TrustError::Io {
        doing: "read",
        file: file.to_owned(),
        source,
    };
    let foreign = || TrustError::Foreign {
        file: file.to_owned(),
    };
    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.is_file() => return Err(foreign()),
        Ok(_) => {}
    }
    let opened = open_regular(file, Links::Refused).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    // Files owned by root come with an image or a deployment.
    if is_accessible_to_others(&metadata, 0o022) {
        return Err(foreign());
    }
    let mut text = String::new();
    let mut bounded = opened.take(MAX_BYTES + 1);
    bounded.read_to_string(&mut text).map_err(failed)?;
    if bounded.limit() == 0 {
        return Err(TrustError::Damaged {
            file: file.to_owned(),
        });
    }
    Ok(Some(text))
}

/// Rewrites the file, completely or not at all, readable only by its owner.
pub(super) fn write(file: &Path, text: &str) -> Result<(), TrustError> {
    let written = (|| -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        make_folder(folder)?;
        // Each writer has its own temporary file, which other users cannot read, and which is deleted if it is not
        // kept.
        let mut draft = tempfile::Builder::new()
            .prefix(&hidden(file, "."))
            .tempfile_in(folder)?;
        draft.write_all(text.as_bytes())?;
        draft.as_file().sync_all()?;
        draft.persist(file).map_err(|error| error.error)?;
        Ok(())
    })();
    written.map_err(|source| TrustError::Io {
        doing: "write",
        file: file.to_owned(),
        source,
    })
}

/// Keeps other threads and processes from changing a file while this value lives: from before the file is read until it
/// is written.
#[derive(Debug)]
pub struct FileLock {
    /// A file next to it that holds the lock. The operating system releases the lock when the holder dies.
    _held: File,
}

impl FileLock {
    /// Waits until no other process changes the file.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if locking fails, or another process holds the lock for more than five seconds.
    pub fn of(file: &Path) -> Result<Self, TrustError> {
        let failed = |source| TrustError::Io {
            doing: "lock",
            file: file.to_owned(),
            source,
        };
        let lock = open_lock(file).map_err(failed)?;
        let since = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { _held: lock }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let message = "another program has held it for too long";
                    return Err(failed(io::Error::new(io::ErrorKind::TimedOut, message)));
                }
            }
        }
    }
}

fn open_lock(file: &Path) -> io::Result<File> {
    let folder = file.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let mut options = OpenOptions::new();
    // The file remains when the lock is released: removing it could affect a process that has just opened it.
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options.open(folder.join(hidden(file, ".lock")))
}

/// Returns the name of a hidden file that belongs to this one.
fn hidden(file: &Path, ending: &str) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}{ending}")
}
