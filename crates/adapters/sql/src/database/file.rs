//! The file of a SQLite database: its path from the URL, its owner, and its privacy from other users.
#![cfg_attr(
    not(feature = "sqlite"),
    expect(dead_code, reason = "a file is named, and none is made")
)]

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use neuraxis_ports::StoreError;

use crate::error::OpenError;
use crate::own_file;

/// Returns the file that a URL names, if it names one.
pub(crate) fn path(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    // An in-memory database would be a different one for each connection.
    let is_file = !path.is_empty() && !path.starts_with(':') && !path.contains(['?', '\0']);
    is_file.then(|| PathBuf::from(path))
}

/// The identity of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// No file exists.
    Missing,
    /// The file with this number (inode) on this device.
    #[cfg_attr(not(unix), expect(dead_code, reason = "files have no numbers there"))]
    Present { device: u64, number: u64 },
}

/// Looks up which file is at a path, without opening it. `None` if this cannot be determined.
pub(super) fn file_identity(path: &Path) -> Option<FileIdentity> {
    match path.metadata() {
        #[cfg(unix)]
        Ok(found) => {
            use std::os::unix::fs::MetadataExt as _;

            let (device, number) = (found.dev(), found.ino());
            Some(FileIdentity::Present { device, number })
        }
        #[cfg(not(unix))]
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => Some(FileIdentity::Missing),
        Err(_) => None,
    }
}

/// The first bytes of a SQLite file (<https://www.sqlite.org/fileformat2.html#the_database_header>).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The length of the header in bytes.
const BYTES: u64 = 100;

/// The parts of a header that the store needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The application id; 0 if unset.
    pub(crate) application: i64,
    /// The version of the schema; 0 if unset.
    pub(crate) version: i64,
    /// Whether anything was ever created in the file.
    pub(crate) was_used: bool,
}

/// Reads the header of a file before SQLite opens it, which would change the header to turn the file into one with a
/// write-ahead log. This does not see what is in an existing log; the check is repeated once the file is open. `None`
/// for a new file, and for a file that is not SQLite's or cannot be read: opening it reports that better.
pub(super) fn header_of(path: &Path) -> Option<Header> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(BYTES).read_to_end(&mut bytes).ok()?;
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk::<4>()?;
        Some(i64::from(u32::from_be_bytes(*bytes)))
    };
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    Some(Header {
        application: number(68)?,
        version: number(60)?,
        was_used: number(40)? != 0,
    })
}

/// The suffix of the write-ahead log's file.
pub(super) const LOG: &str = "-wal";

/// The suffix of the file with the index of the write-ahead log, which exists while a program uses the database.
pub(super) const INDEX: &str = "-shm";

/// The suffix of the journal of a database without a write-ahead log.
pub(super) const JOURNAL: &str = "-journal";

/// The suffixes of the files that SQLite keeps beside a database.
const BESIDE: [&str; 3] = [LOG, INDEX, JOURNAL];

fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    BESIDE.into_iter().map(move |ending| with(path, ending))
}

/// Returns the file beside a database whose name has this suffix.
pub(super) fn with(path: &Path, ending: &str) -> PathBuf {
    let mut file = path.to_owned().into_os_string();
    file.push(ending);
    file.into()
}

/// Refuses a file that is missing or empty while its write-ahead log has content, for example because it was moved
/// without the log. SQLite would delete the log of an empty file, with everything in it.
fn check_log(path: &Path) -> Result<(), OpenError> {
    let length = |path: &Path| path.metadata().map_or(0, |found| found.len());
    let log = with(path, LOG);
    // Check the log first: a process that is creating the file writes its header before the log exists.
    if length(&log) == 0 || length(path) > 0 {
        return Ok(());
    }
    let (path, log) = (path.display(), log.display());
    Err(OpenError::Store(StoreError::Refused(format!(
        "{path}: the file is missing or empty, but {log} still contains data written to it; put the file back next to \
         it, or end all programs that use it and move {log} next to the file's new location, named like the file with \
         -wal added; to start a new file, move {log} away"
    ))))
}

/// Removes other users' access to the file and those beside it. Call this only once the file is known to be ours:
/// another program's file is left alone.
pub(crate) fn tighten(path: &Path) {
    own_file::tighten_file(path);
    beside(path).for_each(|file| own_file::tighten_file(&file));
}

/// Creates the file, readable only by its owner, if neither it nor its log exists, and checks that it is safe to use.
/// SQLite gives the files beside it the same permissions.
pub(super) fn create(path: &Path) -> Result<(), OpenError> {
    for file in beside(path) {
        own_file::check_file(&file)?;
    }
    check_log(path)?;
    let failed = |path: &Path, source| OpenError::File {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        let made = own_file::make_folder(folder);
        made.map_err(|error| failed(folder, error))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(own_file::check_file(path)?),
        Err(error) => Err(failed(path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_path_may_be_relative_or_absolute_but_must_be_a_plain_file() {
        let path = |url| path(url).map(|path| path.display().to_string());
        assert_eq!(path("sqlite:///var/a b.db"), Some("/var/a b.db".to_owned()));
        assert_eq!(path("sqlite://a.db"), Some("a.db".to_owned()));
        assert_eq!(path("sqlite:a.db"), Some("a.db".to_owned()));
        for url in ["sqlite:", "sqlite::memory:", "sqlite://a.db?mode=ro"] {
            assert_eq!(path(url), None, "{url}");
        }
    }
}
