//! What sessions used.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::LogSummary;
use neuraxis_core::{RunMeter, SessionMetrics};
use neuraxis_ports::UsageOf;
use sqlx::AssertSqlSafe;

use super::{records, sessions};
use crate::error::Failure;
use crate::link::{Link, Row, Value};

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
    let values = [Value::from(since_micros), value];
    let rows = link.rows(AssertSqlSafe(select(whose)), &values).await?;
    let mut used = SessionMetrics::default();
    for row in rows {
        match row.maybe_int(2)? {
            // Nothing of it is recorded yet.
            None => {}
            Some(started) if started >= since_micros => {
                let summary: Option<LogSummary> = row.maybe_json(3, "the summary of a run")?;
                used += summary.unwrap_or_default().metrics();
            }
            Some(_) => used += &of_records(link, &row, since).await?,
        }
    }
    Ok(used)
}

/// Returns the statement that finds the runs which have not ended, or did since `$1`: what ended before has no record since. Each half has
/// an index of its own, however many runs there are; SQLite begins with them, since it takes a `CROSS JOIN` in the order given.
pub(super) fn select(whose: &str) -> String {
    let half = |which: &str| {
        format!(
            "SELECT runs.key, runs.id, runs.started_at, runs.summary FROM runs CROSS JOIN sessions \
             WHERE sessions.key = runs.session AND {which} AND {whose}"
        )
    };
    let (ended, at_work) = (half("runs.ended_at >= $1"), half("runs.ended_at IS NULL"));
    format!("{ended} UNION ALL {at_work}")
}

/// Returns what a run used since a time, as its records tell it: its summary does not say when it used what.
async fn of_records(
    link: &mut Link,
    row: &Row,
    since: Timestamp,
) -> Result<SessionMetrics, Failure> {
    let records = records::of_run(link, row.int(0)?, row.run_id(1)?, 0).await?;
    let mut meter = RunMeter::since(since);
    records.iter().for_each(|record| meter.read(record));
    Ok(meter.used().clone())
}
