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
        // It has no records yet.
        let Some(started) = row.maybe_int(2)? else {
            continue;
        };
        let summary: Option<LogSummary> = row.maybe_json(3, "the summary of a run")?;
        let last_at = summary.as_ref().and_then(|summary| summary.last_at);
        match last_at {
            _ if started >= since_micros => used += summary.unwrap_or_default().metrics(),
            // It has been waiting since before `since`, perhaps one of many.
            Some(last_at) if last_at < since => {}
            _ => used += &of_records(link, &row, since).await?,
        }
    }
    Ok(used)
}

/// Returns the statement that finds the runs that have not ended, or ended since `$1`: runs that ended earlier have no
/// later records. Each half uses its own index, however many runs there are. SQLite begins with them because it keeps
/// the given order of a `CROSS JOIN`.
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

/// Returns what a run used since a time, from its records: its summary does not say when it used what.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuraxis_ports::{RunLog as _, RunStart, Session, SessionIndex as _};
    use neuraxis_testkit::{CountingIds, RunLog, START};

    use super::*;
    use crate::config::SqlConfig;
    use crate::database::Database;
    use crate::store::SqlStore;

    #[tokio::test]
    async fn the_log_of_a_run_without_records_in_the_period_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.db");
        let config = SqlConfig::new(format!("sqlite://{}", file.display()));
        let store = SqlStore::open(&config).await.unwrap();
        let session = Session::new("main".parse().unwrap(), START);
        let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
        let records = vec![log.started("Hello?"), log.warned("slow")];
        let start = RunStart::in_new_session(session, log.run()).with_records(records);
        store.begin(&start).await.unwrap();
        let database = Database::connect(&config).unwrap();
        let mut link = database.writer().await.unwrap();
        link.run("UPDATE steps SET body = x'00'", &[])
            .await
            .unwrap();

        let of = UsageOf::Owner(None);
        let tomorrow = START + Duration::from_secs(86_400);
        let used = store.usage_since(&of, tomorrow).await;
        assert_eq!(used, Ok(SessionMetrics::default()));
        // The first record is older, the last one is not.
        let between = log.warned("slower").at - Duration::from_millis(1_500);
        assert!(store.usage_since(&of, between).await.is_err());
    }
}
