//! A file of SQLite.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Error, SqliteConnection};
use tokio::time::Instant;

use super::{Database, Dialect, Pools};
use crate::config::{Durability, SqlConfig};
use crate::error::{OpenError, is_locked};
use crate::lease_clock::LeaseClock;
use crate::own_file;

/// The pause before a locked file is tried again.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn prepare(config: &SqlConfig) -> Result<Database, OpenError> {
    let path = path(&config.url).ok_or_else(|| OpenError::Url {
        url: config.url.clone(),
    })?;
    create(&path)?;
    // It can be set for a new file only, and setting it again would write, even to a full disk.
    let is_new = header_of(&path).is_none_or(|header| !header.was_used);
    let synchronous = match config.durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    let common = SqliteConnectOptions::new()
        .filename(&path)
        .busy_timeout(config.patience)
        .synchronous(synchronous);
    let mut writer = common
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        // What is deleted is overwritten, not just forgotten.
        .pragma("secure_delete", "ON");
    if is_new {
        writer = writer.auto_vacuum(SqliteAutoVacuum::Incremental);
    }
    if let Some(pages) = config.max_pages {
        writer = writer.pragma("max_page_count", pages.to_string());
    }
    let readers = SqlitePoolOptions::new()
        .max_connections(config.max_connections.max(1))
        .acquire_timeout(config.patience.max(Duration::from_secs(1)))
        .connect_lazy_with(common.read_only(true));
    Ok(Database {
        place: path.display().to_string(),
        dialect: Dialect::Sqlite,
        lease_clock: LeaseClock::new(),
        patience: config.patience,
        pools: Pools::Sqlite { writer, readers },
    })
}

/// Connects. While another process makes a new file one with a write-ahead log, SQLite says at once that it is locked, and
/// not only after the patience: then it is tried again for as long.
pub(super) async fn connect(
    options: &SqliteConnectOptions,
    patience: Duration,
) -> Result<SqliteConnection, Error> {
    let began = Instant::now();
    loop {
        match options.connect().await {
            Err(error) if is_locked(&error) && began.elapsed() < patience => {
                tokio::time::sleep(PAUSE).await;
            }
            connected => return connected,
        }
    }
}

/// Returns the file that a URL names, if it names one.
pub(crate) fn path(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    // A database in memory would be another one for each connection.
    let is_file = !path.is_empty() && !path.starts_with(':') && !path.contains(['?', '\0']);
    is_file.then(|| PathBuf::from(path))
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

/// What SQLite adds to the name of a file for those that it keeps beside it.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    BESIDE.into_iter().map(|ending| {
        let mut file = path.to_owned().into_os_string();
        file.push(ending);
        file.into()
    })
}

/// Takes from others what they can do with the file and those beside it. Only once it is known to be ours to change: a
/// file of another program is left alone.
pub(crate) fn tighten(path: &Path) {
    own_file::tighten_file(path);
    beside(path).for_each(|file| own_file::tighten_file(&file));
}

/// Makes the file if it is not there, for nobody else to read, and makes sure that it is one's own. SQLite gives the same
/// rights to the files beside it.
fn create(path: &Path) -> Result<(), OpenError> {
    for file in beside(path) {
        own_file::check_file(&file)?;
    }
    let failed = |path: &Path, source| OpenError::File {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let made = builder.create(folder);
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
