//! Statements for several rows at once. They come in a few sizes, so that each statement is prepared once, yet any 32
//! rows or fewer need at most two statements.

use std::fmt::Write;
use std::iter;

use crate::database::Dialect;
use crate::link::Value;

/// The numbers of rows that a statement may have. Fewer sizes would need more statements; a connection caches a
/// prepared one for each size.
const SIZES: [usize; 12] = [32, 24, 16, 12, 8, 7, 6, 5, 4, 3, 2, 1];

/// The number of columns of a step's change, as named in [`update_runs`].
pub(super) const COLUMNS: usize = 10;

/// Returns how many of `rows` rows go into the next statement.
pub(super) fn chunks(rows: usize) -> usize {
    let fitting = SIZES.into_iter().find(|size| *size <= rows);
    fitting.unwrap_or(1)
}

/// Splits rows into one slice per statement.
pub(crate) fn in_chunks<T>(rows: &[T]) -> impl Iterator<Item = &[T]> {
    let mut rest = rows;
    iter::from_fn(move || {
        let (chunk, others) = rest.split_at_checked(chunks(rest.len()))?;
        rest = others;
        Some(chunk)
    })
}

/// Returns `rows` rows of placeholders, numbered from 1.
pub(super) fn rows(rows: usize, columns: usize) -> String {
    let mut sql = String::with_capacity(rows * columns * 5);
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 1..=columns {
            let comma = if column == 1 { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(sql, "{comma}${}", row * columns + column);
        }
        sql.push(')');
    }
    sql
}

/// Returns `count` placeholders, numbered from 1.
pub(super) fn placeholders(count: usize) -> String {
    let row = rows(1, count);
    row.trim_matches(['(', ')']).to_owned()
}

/// Returns placeholders for keys, numbered from 1, and their values.
pub(crate) fn keys(keys: impl IntoIterator<Item = i64>) -> (String, Vec<Value<'static>>) {
    let values: Vec<_> = keys.into_iter().map(Value::from).collect();
    (placeholders(values.len()), values)
}

/// Returns the statement that updates the rows of runs whose lease is still the last one and whose number of records is
/// as expected. It returns their keys, and whether anything waits in their inboxes.
pub(super) fn update_runs(dialect: Dialect, count: usize) -> String {
    format!(
        "WITH new (key, token, before, records, bytes, chain_records, chain, started_at, ended_at, summary) \
         AS (VALUES {rows}) \
         UPDATE runs SET records = new.records, bytes = new.bytes, chain_records = new.chain_records, \
         chain = new.chain, started_at = new.started_at, ended_at = new.ended_at, summary = new.summary, \
         leased_until = CASE WHEN new.ended_at IS NULL THEN {now} + ${lease} END \
         FROM new WHERE runs.key = new.key AND runs.token = new.token AND runs.records = new.before \
         AND runs.ended_at IS NULL AND runs.leased_until IS NOT NULL \
         RETURNING runs.key, CAST(CASE WHEN EXISTS (SELECT 1 FROM inbox WHERE inbox.run = runs.key \
         AND inbox.body IS NOT NULL) THEN 1 ELSE 0 END AS BIGINT)",
        rows = rows(count, COLUMNS),
        now = dialect.now(),
        lease = count * COLUMNS + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_written_and_up_to_32_take_at_most_two_statements() {
        let statements = |rows| -> Vec<_> {
            let rows = vec![(); rows];
            in_chunks(&rows).map(<[()]>::len).collect()
        };
        assert_eq!(statements(77), [32, 32, 12, 1]);
        assert!((1..=32).all(|rows| statements(rows).len() <= 2));
    }

    #[test]
    fn placeholders_are_numbered_across_all_rows() {
        assert_eq!(rows(2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}
