//! Reads and writes the file of the answers: nobody else's, no link, never half, and by one at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::private_file::{Links, make_folder, open_regular, others_may};

/// The most bytes of the file.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// How long is waited for others who change the file, which takes each of them milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long until the lock is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// Why the answers cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There is no folder to keep them in.
    #[error("there is no folder for your data, so that nothing can be remembered; set HOME")]
    NoDataFolder,
    /// The folder cannot be written down.
    #[error("{}: the name of the folder is not Unicode; name its file with --config", folder.display())]
    NotUnicode {
        /// The folder.
        folder: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("cannot {doing} {}", file.display())]
    Io {
        /// What was tried: `read`, `write`, `lock` or `remove`.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Somebody else may have written the file.
    #[error("{} is a link, no file, or can be written by others; remove it", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The file holds something else.
    #[error("{} does not hold what you trust; remove it", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
}

impl TrustError {
    /// Says why a file cannot be used, with what the operating system said.
    pub(crate) fn in_full(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// Reads the file; nothing where it is not there.
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
    // What root owns comes with an image or a deployment.
    if others_may(&metadata, 0o022) {
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

/// Writes the file anew, whole or not at all, for its owner alone.
pub(super) fn write(file: &Path, text: &str) -> Result<(), TrustError> {
    let written = (|| -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        make_folder(folder)?;
        // Each writer has a draft of its own, which nobody else can read, and which goes where it is not kept.
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

/// Keeps a file from being changed by others, in this process and beside it, from before it is read until it was written:
/// for as long as the value lives.
#[derive(Debug)]
pub struct FileLock {
    /// The file beside it, on which the operating system keeps the lock, and lets go of it when its holder dies.
    _held: File,
}

impl FileLock {
    /// Waits until nobody else changes the file.
    ///
    /// # Errors
    ///
    /// A [`TrustError`], when the lock cannot be had, or somebody else keeps it for more than five seconds.
    pub fn of(file: &Path) -> Result<Self, TrustError> {
        let failed = |source| TrustError::Io {
            doing: "lock",
            file: file.to_owned(),
            source,
        };
        let held = open_lock(file).map_err(failed)?;
        let since = Instant::now();
        loop {
            match held.try_lock() {
                Ok(()) => return Ok(Self { _held: held }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let held = "another program has it for too long";
                    return Err(failed(io::Error::new(io::ErrorKind::TimedOut, held)));
                }
            }
        }
    }
}

fn open_lock(file: &Path) -> io::Result<File> {
    let folder = file.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let mut options = OpenOptions::new();
    // It stays when the lock is let go of: whoever removed it could take it from one who just opened it.
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

/// Returns the name of a file that belongs to this one, and is not shown in lists.
fn hidden(file: &Path, ending: &str) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}{ending}")
}
