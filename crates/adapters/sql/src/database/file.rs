//! The file of a database of SQLite: which one a URL names, whose it is, and that nobody else can read it.
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
    // A database in memory would be another one for each connection.
    let is_file = !path.is_empty() && !path.starts_with(':') && !path.contains(['?', '\0']);
    is_file.then(|| PathBuf::from(path))
}

/// Which file a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAtPlace {
    /// None.
    Gone,
    /// That with this number on this device.
    #[cfg_attr(not(unix), expect(dead_code, reason = "files have no numbers there"))]
    There { device: u64, number: u64 },
}

/// Looks which file a path names, without opening it. `None` where nobody here can tell.
pub(super) fn at_place(path: &Path) -> Option<FileAtPlace> {
    match path.metadata() {
        #[cfg(unix)]
        Ok(found) => {
            use std::os::unix::fs::MetadataExt as _;

            let (device, number) = (found.dev(), found.ino());
            Some(FileAtPlace::There { device, number })
        }
        #[cfg(not(unix))]
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => Some(FileAtPlace::Gone),
        Err(_) => None,
    }
}

/// How a file of SQLite begins (<https://www.sqlite.org/fileformat2.html#the_database_header>).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The bytes of the header.
const BYTES: u64 = 100;

/// What stands in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Whose it is; 0 if nobody said so.
    pub(crate) application: i64,
    /// Which version of a schema it has; 0 if nobody said so.
    pub(crate) version: i64,
    /// Whether anything was ever made in it.
    pub(crate) was_used: bool,
}

/// Reads the header of a file before anything opens it in earnest: SQLite would change some of it when it turns the file into
/// one with a write-ahead log. What a log beside the file holds is not seen here; it is looked at again once it is open.
/// `None` for a new one, and for what is no file of SQLite or cannot be read, which opening it tells better.
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

/// What SQLite adds to the name of a file for its write-ahead log.
const LOG: &str = "-wal";

/// What SQLite adds to the name of a file for those that it keeps beside it.
const BESIDE: [&str; 3] = [LOG, "-shm", "-journal"];

fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    BESIDE.into_iter().map(move |ending| with(path, ending))
}

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut file = path.to_owned().into_os_string();
    file.push(ending);
    file.into()
}

/// Refuses a file that is missing or empty beside its write-ahead log, as where it was moved without it: SQLite deletes the log of
/// an empty file, and all that it holds.
fn check_log(path: &Path) -> Result<(), OpenError> {
    let length = |path: &Path| path.metadata().map_or(0, |found| found.len());
    let log = with(path, LOG);
    // The log first: whoever makes a new file meanwhile writes its header before there is a log.
    if length(&log) == 0 || length(path) > 0 {
        return Ok(());
    }
    let (path, log) = (path.display(), log.display());
    Err(OpenError::Store(StoreError::Refused(format!(
        "{path}: the file is missing or empty, and {log} still holds what was written to it: put the file back beside it, or end all \
         programs that use it and move {log} to where the file is now, under its name with -wal; for a new file move {log} away"
    ))))
}

/// Takes from others what they can do with the file and those beside it. Only once it is known to be ours to change: a
/// file of another program is left alone.
pub(crate) fn tighten(path: &Path) {
    own_file::tighten_file(path);
    beside(path).for_each(|file| own_file::tighten_file(&file));
}

/// Makes the file if neither it nor its log is there, for nobody else to read, and makes sure that it is one's own. SQLite gives the
/// same rights to the files beside it.
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
    fn a_path_may_be_absolute_or_not_and_must_be_a_file() {
        let path = |url| path(url).map(|path| path.display().to_string());
        assert_eq!(path("sqlite:///var/a b.db"), Some("/var/a b.db".to_owned()));
        assert_eq!(path("sqlite://a.db"), Some("a.db".to_owned()));
        assert_eq!(path("sqlite:a.db"), Some("a.db".to_owned()));
        for url in ["sqlite:", "sqlite::memory:", "sqlite://a.db?mode=ro"] {
            assert_eq!(path(url), None, "{url}");
        }
    }
}
