//! Pages of sessions, alone or with how each began and how its last run stands.

use neuraxis_core::log::LogSummary;
use neuraxis_ports::{Session, SessionFilter, SessionOrder, SessionSummary};
use sqlx::AssertSqlSafe;

use super::sessions::whole_session_of;
use crate::error::Failure;
use crate::link::{Link, Row, Value};

/// A page of sessions of a list, and the values of its statement.
struct Page<'a> {
    /// Selects the columns `key`, `id`, `owner`, `created_at`, `title` and `last_active_at`.
    sql: String,
    values: Vec<Value<'a>>,
    /// Sorts the list, of which `page` is a part.
    order: String,
}

/// A session of a list.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) key: i64,
    pub(super) summary: SessionSummary,
}

/// Returns a page of sessions without their seeds.
pub(crate) async fn plain(
    link: &mut Link,
    filter: &SessionFilter,
) -> Result<Vec<Session>, Failure> {
    // No character of an id sorts after the last one.
    let after_prefix = format!("{}~", filter.prefix);
    let Page { sql, values, order } = page(filter, &after_prefix);
    let sql = format!(
        "SELECT id, owner, created_at, NULL, title, last_active_at FROM ({sql}) AS page {order}"
    );
    let rows = link.rows(AssertSqlSafe(sql), &values).await?;
    rows.iter().map(|row| whole_session_of(row, 0)).collect()
}

/// Returns a page of sessions as lists show them.
pub(crate) async fn summaries(
    link: &mut Link,
    filter: &SessionFilter,
) -> Result<Vec<SessionSummary>, Failure> {
    let listed = listed(link, filter).await?.into_iter();
    Ok(listed.map(|listed| listed.summary).collect())
}

/// Returns such a page with the keys of its sessions.
pub(super) async fn listed(
    link: &mut Link,
    filter: &SessionFilter,
) -> Result<Vec<Listed>, Failure> {
    let after_prefix = format!("{}~", filter.prefix);
    let page = page(filter, &after_prefix);
    let sql = AssertSqlSafe(with_runs(&page));
    let rows = link.rows(sql, &page.values).await?;
    rows.iter().map(listed_of).collect()
}

/// Adds the first and the last run of each session to a page. Both are found by index, for the sessions of the page
/// alone.
fn with_runs(page: &Page<'_>) -> String {
    let of_run = |column: &str, order: &str| {
        format!(
            "(SELECT {column} FROM runs WHERE session = page.key ORDER BY runs.key {order} LIMIT 1)"
        )
    };
    format!(
        "SELECT page.key, page.id, owner, created_at, NULL, title, last_active_at, {}, {}, {} FROM ({}) AS page {}",
        of_run("summary", "ASC"),
        of_run("runs.id", "DESC"),
        of_run("summary", "DESC"),
        page.sql,
        page.order,
    )
}

/// Returns the statement that tests examine the plan of.
#[cfg(test)]
pub(super) fn select(filter: &SessionFilter) -> String {
    with_runs(&page(filter, ""))
}

fn page<'a>(filter: &'a SessionFilter, after_prefix: &'a str) -> Page<'a> {
    let limit = filter.limit.min(SessionFilter::MAX_LIMIT);
    let sorted_by = match filter.order {
        SessionOrder::Created => "page.created_at",
        SessionOrder::LastActive => "coalesce(page.last_active_at, page.created_at)",
    };
    let order = format!("ORDER BY {sorted_by} DESC, page.id DESC");
    let mut conditions = Vec::new();
    let mut values = Vec::new();
    if let Some(owner) = &filter.owner {
        values.push(Value::from(owner.as_str()));
        conditions.push("owner = $1".to_owned());
    }
    if !filter.prefix.is_empty() {
        let (from, to) = (values.len() + 1, values.len() + 2);
        values.push(Value::from(filter.prefix.as_str()));
        values.push(Value::from(after_prefix));
        conditions.push(format!("id >= ${from} AND id < ${to}"));
    }
    if let Some(before) = &filter.before {
        let (time, id) = (values.len() + 1, values.len() + 2);
        values.push(Value::from(before.at.as_microsecond()));
        values.push(Value::from(before.id.as_str()));
        // SQLite finds the place in an index on an expression only by the first condition.
        conditions.push(format!(
            "{sorted_by} <= ${time} AND ({sorted_by}, page.id) < (${time}, ${id})"
        ));
    }
    let conditions = match conditions.is_empty() {
        true => String::new(),
        false => format!("WHERE {}", conditions.join(" AND ")),
    };
    let sql = format!(
        "SELECT key, id, owner, created_at, title, last_active_at FROM sessions AS page {conditions} {order} LIMIT {limit}"
    );
    Page { sql, values, order }
}

fn listed_of(row: &Row) -> Result<Listed, Failure> {
    let session = whole_session_of(row, 1)?;
    let log = |column| {
        let what = format!("the summary of a run of session {}", session.id);
        let log = row.maybe_json::<LogSummary>(column, &what)?;
        Ok::<_, Failure>(log.unwrap_or_default())
    };
    let (first, last) = (log(7)?, log(9)?);
    let has_run = row.maybe_bytes(8)?.is_some();
    let mut summary = SessionSummary::new(session);
    if has_run {
        summary = summary
            .beginning_with(&first)
            .ending_with(row.run_id(8)?, &last);
    }
    let key = row.int(0)?;
    Ok(Listed { key, summary })
}
