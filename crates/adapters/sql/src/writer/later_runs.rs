//! Begins runs in existing sessions: many per statement, each in a different session.

use std::collections::{HashMap, HashSet};

use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{ChainHead, RunLease};
use sqlx::{AssertSqlSafe, Error};

use super::beginnings::NewRun;
use super::leases::check_key;
use super::operation::Beginning;
use super::transaction::Transaction;
use super::upsert::{in_chunks, placeholders};
use super::{Outcomes, Task};
use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, Row, Value};
use crate::read::sessions::session_of;

/// A session in which no run is at work.
struct FreeSession {
    key: i64,
    head: ChainHead,
    last_run: Option<(i64, RunId)>,
    /// The number of its last lease.
    last_token: i64,
}

impl Task {
    /// Begins runs in existing sessions.
    pub(super) async fn begin_in_sessions<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        beginnings: &[&'a Beginning],
    ) -> Result<Outcomes, Error> {
        let mut outcomes = Vec::with_capacity(beginnings.len());
        for chunk in in_chunks(beginnings) {
            let leases = self.begin_in_free(transaction, chunk).await?;
            outcomes.extend(self.begin_or_refuse(transaction, chunk, leases).await?);
        }
        Ok(outcomes)
    }

    /// Begins the runs whose sessions exist and are free.
    async fn begin_in_free<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        beginnings: &[&'a Beginning],
    ) -> Result<HashMap<RunId, RunLease>, Error> {
        let mut free = match self.free(&mut transaction.link, beginnings).await {
            Ok(free) => free,
            Err(Failure::Database(error)) => return Err(error),
            // A session that cannot be read is reported to its own caller later.
            Err(Failure::Refused(_)) => HashMap::new(),
        };
        let last_tokens = free.values().map(|free| free.last_token);
        let last_token = last_tokens.max().unwrap_or_default();
        let mut new = Vec::with_capacity(free.len());
        for beginning in beginnings {
            let start = &beginning.start;
            // Of two beginnings in one session, the first wins.
            let Some(free) = free.remove(&start.session) else {
                continue;
            };
            let (after, last_run) = free.last_run.unzip();
            let is_as_read = start.after.is_none() || start.after == last_run;
            let keyed = check_key(&mut transaction.link, free.key, start).await;
            match keyed {
                Ok(()) if is_as_read => new.push(NewRun {
                    beginning,
                    session_key: free.key,
                    head: free.head,
                    after,
                }),
                Err(Failure::Database(error)) => return Err(error),
                // It is refused later, unless it is a repeated call.
                Ok(()) | Err(Failure::Refused(_)) => {}
            }
        }
        self.begin_all(transaction, &new, last_token).await
    }

    /// Finds the sessions of runs about to begin that have no run at work and that no other transaction has locked.
    async fn free(
        &self,
        link: &mut Link,
        beginnings: &[&Beginning],
    ) -> Result<HashMap<SessionId, FreeSession>, Failure> {
        let sessions = beginnings.iter().map(|it| it.start.session.as_str());
        let values: Vec<_> = sessions.map(Value::from).collect();
        let ids = placeholders(values.len());
        let locked = match self.database.dialect {
            Dialect::Sqlite => None,
            Dialect::Postgres => Some(lock(link, &ids, &values).await?),
        };
        // The seed, which may be long, is needed only for a session without a run.
        let sql = format!(
            "SELECT sessions.key, sessions.id, owner, created_at, CASE WHEN runs.key IS NULL THEN seed END, \
             ended_at, chain_records, chain, token, runs.id, runs.key \
             FROM sessions LEFT JOIN runs ON runs.key = \
             (SELECT key FROM runs WHERE session = sessions.key ORDER BY key DESC LIMIT 1) \
             WHERE sessions.id IN ({ids})"
        );
        let rows = link.rows(AssertSqlSafe(sql), &values).await?;
        let free = rows.iter().filter_map(|row| free_of(row).transpose());
        let mut free = free.collect::<Result<HashMap<_, _>, Failure>>()?;
        if let Some(locked) = locked {
            free.retain(|session, _| locked.contains(session.as_str()));
        }
        Ok(free)
    }
}

/// Locks sessions, given by placeholders and their ids, skipping those that another transaction has locked, and returns
/// the ids of the locked ones. Other columns read by the same statement may be older than the lock.
async fn lock(link: &mut Link, ids: &str, values: &[Value<'_>]) -> Result<HashSet<String>, Error> {
    let sql = format!("SELECT id FROM sessions WHERE id IN ({ids}) FOR UPDATE SKIP LOCKED");
    let rows = link.rows(AssertSqlSafe(sql), values).await?;
    rows.iter().map(|row| row.text(0)).collect()
}

/// Reads a session and its last run; `None` if that is at work.
fn free_of(row: &Row) -> Result<Option<(SessionId, FreeSession)>, Failure> {
    let session = session_of(row, 1)?;
    let key = row.int(0)?;
    let Some(last_token) = row.maybe_int(8)? else {
        let free = FreeSession {
            key,
            head: ChainHead::start(&session),
            last_run: None,
            last_token: 0,
        };
        return Ok(Some((session.id, free)));
    };
    if row.maybe_int(5)?.is_none() {
        return Ok(None);
    }
    let free = FreeSession {
        key,
        head: ChainHead::new(row.int(6)?.cast_unsigned(), row.hash(7)?),
        last_run: Some((row.int(10)?, row.run_id(9)?)),
        last_token,
    };
    Ok(Some((session.id, free)))
}
