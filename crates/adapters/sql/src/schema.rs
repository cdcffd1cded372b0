//! The schema, version by version. Each version is one transaction: an interrupted one has not happened.

use crate::database::{Database, Dialect, Header};
use crate::error::OpenError;
use crate::link::{Link, values};
use sqlx::{AssertSqlSafe, Error};

/// Marks a file as ours: the bytes `NxSt`. SQLite keeps the number in the file's header.
const APPLICATION_ID: i64 = 0x4e78_5374;

/// By which servers keep two programs from changing the schema at the same time.
const ADVISORY_LOCK: i64 = APPLICATION_ID;

struct Version {
    sqlite: &'static str,
    postgres: &'static str,
}

/// What each version adds to the one before, from version 1 on.
const VERSIONS: &[Version] = &[
    Version {
        sqlite: include_str!("schema/sqlite/0001.sql"),
        postgres: include_str!("schema/postgres/0001.sql"),
    },
    Version {
        sqlite: include_str!("schema/sqlite/0002.sql"),
        postgres: include_str!("schema/postgres/0002.sql"),
    },
    Version {
        sqlite: include_str!("schema/sqlite/0003.sql"),
        postgres: include_str!("schema/postgres/0003.sql"),
    },
    Version {
        sqlite: include_str!("schema/sqlite/0004.sql"),
        postgres: include_str!("schema/postgres/0004.sql"),
    },
];

/// Refuses a file whose header says that it is not ours, or newer than this program.
pub(crate) fn recognize(place: &str, header: Header) -> Result<(), OpenError> {
    let place = || place.to_owned();
    let known = i64::try_from(VERSIONS.len()).unwrap_or(i64::MAX);
    let found = header.version;
    if header.application == APPLICATION_ID {
        return match found > known {
            true => Err(OpenError::Newer {
                place: place(),
                found,
                known,
            }),
            false => Ok(()),
        };
    }
    let is_new = header.application == 0 && found == 0 && !header.was_used;
    match is_new {
        true => Ok(()),
        false => Err(OpenError::Foreign { place: place() }),
    }
}

/// Brings a database up to date.
pub(crate) async fn migrate(database: &Database, link: &mut Link) -> Result<(), OpenError> {
    let told = |error: Error| database.not_opened(error);
    let dialect = database.dialect;
    if dialect == Dialect::Sqlite && is_current(link).await.map_err(told)? {
        // Whoever only reads needs neither the lock of whoever writes nor room on the disk.
        return Ok(());
    }
    begin(dialect, link).await.map_err(told)?;
    let migrated = match found(dialect, link).await {
        Ok(found) => migrate_from(database, link, found).await,
        Err(error) => Err(told(error)),
    };
    let end = if migrated.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    };
    let ended = link.run(end, &[]).await;
    migrated?;
    ended.map_err(told)?;
    Ok(())
}

async fn is_current(link: &mut Link) -> Result<bool, Error> {
    let known = i64::try_from(VERSIONS.len()).ok();
    Ok(found(Dialect::Sqlite, link).await? == known)
}

async fn begin(dialect: Dialect, link: &mut Link) -> Result<(), Error> {
    link.run(dialect.begin(), &[]).await?;
    if dialect == Dialect::Postgres {
        let lock = "SELECT pg_advisory_xact_lock($1)";
        link.rows(lock, values![ADVISORY_LOCK]).await?;
        link.script(
            "CREATE SCHEMA IF NOT EXISTS neuraxis; \
             CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)",
        )
        .await?;
    }
    Ok(())
}

/// The version that was found; `None` for what is not ours.
async fn found(dialect: Dialect, link: &mut Link) -> Result<Option<i64>, Error> {
    let number = async |link: &mut Link, sql: &'static str| {
        let row = link.row(sql, &[]).await?;
        row.map_or(Ok(0), |row| row.int(0))
    };
    if dialect == Dialect::Postgres {
        let version = "SELECT coalesce(max(version), 0) FROM schema_version";
        return number(link, version).await.map(Some);
    }
    let version = number(link, "PRAGMA user_version").await?;
    let application = number(link, "PRAGMA application_id").await?;
    let tables = number(link, "SELECT count(*) FROM sqlite_master").await?;
    let is_new = version == 0 && application == 0 && tables == 0;
    Ok((is_new || application == APPLICATION_ID).then_some(version))
}

async fn migrate_from(
    database: &Database,
    link: &mut Link,
    found: Option<i64>,
) -> Result<(), OpenError> {
    let place = || database.place.clone();
    let known = i64::try_from(VERSIONS.len()).unwrap_or(i64::MAX);
    let found = found.ok_or_else(|| OpenError::Foreign { place: place() })?;
    if found > known {
        let place = place();
        return Err(OpenError::Newer {
            place,
            found,
            known,
        });
    }
    for (version, number) in VERSIONS.iter().zip(1_i64..) {
        if number > found {
            let applied = apply(database.dialect, link, version, number).await;
            applied.map_err(|error| database.not_opened(error))?;
        }
    }
    Ok(())
}

async fn apply(
    dialect: Dialect,
    link: &mut Link,
    version: &Version,
    number: i64,
) -> Result<(), Error> {
    match dialect {
        Dialect::Sqlite => {
            link.script(version.sqlite).await?;
            // A pragma takes no values.
            let mark = format!("PRAGMA user_version = {number}");
            link.run(AssertSqlSafe(mark), &[]).await?;
            let mark = format!("PRAGMA application_id = {APPLICATION_ID}");
            link.run(AssertSqlSafe(mark), &[]).await?;
        }
        Dialect::Postgres => {
            link.script(version.postgres).await?;
            let mark = "INSERT INTO schema_version (version) VALUES ($1)";
            link.run(mark, values![number]).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
