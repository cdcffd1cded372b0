//! What sessions used, and their last plans.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{JsonText, RunMeter, SessionId, SessionMetrics};
use neuraxis_ports::{StoreError, UsageOf};
use sqlx::AssertSqlSafe;

use super::ids::run_id;
use super::{records, sessions};
use crate::error::Failure;
use crate::link::{Link, Row, Value, values};

pub(crate) async fn since(
    link: &mut Link,
    of: &UsageOf,
    since: Timestamp,
) -> Result<SessionMetrics, Failure> {
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
        "SELECT runs.key, runs.id, runs.started_at, runs.metrics FROM runs \
         JOIN sessions ON sessions.key = runs.session \
         WHERE (runs.ended_at IS NULL OR runs.ended_at >= $1) AND {whose}"
    );
    let values = [Value::from(since_micros), value];
    let rows = link.rows(AssertSqlSafe(sql), &values).await?;
    let mut used = SessionMetrics::default();
    for row in rows {
        match whole(&row, since_micros)? {
            Some(metrics) => used += &metrics,
            None => {
                let mut meter = RunMeter::since(since);
                for record in records::of_run(link, row.int(0)?, run_id(&row, 1)?, 0).await? {
                    meter.read(&record);
                }
                used += meter.used();
            }
        }
    }
    Ok(used)
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
