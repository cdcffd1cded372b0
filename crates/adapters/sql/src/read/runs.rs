//! Runs in a few words.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{JsonText, RunId, RunStatus, SessionId};
use neuraxis_ports::{RunFilter, RunSummary, StoreError};
use sqlx::AssertSqlSafe;

use super::ids::run_id;
use super::sessions;
use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, Row, Value, values};

/// Who holds a run that was imported, until somebody begins it: no store has that for a name.
pub(crate) const IMPORTED: &str = "imported";

/// Reads runs in a few words. A lease that has run out is nobody's: nothing clears it when its holder dies.
fn select(dialect: Dialect) -> String {
    let now = dialect.now();
    format!(
        "SELECT runs.id, sessions.id, status, started_at, ended_at, turns, finish_reason, text, pending, records, \
         CAST(CASE WHEN EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.key AND inbox.body IS NOT NULL) \
         THEN 1 ELSE 0 END AS BIGINT), CASE WHEN leased_until > {now} THEN leased_until END, \
         CAST(CASE WHEN ended_at IS NULL AND holder = '{IMPORTED}' THEN 1 ELSE 0 END AS BIGINT), \
         CAST(CASE WHEN ended_at IS NULL AND leased_until IS NULL THEN 1 ELSE 0 END AS BIGINT) \
         FROM runs JOIN sessions ON sessions.key = runs.session"
    )
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
    dialect: Dialect,
    run: RunId,
) -> Result<RunSummary, Failure> {
    let sql = format!("{} WHERE runs.id = $1", select(dialect));
    let id = run.0.as_bytes().as_slice();
    let row = link.row(AssertSqlSafe(sql), values![id]).await?;
    let row = row.ok_or(StoreError::NoSuchRun(run))?;
    summary(&row)
}

pub(crate) async fn of_session(
    link: &mut Link,
    dialect: Dialect,
    session: &SessionId,
) -> Result<Vec<RunSummary>, Failure> {
    let key = sessions::key(link, session).await?;
    let sql = format!(
        "{} WHERE runs.session = $1 ORDER BY runs.key",
        select(dialect)
    );
    let rows = link.rows(AssertSqlSafe(sql), values![key]).await?;
    rows.iter().map(summary).collect()
}

pub(crate) async fn list(
    link: &mut Link,
    dialect: Dialect,
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
        select(dialect)
    );
    let rows = link.rows(AssertSqlSafe(sql), &values).await?;
    rows.iter().map(summary).collect()
}

pub(crate) async fn unfinished(
    link: &mut Link,
    dialect: Dialect,
) -> Result<Vec<RunSummary>, Failure> {
    let sql = format!(
        "{} WHERE ended_at IS NULL AND (leased_until IS NULL OR leased_until <= {}) ORDER BY runs.key",
        select(dialect),
        dialect.now()
    );
    let rows = link.rows(AssertSqlSafe(sql), &[]).await?;
    rows.iter().map(summary).collect()
}

fn summary(row: &Row) -> Result<RunSummary, Failure> {
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
    summary.imported = row.int(12)? != 0;
    summary.released = row.int(13)? != 0;
    if let Some(millis) = row.maybe_int(11)? {
        let until = Timestamp::from_millisecond(millis);
        summary.leased_until = Some(until.map_err(|_| damaged("lease"))?);
    }
    Ok(summary)
}
