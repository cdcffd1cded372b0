//! Summaries of runs.

use std::time::Instant;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{JsonText, RunId, SessionId};
use neuraxis_ports::{KeyedRequest, RunFilter, RunSummary, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::sessions;
use crate::database::{Database, Dialect};
use crate::error::Failure;
use crate::lease_clock::{ClockReading, StoredLease};
use crate::link::{Link, Row, Value, values};

/// Selects summaries of runs, with their leases and the database's time.
fn select(dialect: Dialect) -> String {
    let now = dialect.now();
    format!(
        "SELECT runs.id, sessions.id, summary, \
         CAST(CASE WHEN EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.key AND inbox.body IS NOT NULL) \
         THEN 1 ELSE 0 END AS BIGINT), leased_until, lease_ms, {now}, \
         CAST(imported AS BIGINT), \
         CAST(CASE WHEN ended_at IS NULL AND leased_until IS NULL THEN 1 ELSE 0 END AS BIGINT), \
         request_key, request, sessions.owner FROM runs JOIN sessions ON sessions.key = runs.session"
    )
}

/// Runs such a statement, and omits leases that are no longer held: nothing clears a lease when its holder dies.
async fn summaries(
    link: &mut Link,
    database: &Database,
    sql: String,
    values: &[Value<'_>],
) -> Result<Vec<RunSummary>, Failure> {
    let asked = Instant::now();
    let rows = link.rows(AssertSqlSafe(sql), values).await?;
    let Some(first) = rows.first() else {
        return Ok(Vec::new());
    };
    let reading = ClockReading {
        asked,
        answered: Instant::now(),
        now: first.int(6)?,
    };
    let clock = &database.lease_clock;
    clock.observe(reading);
    let summaries = rows.iter().map(|row| {
        let lease = stored_lease(row, 4)?.filter(|lease| clock.is_held(*lease, reading));
        summary(row, lease)
    });
    summaries.collect()
}

/// Reads a lease: its end in `column`, and its length in the next one.
pub(crate) fn stored_lease(row: &Row, column: usize) -> Result<Option<StoredLease>, Error> {
    let length = row.maybe_int(column + 1)?;
    let until = row.maybe_int(column)?;
    Ok(until.map(|until| StoredLease { until, length }))
}

pub(crate) async fn find(
    link: &mut Link,
    database: &Database,
    run: RunId,
) -> Result<RunSummary, Failure> {
    let sql = format!("{} WHERE runs.id = $1", select(database.dialect));
    let id = run.0.as_bytes().as_slice();
    let found = summaries(link, database, sql, values![id]).await?;
    let found = found.into_iter().next();
    Ok(found.ok_or(StoreError::NoSuchRun(run))?)
}

pub(crate) async fn of_session(
    link: &mut Link,
    database: &Database,
    session: &SessionId,
) -> Result<Vec<RunSummary>, Failure> {
    let key = sessions::key(link, session).await?;
    let sql = format!(
        "{} WHERE runs.session = $1 ORDER BY runs.key",
        select(database.dialect)
    );
    summaries(link, database, sql, values![key]).await
}

pub(crate) async fn list(
    link: &mut Link,
    database: &Database,
    filter: &RunFilter,
) -> Result<Vec<RunSummary>, Failure> {
    let limit = filter.limit.min(RunFilter::MAX_LIMIT);
    let (first, last) = (filter.first.0.as_bytes(), filter.last.0.as_bytes());
    let mut values = vec![Value::from(&first[..]), Value::from(&last[..])];
    let mut more = String::new();
    if let Some(session) = &filter.session {
        values.push(Value::from(session.as_str()));
        more = "AND sessions.id = $3".to_owned();
    }
    if let Some(key) = &filter.key {
        values.push(Value::from(key.as_bytes().as_slice()));
        more = format!("{more} AND runs.request_key = ${}", values.len());
    }
    if let Some(owner) = &filter.owner {
        values.push(Value::from(owner.as_str()));
        more = format!("{more} AND sessions.owner = ${}", values.len());
    }
    let sql = format!(
        "{} WHERE runs.id >= $1 AND runs.id <= $2 {more} ORDER BY runs.id DESC LIMIT {limit}",
        select(database.dialect)
    );
    summaries(link, database, sql, &values).await
}

pub(crate) async fn unfinished(
    link: &mut Link,
    database: &Database,
) -> Result<Vec<RunSummary>, Failure> {
    let sql = select_unended(database.dialect);
    Ok(undriven(summaries(link, database, sql, &[]).await?))
}

/// Returns the unfinished runs in sessions of an owner, or in sessions without one.
pub(crate) async fn unfinished_of(
    link: &mut Link,
    database: &Database,
    owner: Option<&str>,
) -> Result<Vec<RunSummary>, Failure> {
    let sql = select_unended_of(database.dialect, owner);
    let values: Vec<_> = owner.into_iter().map(Value::from).collect();
    Ok(undriven(summaries(link, database, sql, &values).await?))
}

/// Returns the runs that no process drives, the oldest first.
fn undriven(mut unended: Vec<RunSummary>) -> Vec<RunSummary> {
    unended.retain(|run| run.leased_until.is_none());
    unended.sort_by_key(|run| run.run_id);
    unended
}

/// Returns the statement that finds the runs that have not ended, unordered: to order them by key, SQLite would read
/// all runs.
pub(super) fn select_unended(dialect: Dialect) -> String {
    format!("{} WHERE ended_at IS NULL", select(dialect))
}

/// Returns the statement that finds an owner's runs that have not ended, with the owner as its only value, or those of
/// sessions without an owner.
pub(super) fn select_unended_of(dialect: Dialect, owner: Option<&str>) -> String {
    let theirs = match dialect {
        // With the owner's index SQLite would read all sessions of the owner, most of which have no such run.
        Dialect::Sqlite => "+sessions.owner",
        Dialect::Postgres => "sessions.owner",
    };
    let whose = owner.map_or("IS NULL", |_| "= $1");
    format!("{} AND {theirs} {whose}", select_unended(dialect))
}

/// Returns the unfinished runs that can resume immediately. Waiting runs, which may be many, are not read: the index
/// `runs_due` omits them, and `inbox_untaken` finds those with inbox entries.
pub(crate) async fn due(link: &mut Link, database: &Database) -> Result<Vec<RunSummary>, Failure> {
    let dialect = database.dialect;
    let (select, not_waiting) = (select(dialect), dialect.not_waiting());
    let sql = format!("{select} WHERE ended_at IS NULL AND ({not_waiting}) ORDER BY runs.key");
    let mut runs = summaries(link, database, sql, &[]).await?;
    let sql = format!(
        "{select} WHERE runs.key IN (SELECT run FROM inbox WHERE body IS NOT NULL) \
         AND ended_at IS NULL AND NOT ({not_waiting}) ORDER BY runs.key"
    );
    runs.extend(summaries(link, database, sql, &[]).await?);
    runs.retain(|run| run.leased_until.is_none() && run.is_due());
    runs.sort_by_key(|run| run.run_id);
    Ok(runs)
}

/// Returns runs that have not ended and have untaken inbox entries.
pub(crate) async fn mailed(link: &mut Link) -> Result<Vec<RunId>, Failure> {
    let sql = format!(
        "SELECT id FROM runs WHERE key IN (SELECT run FROM inbox WHERE body IS NOT NULL) \
         AND ended_at IS NULL LIMIT {}",
        RunFilter::MAX_LIMIT
    );
    let rows = link.rows(AssertSqlSafe(sql), &[]).await?;
    let runs = rows.iter().map(|row| row.run_id(0));
    runs.collect()
}

fn summary(row: &Row, lease: Option<StoredLease>) -> Result<RunSummary, Failure> {
    let run = row.run_id(0)?;
    let damaged =
        |what: &str| StoreError::Damaged(format!("the {what} of run {run} is unreadable"));
    let session = row.text(1)?.parse().map_err(|_| damaged("session"))?;
    let mut summary = RunSummary::new(run, session);
    let log = row.maybe_json(2, &format!("the summary of run {run}"))?;
    summary.log = log.unwrap_or_default();
    summary.has_mail = row.int(3)? != 0;
    if let Some(lease) = lease {
        let until = Timestamp::from_millisecond(lease.until);
        summary.leased_until = Some(until.map_err(|_| damaged("lease"))?);
    }
    summary.imported = row.int(7)? != 0;
    summary.released = row.int(8)? != 0;
    summary.owner = row.maybe_text(11)?;
    if let Some(asked) = row.maybe_text(10)? {
        let asked = JsonText::from_text(asked);
        summary.request = Some(KeyedRequest::new(row.hash(9)?, asked));
    }
    Ok(summary)
}
