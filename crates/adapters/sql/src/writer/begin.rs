//! Sessions are made, and runs begin.

use std::time::Instant;

use neuraxis_core::{JsonText, RunId, SessionId};
use neuraxis_ports::{ChainHead, RunLease, Session, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::run_state::RunState;
use super::{Task, stale};
use crate::error::Failure;
use crate::lease_clock::Look;
use crate::link::{Link, Row, Value, values};
use crate::read::ids::{hash, run_id};
use crate::read::runs::stored_lease;
use crate::read::sessions::session_of;

/// What is known of a run that is to begin again.
struct Known {
    key: i64,
    session: i64,
    holder: String,
    is_held: bool,
    has_ended: bool,
}

impl Task {
    pub(super) async fn create(&self, link: &mut Link, session: &Session) -> Result<(), Failure> {
        let seed = match session.seed.is_empty() {
            true => None,
            false => Some(
                JsonText::encode(&session.seed).map_err(|_| StoreError::Invalid {
                    what: "seed",
                    rule: "messages that can be written as JSON",
                })?,
            ),
        };
        let seed = seed.as_ref().map(|seed| seed.as_str().as_bytes());
        let sql = "INSERT INTO sessions (id, owner, created_at, seed) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (id) DO NOTHING";
        let values = [
            Value::from(session.id.as_str()),
            Value::Text(session.owner.as_deref()),
            Value::from(session.created_at.as_microsecond()),
            Value::Bytes(seed),
        ];
        match link.run(sql, &values).await? {
            0 => Err(StoreError::SessionExists(session.id.clone()).into()),
            _ => Ok(()),
        }
    }

    pub(super) async fn begin(
        &mut self,
        link: &mut Link,
        session: &SessionId,
        run: RunId,
    ) -> Result<RunLease, Failure> {
        let dialect = self.database.dialect;
        let sql = format!(
            "SELECT key, id, owner, created_at, seed FROM sessions WHERE id = $1{}",
            dialect.for_update()
        );
        let id = session.as_str();
        let row = link.row(AssertSqlSafe(sql), values![id]).await?;
        let row = row.ok_or_else(|| StoreError::NoSuchSession(session.clone()))?;
        let session_key = row.int(0)?;
        let busy = |run| StoreError::SessionBusy {
            session: session.clone(),
            run,
        };
        if let Some(known) = self.known(link, run).await? {
            if known.has_ended || known.session != session_key {
                return Err(StoreError::Stale(run).into());
            }
            if known.is_held && known.holder != self.settings.holder {
                return Err(busy(run).into());
            }
            return self.take_over(link, session, run, known.key).await;
        }
        let sql = "SELECT id FROM runs WHERE session = $1 AND ended_at IS NULL";
        if let Some(row) = link.row(sql, values![session_key]).await? {
            return Err(busy(run_id(&row, 0)?).into());
        }
        let head = head(link, session_key, &row).await?;
        self.insert(link, session, session_key, run, head).await
    }

    async fn known(&self, link: &mut Link, run: RunId) -> Result<Option<Known>, Error> {
        let dialect = self.database.dialect;
        let sql = format!(
            "SELECT key, session, holder, ended_at, leased_until, lease_ms, {} FROM runs WHERE id = $1{}",
            dialect.now(),
            dialect.for_update(),
        );
        let id = run.0.as_bytes().as_slice();
        let asked = Instant::now();
        let Some(row) = link.row(AssertSqlSafe(sql), values![id]).await? else {
            return Ok(None);
        };
        let look = Look {
            asked,
            answered: Instant::now(),
            now: row.int(6)?,
        };
        let clock = &self.database.lease_clock;
        clock.hear(look);
        let lease = stored_lease(&row, 4)?;
        Ok(Some(Known {
            key: row.int(0)?,
            session: row.int(1)?,
            holder: row.text(2)?,
            is_held: lease.is_some_and(|lease| clock.is_held(lease, look)),
            has_ended: row.maybe_int(3)?.is_some(),
        }))
    }

    async fn take_over(
        &mut self,
        link: &mut Link,
        session: &SessionId,
        run: RunId,
        key: i64,
    ) -> Result<RunLease, Failure> {
        let token = self.next_token(link).await?;
        let sql = format!(
            "UPDATE runs SET token = $1, holder = $2, leased_until = {} + $3, lease_ms = $3 WHERE key = $4",
            self.database.dialect.now()
        );
        let holder = self.settings.holder.as_str();
        let values = values![token, holder, self.settings.lease_millis(), key];
        link.run(AssertSqlSafe(sql), values).await?;
        // Somebody else may have gone on with it: what it has come to is read when it is needed.
        self.runs.remove(&run);
        Ok(self.lease(session, run, token))
    }

    async fn insert(
        &mut self,
        link: &mut Link,
        session: &SessionId,
        session_key: i64,
        run: RunId,
        head: ChainHead,
    ) -> Result<RunLease, Failure> {
        let token = self.next_token(link).await?;
        let sql = format!(
            "INSERT INTO runs (id, session, token, holder, leased_until, records, bytes, chain_records, chain, \
             status, turns, lease_ms) VALUES ($1, $2, $3, $4, {} + $5, 0, 0, $6, $7, 'running', 0, $5) RETURNING key",
            self.database.dialect.now()
        );
        let values = values![
            run.0.as_bytes().as_slice(),
            session_key,
            token,
            self.settings.holder.as_str(),
            self.settings.lease_millis(),
            head.records.cast_signed(),
            head.hash.as_bytes().as_slice(),
        ];
        let row = link.row(AssertSqlSafe(sql), values).await?;
        let key = row.ok_or(Error::RowNotFound)?.int(0)?;
        let lease = self.lease(session, run, token);
        self.runs.insert(run, RunState::new(key, &lease, head));
        Ok(lease)
    }

    fn lease(&self, session: &SessionId, run: RunId, token: i64) -> RunLease {
        let length = self.settings.lease;
        RunLease::new(session.clone(), run, token.unsigned_abs(), length)
    }

    pub(super) async fn next_token(&self, link: &mut Link) -> Result<i64, Error> {
        let row = link.row(self.database.dialect.next_lease(), &[]).await?;
        row.ok_or(Error::RowNotFound)?.int(0)
    }

    pub(super) async fn abandon(
        &mut self,
        link: &mut Link,
        lease: &RunLease,
    ) -> Result<(), Failure> {
        let key = self.leased(link, lease).await?;
        link.run("DELETE FROM inbox WHERE run = $1", values![key])
            .await?;
        let sql = "DELETE FROM runs WHERE key = $1 AND records = 0";
        if link.run(sql, values![key]).await? == 0 {
            return Err(stale(lease));
        }
        self.runs.remove(&lease.run);
        Ok(())
    }
}

/// Returns where the chain of a session stands when no run is at work.
async fn head(link: &mut Link, session_key: i64, session: &Row) -> Result<ChainHead, Failure> {
    let sql = "SELECT chain_records, chain FROM runs WHERE session = $1 ORDER BY key DESC LIMIT 1";
    let Some(row) = link.row(sql, values![session_key]).await? else {
        return Ok(ChainHead::start(&session_of(session, 1)?));
    };
    Ok(ChainHead::new(row.int(0)?.cast_unsigned(), hash(&row, 1)?))
}
