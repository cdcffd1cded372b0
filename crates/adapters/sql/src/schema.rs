//! Brings the schema of a database up to date. All that takes is one transaction: an interrupted one has not happened.
//!
//! The migrations are sqlx's, in `migrations/`; which of them a database has is noted by sqlx, and as one number where
//! every version of this program looks for it: in the header of a file, or in the table `schema_version` of a server.
//!
//! On a server each migration says from which version on programs can go on with what it made: servers are upgraded one after the
//! other, so that it adds what older ones need not know (tables, columns with a default, indexes), and what they still use is
//! removed by a later release.

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

/// The schema of a server's database in which the tables stand: it may hold other things.
pub(crate) const SCHEMA: &str = "neuraxis";

/// By which servers keep two programs from changing the schema at the same time.
const ADVISORY_LOCK: i64 = APPLICATION_ID;

/// The pause before a lock that another program holds is asked for again.
const PAUSE: Duration = Duration::from_millis(50);

/// The version that this program brings every database to.
const LATEST: i64 = 9;

/// The version from which on runs are summed up as they are now.
const SUMMED_UP: i64 = 7;

/// The version from which on what sessions carry is summed up as it is now.
const CARRIED: i64 = 5;

macro_rules! migration {
    ($number:literal, $name:literal, $folder:literal) => {
        (
            $number,
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/migrations/",
                $folder,
                "/000",
                $number,
                "_",
                $name,
                ".sql"
            )),
        )
    };
}

/// What each version adds to the one before: its number, its name, and the statements.
macro_rules! migrations {
    ($folder:literal) => {
        [
            migration!(1, "sessions_and_runs", $folder),
            migration!(2, "answers_and_taint", $folder),
            migration!(3, "metrics_anew", $folder),
            migration!(4, "length_of_leases", $folder),
            migration!(5, "summaries_and_keys", $folder),
            migration!(6, "outputs", $folder),
            migration!(7, "stats", $folder),
            migration!(8, "due_runs", $folder),
            migration!(9, "ends_and_last_runs", $folder),
        ]
    };
}

fn migrations(dialect: Dialect) -> [Migration; 9] {
    let migrations = match dialect {
        Dialect::Sqlite => migrations!("sqlite"),
        Dialect::Postgres => migrations!("postgres"),
    };
    migrations.map(|(number, name, sql)| {
        // Without transactions of their own: all of them are one, which is begun here and holds the lock.
        let kind = MigrationType::Simple;
        Migration::new(number, name.into(), kind, sql.into_sql_str(), true)
    })
}

/// Refuses a file whose header says that it is not ours, or newer than this program.
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

/// Returns the version that counts: of a database that is newer, but made so that this program can use it, the one that this
/// program knows.
async fn usable(dialect: Dialect, link: &mut Link, found: i64) -> Result<i64, Error> {
    if found <= LATEST || dialect == Dialect::Sqlite {
        return Ok(found);
    }
    // What the newest migration says holds for all before it.
    let sql =
        "SELECT coalesce(reads_from, version) FROM schema_version ORDER BY version DESC LIMIT 1";
    let reads_from = number(link, sql).await?;
    Ok(match reads_from <= LATEST {
        true => LATEST,
        false => found,
    })
}

/// Tells whether a file, by its header and by what is read from it once it is open, needs nothing more. What cannot be read is left
/// to [`migrate`], which says why.
pub(crate) async fn is_current(
    database: &Database,
    header: Header,
    older: OlderSchema,
) -> Result<bool, OpenError> {
    if header.version != LATEST && older == OlderSchema::BroughtUpToDate {
        return Ok(false);
    }
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

/// Refuses a database with an older schema where it is not to be brought up to date. A new one has none.
fn check_older(database: &Database, found: i64, older: OlderSchema) -> Result<(), OpenError> {
    if older == OlderSchema::Refused && (1..LATEST).contains(&found) {
        return Err(OpenError::Older {
            place: database.place.clone(),
            found,
            known: LATEST,
        });
    }
    Ok(())
}

/// Brings a database up to date, unless its schema is older and that is to be refused.
pub(crate) async fn migrate(
    database: &Database,
    link: &mut Link,
    older: OlderSchema,
) -> Result<(), OpenError> {
    let not_opened = |error: Error| database.not_opened(error);
    let dialect = database.dialect;
    if dialect == Dialect::Sqlite && version(dialect, link).await.map_err(not_opened)? == LATEST {
        // Whoever only reads needs neither the lock of whoever writes nor room on the disk.
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
        // The server's limits are those of requests: a long index would be given up at each start. Who waits for somebody's lock holds
        // up all that come later, and so does not wait for long.
        link.script(
            "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; \
             SET LOCAL lock_timeout = '5s'",
        )
        .await?;
        lock(link).await?;
        // Whoever may only use what is there may not make it, not even if it is there.
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

/// Waits until no other program changes the schema, however long that takes. It is asked for again and again, so that a server
/// that falls silent meanwhile is given up in time.
async fn lock(link: &mut Link) -> Result<(), Error> {
    let sql = "SELECT 1 WHERE pg_try_advisory_xact_lock($1)";
    let mut is_told = false;
    while link.row(sql, values![ADVISORY_LOCK]).await?.is_none() {
        if !is_told {
            tracing::info!("another program changes the schema of the database: it is waited for");
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

/// Refuses a database that is open and is not ours, or newer than this program.
async fn recognize_open(database: &Database, link: &mut Link) -> Result<(), OpenError> {
    if database.dialect == Dialect::Postgres {
        check_schema(database, link).await?;
    }
    let header = header(database.dialect, link).await;
    let header = header.map_err(|error| database.not_opened(error))?;
    recognize(&database.place, header)
}

/// Refuses a database that does not take every letter, and a connection whose statements go to another schema than the one that it
/// was set to.
async fn check_schema(database: &Database, link: &mut Link) -> Result<(), OpenError> {
    let sql = "SELECT CAST(current_schema() AS TEXT), current_setting('server_encoding')";
    let row = link.row(sql, &[]).await;
    let texts = row.and_then(|row| {
        row.map_or(Ok((None, None)), |row| {
            Ok((row.maybe_text(0)?, row.maybe_text(1)?))
        })
    });
    let (found, encoding) = texts.map_err(|error| database.not_opened(error))?;
    // One in SQL_ASCII keeps bytes as they come.
    if let Some(encoding) = encoding.filter(|it| !matches!(it.as_str(), "UTF8" | "SQL_ASCII")) {
        let place = database.place.clone();
        return Err(OpenError::Encoding { place, encoding });
    }
    if found.as_deref() == Some(SCHEMA) {
        return Ok(());
    }
    let (place, found) = (&database.place, found.as_deref().unwrap_or("no schema"));
    Err(OpenError::Store(StoreError::Unavailable(format!(
        "{place}: statements go to {found} and not to {SCHEMA}, so that settings of connections are lost: a pooler has to pool \
         sessions, not transactions"
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
        // The tables stand in a schema of our own name.
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
        // A newer program made it so that this one can use it as it is.
        tracing::info!(
            database = database.place,
            found,
            known = LATEST,
            "the schema is newer, and can be used"
        );
    }
    if found >= LATEST {
        return Ok(());
    }
    check_older(database, found, older)?;
    if found > 0 {
        // Whoever began it is to know, before it takes its time: it is not taken back.
        tracing::warn!(
            "{} has schema version {found} and is brought to {LATEST}: older programs may refuse it from then on",
            database.place
        );
    }
    link.wait_without_limit();
    // Versions before sqlx's notes were noted as a number alone.
    let migrated = link.migrate(&migrations(dialect), found).await;
    migrated.map_err(not_opened)?;
    if dialect == Dialect::Sqlite {
        // A pragma takes no values.
        let mark = AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION_ID}"));
        link.run(mark, &[]).await.map_err(not_opened)?;
    }
    if (1..SUMMED_UP).contains(&found) {
        tracing::info!(
            database = database.place,
            found,
            "the schema is older: all records are read once, to sum them up"
        );
        let summed_up = sum_up(link, found).await;
        summed_up.map_err(|failure| database.store_error(failure))?;
    }
    Ok(())
}

/// Notes of each run what its records say in a few words, and of each session what it carries: older versions than the one
/// that was found kept that in other forms, and what they used not at all. Runs are read a page at a time, so that it takes no
/// more memory for a million of them.
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

/// Notes of one run what its records say, and in `sessions` what its session carries from it.
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
        // Whoever goes on from it is told, not whoever opens the database.
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
        .map_err(|_| StoreError::Damaged("a summary cannot be written as JSON".to_owned()))
}

#[cfg(test)]
mod tests;
