//! What sessions used, and their last plans.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{JsonText, RunId, RunMeter, SessionId, SessionMetrics};
use neuraxis_ports::{StoreError, UsageOf};
use sqlx::AssertSqlSafe;

use super::ids::run_id;
use super::{records, sessions};
use crate::error::Failure;
use crate::link::{Link, Row, Value, values};

/// The most runs whose metrics are kept with one question: the writer has other things to do.
const MAX_FOUND_OUT: usize = 100;

/// What was used.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) metrics: SessionMetrics,
    /// What ended runs used of which the database does not say it, as JSON: an older schema meant something else.
    pub(crate) found_out: Vec<(RunId, String)>,
}

pub(crate) async fn since(
    link: &mut Link,
    of: &UsageOf,
    since: Timestamp,
) -> Result<Used, Failure> {
    let since_micros = since.as_microsecond();
    let (whose, key);
    let value = match of {
        UsageOf::Session(session) => {
            key = sessions::key(link, session).await?;
            whose = "runs.session = $2";
            Value::from(key)
        }
        UsageOf::Owner(Some(owner)) => {
            whose = "sessions.owner = $2";
            Value::from(owner.as_str())
        }
        UsageOf::Owner(None) => {
            whose = "sessions.owner IS NULL AND $2 = 0";
            Value::from(0)
        }
    };
    // What ended before has no record since.
    let sql = format!(
        "SELECT runs.key, runs.id, runs.started_at, runs.metrics, \
         CAST(CASE WHEN runs.ended_at IS NULL THEN 0 ELSE 1 END AS BIGINT) FROM runs \
         JOIN sessions ON sessions.key = runs.session \
         WHERE (runs.ended_at IS NULL OR runs.ended_at >= $1) AND {whose}"
    );
    let values = [Value::from(since_micros), value];
    let rows = link.rows(AssertSqlSafe(sql), &values).await?;
    let mut used = Used::default();
    for row in rows {
        match whole(&row, since_micros)? {
            Some(metrics) => used.metrics += &metrics,
            None => from_records(link, &row, since, &mut used).await?,
        }
    }
    Ok(used)
}

/// Adds what the records of a run tell.
async fn from_records(
    link: &mut Link,
    row: &Row,
    since: Timestamp,
    used: &mut Used,
) -> Result<(), Failure> {
    let run = run_id(row, 1)?;
    let records = records::of_run(link, row.int(0)?, run, 0).await?;
    let mut meter = RunMeter::since(since);
    records.iter().for_each(|record| meter.read(record));
    used.metrics += meter.used();
    let is_missing = row.int(4)? != 0 && row.maybe_text(3)?.is_none();
    if is_missing && used.found_out.len() < MAX_FOUND_OUT {
        let metrics = SessionMetrics::of_run(records.iter().map(AsRef::as_ref));
        if let Ok(json) = JsonText::encode(&metrics) {
            used.found_out.push((run, json.as_str().to_owned()));
        }
    }
    Ok(())
}

/// Returns what a run used, if it has ended and all of it counts.
fn whole(row: &Row, since: i64) -> Result<Option<SessionMetrics>, Failure> {
    let counts = row.maybe_int(2)?.is_some_and(|started| started >= since);
    let Some(metrics) = row.maybe_text(3)?.filter(|_| counts) else {
        return Ok(None);
    };
    let metrics = JsonText::from_text(metrics).decode();
    let damaged = |_| StoreError::Damaged("the metrics of a run cannot be read".to_owned());
    Ok(Some(metrics.map_err(damaged)?))
}

pub(crate) async fn plan(
    link: &mut Link,
    session: &SessionId,
) -> Result<Option<JsonText>, Failure> {
    let key = sessions::key(link, session).await?;
    let sql =
        "SELECT plan FROM runs WHERE session = $1 AND plan IS NOT NULL ORDER BY key DESC LIMIT 1";
    let Some(row) = link.row(sql, values![key]).await? else {
        return Ok(None);
    };
    let damaged = |_| StoreError::Damaged("the plan of a session cannot be read".to_owned());
    let plan = String::from_utf8(row.bytes(0)?).map_err(damaged)?;
    Ok(Some(JsonText::from_text(plan)))
}
