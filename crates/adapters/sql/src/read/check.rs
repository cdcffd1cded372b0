//! Looks whether a database is whole and can be read.

use neuraxis_ports::StoreError;

use crate::database::Dialect;
use crate::error::Failure;
use crate::link::Link;
use crate::store::Contents;

/// How many faults of a file are told.
const MOST_FAULTS: &str = "PRAGMA quick_check(3)";

/// Reads through the whole file, as far as its own structure goes, and counts what is in it.
pub(crate) async fn contents(link: &mut Link, dialect: Dialect) -> Result<Contents, Failure> {
    if dialect == Dialect::Sqlite {
        let told = link.rows(MOST_FAULTS, &[]).await?;
        let told: Vec<String> = told
            .iter()
            .map(|row| row.text(0))
            .collect::<Result<_, _>>()?;
        if told != ["ok"] {
            return Err(StoreError::Damaged(told.join("; ").replace('\n', " ")).into());
        }
    }
    let sessions = count(link, "SELECT count(*) FROM sessions").await?;
    let runs = count(link, "SELECT count(*) FROM runs").await?;
    // Each row is looked at, wherever an index points: none holds this column.
    count(
        link,
        "SELECT CAST(coalesce(sum(length(body)), 0) AS BIGINT) FROM steps",
    )
    .await?;
    Ok(Contents { sessions, runs })
}

async fn count(link: &mut Link, sql: &'static str) -> Result<u64, Failure> {
    let row = link.row(sql, &[]).await?;
    let row = row.ok_or(sqlx::Error::RowNotFound)?;
    Ok(row.int(0)?.cast_unsigned())
}
