//! Runs in a few words.

use std::time::Instant;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{JsonText, RunId, RunStatus, SessionId};
use neuraxis_ports::{RunFilter, RunSummary, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::ids::run_id;
use super::sessions;
use crate::database::{Database, Dialect};
use crate::error::Failure;
use crate::lease_clock::{Look, StoredLease};
use crate::link::{Link, Row, Value, values};

/// Who holds a run that was imported, until somebody begins it: no store has that for a name.
pub(crate) const IMPORTED: &str = "imported";

/// Reads runs in a few words, with their leases and what the database's clock says.
fn select(dialect: Dialect) -> String {
    let now = dialect.now();
    format!(
        "SELECT runs.id, sessions.id, status, started_at, ended_at, turns, finish_reason, text, pending, records, \
         CAST(CASE WHEN EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.key AND inbox.body IS NOT NULL) \
         THEN 1 ELSE 0 END AS BIGINT), leased_until, lease_ms, {now}, \
         CAST(CASE WHEN ended_at IS NULL AND holder = '{IMPORTED}' THEN 1 ELSE 0 END AS BIGINT), \
         CAST(CASE WHEN ended_at IS NULL AND leased_until IS NULL THEN 1 ELSE 0 END AS BIGINT) \
         FROM runs JOIN sessions ON sessions.key = runs.session"
    )
}

/// Runs such a statement, and tells each run without a lease that is nobody's any more: nothing clears it when its holder
/// dies.
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
    let look = Look {
        asked,
        answered: Instant::now(),
        now: first.int(13)?,
    };
    let clock = &database.lease_clock;
    clock.hear(look);
    let summaries = rows.iter().map(|row| {
        let lease = stored_lease(row, 11)?.filter(|lease| clock.is_held(*lease, look));
        summary(row, lease)
    });
    summaries.collect()
}

/// Reads a lease: when it ends, and in the next column how long it lasts.
pub(crate) fn stored_lease(row: &Row, column: usize) -> Result<Option<StoredLease>, Error> {
    let length = row.maybe_int(column + 1)?;
    let until = row.maybe_int(column)?;
    Ok(until.map(|until| StoredLease { until, length }))
}

/// Returns the word for a status.
pub(crate) const fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Waiting => "waiting",
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Interrupted => "interrupted",
    }
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
    if let Some(ending) = &filter.ending {
        values.push(Value::from(&ending[..]));
        // Bytes are counted from 1, by both databases.
        let place = values.len();
        more = format!("{more} AND substr(runs.id, 9) = ${place}");
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
    let sql = format!(
        "{} WHERE ended_at IS NULL ORDER BY runs.key",
        select(database.dialect)
    );
    let mut runs = summaries(link, database, sql, &[]).await?;
    runs.retain(|run| run.leased_until.is_none());
    Ok(runs)
}

fn summary(row: &Row, lease: Option<StoredLease>) -> Result<RunSummary, Failure> {
    let run = run_id(row, 0)?;
    let damaged =
        |what: &str| StoreError::Damaged(format!("the {what} of run {run} cannot be read"));
    let session = row.text(1)?.parse().map_err(|_| damaged("session"))?;
    let mut summary = RunSummary::new(run, session);
    let status = row.text(2)?;
    let quoted = JsonText::string(&status);
    summary.status = quoted.decode().map_err(|_| damaged("status"))?;
    let time = |micros: Option<i64>| {
        let time = micros.map(Timestamp::from_microsecond).transpose();
        time.map_err(|_| damaged("time"))
    };
    summary.started_at = time(row.maybe_int(3)?)?;
    summary.ended_at = time(row.maybe_int(4)?)?;
    summary.turns = u32::try_from(row.int(5)?).map_err(|_| damaged("turns"))?;
    if let Some(reason) = row.maybe_text(6)? {
        let reason = JsonText::from_text(reason).decode();
        summary.finish_reason = Some(reason.map_err(|_| damaged("finish reason"))?);
    }
    summary.text = row.maybe_text(7)?;
    if let Some(pending) = row.maybe_text(8)? {
        let pending = JsonText::from_text(pending).decode();
        summary.pending = pending.map_err(|_| damaged("pending list"))?;
    }
    summary.records = row.int(9)?.cast_unsigned();
    summary.has_mail = row.int(10)? != 0;
    summary.imported = row.int(14)? != 0;
    summary.released = row.int(15)? != 0;
    if let Some(lease) = lease {
        let until = Timestamp::from_millisecond(lease.until);
        summary.leased_until = Some(until.map_err(|_| damaged("lease"))?);
    }
    Ok(summary)
}
