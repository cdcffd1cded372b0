//! Reads and writes the file of the answers: nobody else's, no link, and never half.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The most bytes of the file.
const MAX_BYTES: u64 = 1024 * 1024;

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
        /// What was tried: `read` or `write`.
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
    if !is_ours_alone(&metadata) {
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
    let written = (|| {
        let folder = file.parent().unwrap_or(Path::new("."));
        crate::approval_key::make_folder(folder)?;
        // Of several processes each has its own draft; the last one to rename counts.
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let draft = folder.join(format!(".{name}.{}", std::process::id()));
        // A draft of a process that died under the same number.
        let _ = fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut opened = options.open(&draft)?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&draft, file)
    })();
    written.map_err(|source| TrustError::Io {
        doing: "write",
        file: file.to_owned(),
        source,
    })
}

/// What becomes of a name that is a symlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// The file that it leads to is opened.
    Followed,
    /// It is an error.
    Refused,
}

/// Opens a regular file for reading. Anything else (a pipe, a device, a folder) is an error, and is not waited for.
pub(crate) fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // Opening a device may already do something.
    if links == Links::Followed && !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        if links == Links::Refused {
            flags |= OFlags::NOFOLLOW;
        }
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file()),
    }
}

#[cfg(unix)]
fn is_ours_alone(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_ours_alone(_metadata: &Metadata) -> bool {
    true
}
