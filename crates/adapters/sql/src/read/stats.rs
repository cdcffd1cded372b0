//! Totals of many runs, from their summaries: one page at a time, found by their start.
//!
//! Not for usage by the time of the records, which `usage` returns.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::{LogSummary, Stats};
use neuraxis_ports::StatsFilter;
use sqlx::AssertSqlSafe;

use crate::error::Failure;
use crate::link::{Link, Value};

/// How many summaries are in memory at a time.
const PAGE: usize = 500;

/// Adds up the runs that match a filter.
pub(crate) async fn of(link: &mut Link, filter: &StatsFilter) -> Result<Stats, Failure> {
    let whose = match filter.owner {
        Some(_) => "AND sessions.owner = $4",
        None => "",
    };
    let sql = select(whose);
    let mut stats = filter.begun();
    let since = filter.since.map(Timestamp::as_microsecond);
    let before = filter.before.map(Timestamp::as_microsecond);
    let before = before.unwrap_or(i64::MAX);
    let mut after = (since.unwrap_or(i64::MIN), i64::MIN);
    loop {
        // The position of the last counted run.
        let mut values = [after.0, after.1, before].map(Value::from).to_vec();
        values.extend(filter.owner.as_deref().map(Value::from));
        let rows = link.rows(AssertSqlSafe(sql.clone()), &values).await?;
        for row in &rows {
            after = (row.int(0)?, row.int(1)?);
            let run: Option<LogSummary> = row.maybe_json(2, "the summary of a run")?;
            let owner = row.maybe_text(3)?;
            stats.add_of(owner.as_deref(), &run.unwrap_or_default());
        }
        if rows.len() < PAGE {
            return Ok(stats);
        }
    }
}

/// Returns the statement that finds the next page of runs. SQLite keeps the given order of a `CROSS JOIN`. Otherwise it
/// would begin with the sessions of an owner, and read all of their runs for each page.
pub(super) fn select(whose: &str) -> String {
    // Runs with the same start are ordered by key.
    format!(
        "SELECT runs.started_at, runs.key, runs.summary, sessions.owner FROM runs CROSS JOIN sessions \
         WHERE sessions.key = runs.session AND runs.started_at < $3 \
         AND runs.started_at >= $1 AND (runs.started_at > $1 OR runs.key > $2) {whose} \
         ORDER BY runs.started_at, runs.key LIMIT {PAGE}"
    )
}
