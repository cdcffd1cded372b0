//! Upgrades the schema of a database. Everything happens in one transaction, so an interrupted upgrade has no effect.
//!
//! The migrations are sqlx's, in `migrations/`. sqlx records which of them a database has. The version is also stored
//! as a single number where every version of this program reads it: in the header of a file, or in the table
//! `schema_version` of a server.
//!
//! On a server each migration states the lowest schema version whose programs can use its result. Servers are upgraded
//! one after the other, so a migration only adds what older versions can ignore (tables, columns with a default,
//! indexes). A later release removes what they still use.

use std::collections::BTreeMap;
use std::time::Duration;

use neuraxis_core::log::{Carried, LogSummary};
use neuraxis_core::{JsonText, RunStatus};
use neuraxis_ports::StoreError;
use sqlx::migrate::{Migration, MigrationType};
use sqlx::{AssertSqlSafe, Error, SqlSafeStr};

use crate::config::OlderSchema;
use crate::database::{Database, Dialect, Header};
use crate::error::{Failure, OpenError};
use crate::link::{Link, Row, values};
use crate::read::records;

/// Marks a file as ours: the bytes `NxSt`. SQLite keeps the number in the file's header.
const APPLICATION_ID: i64 = 0x4e78_5374;

/// The schema that holds the tables in a server's database, which may hold other data too.
pub(crate) const SCHEMA: &str = "neuraxis";

/// The advisory lock that keeps two programs from changing a server's schema at the same time.
const ADVISORY_LOCK: i64 = APPLICATION_ID;

/// The pause before asking again for a lock that another program holds.
const PAUSE: Duration = Duration::from_millis(50);

/// The version that this program upgrades every database to.
const LATEST: i64 = 11;

/// The first version in which run summaries have their current form.
const SUMMED_UP: i64 = 7;

/// The first version in which the state that sessions carry has its current form.
const CARRIED: i64 = 5;

macro_rules! migration {
    ($number:literal, $digits:literal, $name:literal, $folder:literal) => {
        (
            $number,
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/migrations/",
                $folder,
                "/",
                $digits,
                "_",
                $name,
                ".sql"
            )),
        )
    };
}

/// The migrations, in order: number, name and statements.
macro_rules! migrations {
    ($folder:literal) => {
        [
            migration!(1, "0001", "sessions_and_runs", $folder),
            migration!(2, "0002", "answers_and_taint", $folder),
            migration!(3, "0003", "metrics_anew", $folder),
            migration!(4, "0004", "length_of_leases", $folder),
            migration!(5, "0005", "summaries_and_keys", $folder),
            migration!(6, "0006", "outputs", $folder),
            migration!(7, "0007", "stats", $folder),
            migration!(8, "0008", "due_runs", $folder),
            migration!(9, "0009", "ends_and_last_runs", $folder),
            migration!(10, "0010", "titles", $folder),
            migration!(11, "0011", "activity", $folder),
        ]
    };
}

fn migrations(dialect: Dialect) -> [Migration; 11] {
    let migrations = match dialect {
        Dialect::Sqlite => migrations!("sqlite"),
        Dialect::Postgres => migrations!("postgres"),
    };
    migrations.map(|(number, name, sql)| {
        // Without separate transactions: all migrations share one, which is begun here and holds the lock.
        let kind = MigrationType::Simple;
        Migration::new(number, name.into(), kind, sql.into_sql_str(), true)
    })
}

/// Refuses a file whose header says that it belongs to another program or is newer than this program.
pub(crate) fn recognize(place: &str, header: Header) -> Result<(), OpenError> {
    let place = place.to_owned();
    let found = header.version;
    let is_new = header.application == 0 && found == 0 && !header.was_used;
    if header.application != APPLICATION_ID && !is_new {
        return Err(OpenError::Foreign { place });
    }
    if found > LATEST {
        return Err(OpenError::Newer {
            place,
            found,
            known: LATEST,
        });
    }
    Ok(())
}

/// Returns the effective version: that of this program for a newer database that this program can still use.
async fn usable(dialect: Dialect, link: &mut Link, found: i64) -> Result<i64, Error> {
    if found <= LATEST || dialect == Dialect::Sqlite {
        return Ok(found);
    }
    // What the newest migration states holds for all earlier ones.
    let sql =
        "SELECT coalesce(reads_from, version) FROM schema_version ORDER BY version DESC LIMIT 1";
    let reads_from = number(link, sql).await?;
    Ok(match reads_from <= LATEST {
        true => LATEST,
        false => found,
    })
}

/// Returns whether a file's schema needs no change, by its header and by reading it once it is open. If it cannot be
/// read, returns `false`: [`migrate`] reports why.
pub(crate) async fn is_current(
    database: &Database,
    header: Header,
    older: OlderSchema,
) -> Result<bool, OpenError> {
    if header.version != LATEST && older == OlderSchema::Upgrade {
        return Ok(false);
    }
    reads_as_current(database, older).await
}

/// Returns whether an open file has the current schema. If it cannot be read, returns `false`.
async fn reads_as_current(database: &Database, older: OlderSchema) -> Result<bool, OpenError> {
    let Ok(mut link) = database.reader().await else {
        return Ok(false);
    };
    let version = version(database.dialect, &mut link).await;
    let is_ours = recognize_open(database, &mut link).await.is_ok();
    link.close().await;
    match version {
        Ok(found) if is_ours => {
            check_older(database, found, older)?;
            Ok(found == LATEST)
        }
        _ => Ok(false),
    }
}

/// Returns a database that can only be read, if this program can read it.
pub(crate) async fn readable(database: Database) -> Result<Database, OpenError> {
    match reads_as_current(&database, OlderSchema::Refuse).await {
        Ok(true) => return Ok(database),
        Err(OpenError::Older {
            place,
            found,
            known,
        }) => {
            return Err(OpenError::OlderReadOnly {
                place,
                found,
                known,
            });
        }
        Err(error) => return Err(error),
        Ok(false) => {}
    }
    let connected = database.reader().await;
    let mut link = connected.map_err(|error| database.not_opened(error))?;
    let recognized = recognize_open(&database, &mut link).await;
    link.close().await;
    recognized?;
    // Nothing was ever stored in it, not even a schema.
    let why = format!("{}: it is empty, and it cannot be written", database.place);
    Err(OpenError::Store(StoreError::ReadOnly(why)))
}

/// Refuses a database with an older schema if the caller does not want an upgrade. A new database has no schema.
fn check_older(database: &Database, found: i64, older: OlderSchema) -> Result<(), OpenError> {
    if older == OlderSchema::Refuse && (1..LATEST).contains(&found) {
        return Err(OpenError::Older {
            place: database.place.clone(),
            found,
            known: LATEST,
        });
    }
    Ok(())
}

/// Upgrades a database, unless its schema is older and the caller refuses that.
pub(crate) async fn migrate(
    database: &Database,
    link: &mut Link,
    older: OlderSchema,
) -> Result<(), OpenError> {
    let not_opened = |error: Error| database.not_opened(error);
    let dialect = database.dialect;
    if dialect == Dialect::Sqlite && version(dialect, link).await.map_err(not_opened)? == LATEST {
        // A program that only reads needs neither the write lock nor space on the disk.
        return recognize_open(database, link).await;
    }
    begin(dialect, link).await.map_err(not_opened)?;
    let migrated = match recognize_open(database, link).await {
        Ok(()) => up_to_date(database, link, older).await,
        Err(error) => Err(error),
    };
    let end = match migrated {
        Ok(()) => "COMMIT",
        Err(_) => "ROLLBACK",
    };
    let ended = link.run(end, &[]).await;
    migrated?;
    ended.map_err(not_opened)?;
    Ok(())
}

async fn begin(dialect: Dialect, link: &mut Link) -> Result<(), Error> {
    link.run(dialect.begin(), &[]).await?;
    if dialect == Dialect::Postgres {
        // The server's limits are meant for requests: building a long index would be cancelled at each start. A
        // statement that waits for a lock blocks all later ones, so it does not wait long.
        link.script(
            "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; \
             SET LOCAL lock_timeout = '5s'",
        )
        .await?;
        lock(link).await?;
        // A user with access only to existing objects may not run `CREATE`, even if the object exists.
        for (is_new, make) in [
            (
                "SELECT 1 WHERE to_regnamespace('neuraxis') IS NULL",
                "CREATE SCHEMA neuraxis",
            ),
            (
                "SELECT 1 WHERE to_regclass('neuraxis.schema_version') IS NULL",
                "CREATE TABLE neuraxis.schema_version (version BIGINT NOT NULL)",
            ),
        ] {
            if link.row(is_new, &[]).await?.is_some() {
                link.script(make).await?;
            }
        }
    }
    Ok(())
}

/// Waits, without a limit, until no other program is changing the schema. It polls for the lock, so a server that stops
/// answering is noticed in time.
async fn lock(link: &mut Link) -> Result<(), Error> {
    let sql = "SELECT 1 WHERE pg_try_advisory_xact_lock($1)";
    let mut is_told = false;
    while link.row(sql, values![ADVISORY_LOCK]).await?.is_none() {
        if !is_told {
            tracing::info!("waiting for another program that is changing the database schema");
            is_told = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn number(link: &mut Link, sql: &'static str) -> Result<i64, Error> {
    let row = link.row(sql, &[]).await?;
    row.map_or(Ok(0), |row| row.int(0))
}

/// Returns the version of a database; 0 for a new one.
async fn version(dialect: Dialect, link: &mut Link) -> Result<i64, Error> {
    let sql = match dialect {
        Dialect::Sqlite => "PRAGMA user_version",
        Dialect::Postgres => "SELECT coalesce(max(version), 0) FROM schema_version",
    };
    number(link, sql).await
}

/// Refuses an open database that belongs to another program or is newer than this program.
async fn recognize_open(database: &Database, link: &mut Link) -> Result<(), OpenError> {
    if database.dialect == Dialect::Postgres {
        check_schema(database, link).await?;
    }
    let header = header(database.dialect, link).await;
    let header = header.map_err(|error| database.not_opened(error))?;
    recognize(&database.place, header)
}

/// Refuses a database that cannot store every character, and a connection whose statements go to a schema other than
/// the one it was set to.
async fn check_schema(database: &Database, link: &mut Link) -> Result<(), OpenError> {
    let sql = "SELECT CAST(current_schema() AS TEXT), current_setting('server_encoding')";
    let row = link.row(sql, &[]).await;
    let texts = row.and_then(|row| {
        row.map_or(Ok((None, None)), |row| {
            Ok((row.maybe_text(0)?, row.maybe_text(1)?))
        })
    });
    let (found, encoding) = texts.map_err(|error| database.not_opened(error))?;
    // SQL_ASCII stores bytes unchanged.
    if let Some(encoding) = encoding.filter(|it| !matches!(it.as_str(), "UTF8" | "SQL_ASCII")) {
        let place = database.place.clone();
        return Err(OpenError::Encoding { place, encoding });
    }
    if found.as_deref() == Some(SCHEMA) {
        return Ok(());
    }
    let (place, found) = (&database.place, found.as_deref().unwrap_or("no schema"));
    Err(OpenError::Store(StoreError::Unavailable(format!(
        "{place}: statements use {found} instead of {SCHEMA}, so connection settings are being lost; a connection \
         pooler must pool sessions, not transactions"
    ))))
}

async fn header(dialect: Dialect, link: &mut Link) -> Result<Header, Error> {
    let version = version(dialect, link).await?;
    let version = usable(dialect, link, version).await?;
    Ok(match dialect {
        Dialect::Sqlite => Header {
            application: number(link, "PRAGMA application_id").await?,
            version,
            was_used: number(link, "SELECT count(*) FROM sqlite_master").await? > 0,
        },
        // The tables are in our own schema.
        Dialect::Postgres => Header {
            application: APPLICATION_ID,
            version,
            was_used: true,
        },
    })
}

/// Applies the migrations that a database does not have.
async fn up_to_date(
    database: &Database,
    link: &mut Link,
    older: OlderSchema,
) -> Result<(), OpenError> {
    let not_opened = |error: Error| database.not_opened(error);
    let dialect = database.dialect;
    let found = version(dialect, link).await.map_err(not_opened)?;
    if found > LATEST {
        // A newer program upgraded it in a way that this one can use.
        tracing::info!(
            database = database.place,
            found,
            known = LATEST,
            "the schema is newer but usable"
        );
    }
    if found >= LATEST {
        return Ok(());
    }
    check_older(database, found, older)?;
    if found > 0 {
        // Warn before it starts: an upgrade may take a while and cannot be undone.
        tracing::warn!(
            "{} has schema version {found} and is being upgraded to {LATEST}; older versions of the program may then refuse it",
            database.place
        );
    }
    link.wait_without_limit();
    // Versions before sqlx's table recorded only a number.
    let migrated = link.migrate(&migrations(dialect), found).await;
    migrated.map_err(not_opened)?;
    if dialect == Dialect::Sqlite {
        // A pragma takes no parameters.
        let mark = AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION_ID}"));
        link.run(mark, &[]).await.map_err(not_opened)?;
    }
    if (1..SUMMED_UP).contains(&found) {
        tracing::info!(
            database = database.place,
            found,
            "the schema is older; reading all records once to summarize them"
        );
        let summed_up = sum_up(link, found).await;
        summed_up.map_err(|failure| database.store_error(failure))?;
    }
    Ok(())
}

/// Stores the summary of each run's records and, for versions before [`CARRIED`], what each session carries. Older
/// versions stored these in other forms, and did not store usage. Runs are read one page at a time, so a million of
/// them need no more memory.
async fn sum_up(link: &mut Link, found: i64) -> Result<(), Failure> {
    let sql = "SELECT key, id, session, records, ended_at, summary FROM runs WHERE records > 0 AND key > $1 ORDER BY key LIMIT 200";
    let mut sessions = BTreeMap::<i64, Carried>::new();
    let mut last = i64::MIN;
    loop {
        let page = link.rows(sql, values![last]).await?;
        let Some(end) = page.last() else { break };
        last = end.int(0)?;
        for row in &page {
            let carries = match found < CARRIED {
                true => Some(&mut sessions),
                false => None,
            };
            sum_up_run(link, row, carries).await?;
        }
        sessions.retain(|_, carried| *carried != Carried::default());
    }
    for (session, carried) in sessions {
        let sql = "UPDATE sessions SET carried = $1 WHERE key = $2";
        link.run(sql, values![json(&carried)?.as_str(), session])
            .await?;
    }
    Ok(())
}

/// Stores the summary of one run's records, and adds to `sessions` what its session carries from it.
async fn sum_up_run(
    link: &mut Link,
    row: &Row,
    sessions: Option<&mut BTreeMap<i64, Carried>>,
) -> Result<(), Failure> {
    let (key, run) = (row.int(0)?, row.run_id(1)?);
    let summary = match records::of_run(link, key, run, 0).await {
        Ok(records) => {
            if let Some(sessions) = sessions {
                let carried = sessions.entry(row.int(2)?).or_default();
                for record in &records {
                    carried.apply(record);
                }
            }
            LogSummary::of(&records)
        }
        // Continuing from the run reports the damage; opening the database does not.
        Err(Failure::Refused(StoreError::Damaged(_))) if row.maybe_text(5)?.is_some() => {
            return Ok(());
        }
        Err(Failure::Refused(StoreError::Damaged(_))) => {
            let mut summary = LogSummary::default();
            summary.records = row.int(3)?.cast_unsigned();
            summary.ended_at = row.maybe_time(4)?;
            if summary.ended_at.is_some() {
                summary.status = RunStatus::Failed;
            }
            summary
        }
        Err(failure) => return Err(failure),
    };
    let sql = "UPDATE runs SET summary = $1 WHERE key = $2";
    link.run(sql, values![json(&summary)?.as_str(), key])
        .await?;
    Ok(())
}

fn json(value: &impl serde::Serialize) -> Result<JsonText, StoreError> {
    JsonText::encode(value)
        .map_err(|_| StoreError::Damaged("cannot write a summary as JSON".to_owned()))
}

#[cfg(test)]
mod tests;
