//! Sessions, and what they carry from one run to the next.

use std::collections::BTreeSet;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::Carried;
use neuraxis_core::{JsonText, SessionId, Transcript};
use neuraxis_ports::{Session, SessionFilter, StoreError};
use sqlx::{AssertSqlSafe, Error, SqlSafeStr};

use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, Row, values};

/// The condition that nothing has happened in a session since `$1`, a time in microseconds.
pub(crate) const IDLE: &str = "created_at < $1 AND NOT EXISTS (SELECT 1 FROM runs \
     WHERE runs.session = sessions.key AND (runs.ended_at IS NULL OR runs.ended_at >= $1))";

/// Reads a session from its id, owner, time and seed, in columns starting at `column`; without what may change.
pub(crate) fn session_of(row: &Row, column: usize) -> Result<Session, Failure> {
    let id = row.session_id(column)?;
    let damaged = |_| StoreError::Damaged("the time of a session is unreadable".to_owned());
    let created_at = Timestamp::from_microsecond(row.int(column + 2)?).map_err(damaged)?;
    let mut session = Session::new(id, created_at);
    session.owner = row.maybe_text(column + 1)?;
    session.seed = seed_of(row, column + 3)?.0;
    Ok(session)
}

/// Reads a session with what may change: its title and the time of its last activity, in the columns after the seed.
pub(super) fn whole_session_of(row: &Row, column: usize) -> Result<Session, Failure> {
    let mut session = session_of(row, column)?;
    session.title = row.maybe_text(column + 4)?;
    session.last_active_at = row.maybe_time(column + 5)?;
    Ok(session)
}

/// Reads the messages that a session's history begins with, and their size in bytes of JSON.
fn seed_of(row: &Row, column: usize) -> Result<(Transcript, u64), Failure> {
    let Some(seed) = row.maybe_bytes(column)? else {
        return Ok((Transcript::default(), 0));
    };
    let damaged = || StoreError::Damaged("the seed of a session is unreadable".to_owned());
    let bytes = u64::try_from(seed.len()).unwrap_or(u64::MAX);
    let seed = String::from_utf8(seed).map_err(|_| damaged())?;
    let seed = JsonText::from_text(seed).decode();
    Ok((seed.map_err(|_| damaged())?, bytes))
}

/// Returns the row that a statement finds for a session, given by its id.
pub(crate) async fn row(
    link: &mut Link,
    sql: impl SqlSafeStr + Send,
    id: &SessionId,
) -> Result<Row, Failure> {
    let row = link.row(sql, values![id.as_str()]).await?;
    Ok(row.ok_or_else(|| StoreError::NoSuchSession(id.clone()))?)
}

/// Returns the messages that a session's history begins with, and their size in bytes of JSON.
pub(crate) async fn seed(link: &mut Link, id: &SessionId) -> Result<(Transcript, u64), Failure> {
    let sql = "SELECT seed FROM sessions WHERE id = $1";
    seed_of(&row(link, sql, id).await?, 0)
}

/// Returns the key of a session and the session itself.
pub(crate) async fn find(link: &mut Link, id: &SessionId) -> Result<(i64, Session), Failure> {
    let sql = "SELECT key, id, owner, created_at, seed, title, last_active_at FROM sessions WHERE id = $1";
    let row = row(link, sql, id).await?;
    Ok((row.int(0)?, whole_session_of(&row, 1)?))
}

/// Returns sessions in which nothing has happened since a time in microseconds, the oldest first.
pub(crate) async fn idle(
    link: &mut Link,
    before: i64,
    most: usize,
) -> Result<Vec<SessionId>, Failure> {
    let most = most.min(SessionFilter::MAX_LIMIT);
    let sql = format!("SELECT id FROM sessions WHERE {IDLE} ORDER BY created_at, id LIMIT {most}");
    let rows = link.rows(AssertSqlSafe(sql), values![before]).await?;
    rows.iter().map(|row| row.session_id(0)).collect()
}

/// Returns the key of a session.
pub(crate) async fn key(link: &mut Link, id: &SessionId) -> Result<i64, Failure> {
    let sql = "SELECT key FROM sessions WHERE id = $1";
    Ok(row(link, sql, id).await?.int(0)?)
}

/// Returns what a session carries, by its key, as stored: revoked grants included.
pub(crate) async fn carried_with_revoked(link: &mut Link, key: i64) -> Result<Carried, Failure> {
    let sql = "SELECT carried FROM sessions WHERE key = $1";
    let row = link.row(sql, values![key]).await?;
    let carried = row.map_or(Ok(None), |row| carried_of(&row, 0))?;
    Ok(carried.unwrap_or_default())
}

/// Reads what a session carries, if anything.
pub(crate) fn carried_of(row: &Row, column: usize) -> Result<Option<Carried>, Failure> {
    row.maybe_json(column, "the state carried by a session")
}

/// Returns what a session carries.
pub(crate) async fn carried(link: &mut Link, id: &SessionId) -> Result<Carried, Failure> {
    let sql = "SELECT key, carried FROM sessions WHERE id = $1";
    let row = row(link, sql, id).await?;
    let carried = carried_of(&row, 1)?.unwrap_or_default();
    without_revoked(link, row.int(0)?, carried).await
}

/// Removes revoked grants from what a session carries.
pub(crate) async fn without_revoked(
    link: &mut Link,
    key: i64,
    mut carried: Carried,
) -> Result<Carried, Failure> {
    if !carried.remembered.grants().is_empty() {
        let sql = "SELECT id FROM revoked WHERE session = $1";
        let revoked = link.rows(sql, values![key]).await?;
        let revoked = revoked.iter().map(|row| row.int(0));
        let revoked = revoked.collect::<Result<BTreeSet<_>, _>>()?;
        let remembered = &mut carried.remembered;
        remembered.retain(|grant| !revoked.contains(&i64::from(grant.id)));
    }
    Ok(carried)
}

/// Returns the time by a server's clock; `None` for a file, which uses the machine's.
pub(crate) async fn shared_time(
    link: &mut Link,
    dialect: Dialect,
) -> Result<Option<Timestamp>, Failure> {
    if dialect == Dialect::Sqlite {
        return Ok(None);
    }
    let sql = format!("SELECT {}", dialect.now());
    let row = link.row(AssertSqlSafe(sql), &[]).await?;
    let now = row.ok_or(Error::RowNotFound)?.int(0)?;
    let beyond = |_| StoreError::Damaged("the database's time is out of range".to_owned());
    Ok(Some(Timestamp::from_millisecond(now).map_err(beyond)?))
}
