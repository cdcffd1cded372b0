//! What a session carries from one run to the next: untrusted content, and answers of people.

use neuraxis_core::{Grant, JsonText, Remembered, SessionId, Taint};
use neuraxis_ports::StoreError;

use super::sessions;
use crate::error::Failure;
use crate::link::{Link, Row, values};

pub(crate) async fn taint(link: &mut Link, session: &SessionId) -> Result<Taint, Failure> {
    let key = sessions::key(link, session).await?;
    taint_of(link, key).await
}

/// Returns what untrusted content is noted of a session, by its key.
pub(super) async fn taint_of(link: &mut Link, key: i64) -> Result<Taint, Failure> {
    let sql = "SELECT tool FROM taints WHERE session = $1 ORDER BY tool";
    let mut taint = Taint::default();
    for row in link.rows(sql, values![key]).await? {
        let damaged = |_| StoreError::Damaged("the name of a tool cannot be read".to_owned());
        taint.add(&row.text(0)?.parse().map_err(damaged)?, None);
    }
    Ok(taint)
}

pub(crate) async fn remembered(
    link: &mut Link,
    session: &SessionId,
) -> Result<Remembered, Failure> {
    let key = sessions::key(link, session).await?;
    of_session(link, key).await
}

/// Returns the answers of a session, by its key.
pub(crate) async fn of_session(link: &mut Link, key: i64) -> Result<Remembered, Failure> {
    let rows = grants_of(link, key).await?;
    let last = rows.last().map_or(0, |(number, _)| *number);
    let grants: Vec<Grant> = rows.into_iter().filter_map(|(_, grant)| grant).collect();
    Ok(Remembered::from_parts(
        grants,
        u32::try_from(last).unwrap_or(u32::MAX),
    ))
}

/// Returns the answers of a session with their numbers, also of those that were taken back.
pub(super) async fn grants_of(
    link: &mut Link,
    key: i64,
) -> Result<Vec<(i64, Option<Grant>)>, Failure> {
    let sql = "SELECT id, body FROM grants WHERE session = $1 ORDER BY id";
    let rows = link.rows(sql, values![key]).await?;
    rows.iter()
        .map(|row| Ok((row.int(0)?, grant(row)?)))
        .collect()
}

/// Reads an answer; nothing if it was taken back.
fn grant(row: &Row) -> Result<Option<Grant>, Failure> {
    let Some(body) = row.maybe_bytes(1)? else {
        return Ok(None);
    };
    let text = String::from_utf8(body).ok();
    let grant = text.and_then(|text| JsonText::from_text(text).decode().ok());
    let damaged = || StoreError::Damaged("a remembered answer cannot be read".to_owned());
    Ok(Some(grant.ok_or_else(damaged)?))
}
