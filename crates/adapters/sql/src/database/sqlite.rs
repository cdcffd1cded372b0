//! How to connect to a SQLite file.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Error, SqliteConnection};
use tokio::time::Instant;

use super::access::Access;
use super::file::{create, header_of, path};
use super::{Database, Dialect, Pools};
use crate::config::{Durability, SqlConfig, UnwritableFile};
use crate::error::{OpenError, is_locked};
use crate::lease_clock::LeaseClock;

/// The number of prepared statements that the writing connection caches. Statements for several rows come in twelve
/// sizes, some of them also with the beginning or the end of a transaction.
const STATEMENTS: usize = 200;

/// The pause before a locked file is tried again.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn prepare(config: &SqlConfig) -> Result<Database, OpenError> {
    let path = path(&config.url).ok_or_else(|| OpenError::Url {
        url: config.url.clone(),
    })?;
    create(&path)?;
    let access = match config.unwritable_file {
        UnwritableFile::Open => Access::Full,
        UnwritableFile::Read => Access::of(&path)?,
    };
    Ok(prepare_with(access, &path, config))
}

/// Prepares to connect to an existing file.
pub(super) fn prepare_with(access: Access, path: &Path, config: &SqlConfig) -> Database {
    // This can be set only for a new file, and setting it again would write, even to a full disk.
    let is_new = header_of(path).is_none_or(|header| !header.was_used);
    let synchronous = match config.durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    let common = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(config.patience)
        .synchronous(synchronous);
    let mut writer = common
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        .statement_cache_capacity(STATEMENTS)
        // Deleted content is overwritten.
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
        // A connection to a file does not get lost, and testing it costs as much as a read.
        .test_before_acquire(false)
        .connect_lazy_with(
            common
                .read_only(true)
                .immutable(matches!(access, Access::ReadAlone(_))),
        );
    Database {
        place: path.display().to_string(),
        dialect: Dialect::Sqlite,
        lease_clock: LeaseClock::new(),
        patience: config.patience,
        pools: Pools::Sqlite {
            writer,
            readers,
            access,
        },
    }
}

/// Connects. While another process switches a new file to a write-ahead log, SQLite reports it as locked immediately
/// instead of waiting: retry for as long as the configured patience.
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
