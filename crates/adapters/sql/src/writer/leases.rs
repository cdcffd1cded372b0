//! Begins runs; renews and releases their leases.

use std::time::Instant;

use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{ChainHead, RunLease, RunStart, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::beginnings::NewRun;
use super::operation::{Beginning, Done};
use super::transaction::Transaction;
use super::{Task, stale};
use crate::error::Failure;
use crate::lease_clock::ClockReading;
use crate::link::{Link, values};
use crate::read::runs::stored_lease;
use crate::read::sessions::{key, session_of};

/// The stored row of a run that is about to begin again.
struct StoredRun {
    key: i64,
    session: i64,
    holder: String,
    is_held: bool,
    has_ended: bool,
    /// The number of its last lease.
    token: i64,
}

impl Task {
    /// Begins a run in an existing session. It does not wait for one that another transaction has locked: all other
    /// runs would wait, too.
    pub(super) async fn begin_in<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        beginning: &'a Beginning,
    ) -> Result<Done, Failure> {
        let link = &mut transaction.link;
        let start = &beginning.start;
        let (session, run) = (&start.session, start.run);
        let sql = format!(
            "SELECT key, id, owner, created_at, seed FROM sessions WHERE id = $1{}",
            self.database.dialect.for_update_unless_held()
        );
        let id = session.as_str();
        let Some(row) = link.row(AssertSqlSafe(sql), values![id]).await? else {
            // Or it does not exist.
            return key(link, session).await.map(|_| Done::Held);
        };
        let session_key = row.int(0)?;
        check_key(link, session_key, start).await?;
        let last = last_run(link, session_key).await?;
        let at_work = last.as_ref().and_then(|last| last.at_work);
        let has_changed =
            start.after.is_some() && start.after != last.as_ref().map(|last| last.run);
        let refusal = match (&start.new_session, at_work) {
            (Some(_), _) => Some(StoreError::SessionExists(session.clone())),
            (None, Some(at_work)) => Some(busy(session, at_work)),
            (None, None) if has_changed => Some(StoreError::SessionChanged(session.clone())),
            (None, None) => None,
        };
        if let Some(refusal) = refusal {
            return match self.stored(link, run).await? {
                Some(stored) => {
                    let begun = self.begin_again(transaction, beginning, session_key, stored);
                    begun.await.map(Done::Leased)
                }
                None => Err(refusal.into()),
            };
        }
        let head = match last {
            Some(last) => last.head,
            None => ChainHead::start(&session_of(&row, 1)?),
        };
        let new = NewRun {
            beginning,
            session_key,
            head,
            after: None,
        };
        let token = self.next_token(link).await?;
        let begun = self.insert_runs(transaction, &[new], &[token]).await?;
        // If none was inserted, the run has ended or belongs to another session.
        let begun = begun.into_iter().next().map(Done::Leased);
        begun.ok_or_else(|| StoreError::Stale(run).into())
    }

    /// Resumes a run that has not ended and that no other process drives. If the run ended with its first records,
    /// returns its lease: the caller may not have received the answer.
    async fn begin_again(
        &mut self,
        transaction: &mut Transaction<'_>,
        beginning: &Beginning,
        session_key: i64,
        stored: StoredRun,
    ) -> Result<RunLease, Failure> {
        let start = &beginning.start;
        let stale = || Err(StoreError::Stale(start.run).into());
        if stored.session != session_key {
            return stale();
        }
        let is_same_beginning = match &beginning.first {
            Some(first) => transaction.is_stored(stored.key, first).await?,
            None => !stored.has_ended,
        };
        if !is_same_beginning {
            return stale();
        }
        if stored.has_ended {
            return Ok(self.lease(start, stored.token));
        }
        if stored.is_held && stored.holder != self.settings.holder {
            return Err(busy(&start.session, start.run).into());
        }
        self.take_over(&mut transaction.link, start, stored.key)
            .await
    }

    async fn stored(&self, link: &mut Link, run: RunId) -> Result<Option<StoredRun>, Error> {
        let dialect = self.database.dialect;
        let sql = format!(
            "SELECT key, session, holder, ended_at, leased_until, lease_ms, {}, token FROM runs WHERE id = $1{}",
            dialect.now(),
            dialect.for_update(),
        );
        let id = run.0.as_bytes().as_slice();
        let asked = Instant::now();
        let Some(row) = link.row(AssertSqlSafe(sql), values![id]).await? else {
            return Ok(None);
        };
        let reading = ClockReading {
            asked,
            answered: Instant::now(),
            now: row.int(6)?,
        };
        let clock = &self.database.lease_clock;
        clock.observe(reading);
        let lease = stored_lease(&row, 4)?;
        Ok(Some(StoredRun {
            key: row.int(0)?,
            session: row.int(1)?,
            holder: row.text(2)?,
            is_held: lease.is_some_and(|lease| clock.is_held(lease, reading)),
            has_ended: row.maybe_int(3)?.is_some(),
            token: row.int(7)?,
        }))
    }

    async fn take_over(
        &mut self,
        link: &mut Link,
        start: &RunStart,
        key: i64,
    ) -> Result<RunLease, Failure> {
        let token = self.next_token(link).await?;
        let sql = format!(
            "UPDATE runs SET token = $1, holder = $2, leased_until = {} + $3, lease_ms = $3, imported = $4 WHERE key = $5",
            self.database.dialect.now()
        );
        let holder = self.settings.holder.as_str();
        let imported = i64::from(start.imported);
        let values = values![token, holder, self.settings.lease_millis(), imported, key];
        link.run(AssertSqlSafe(sql), values).await?;
        // Another process may have driven it meanwhile: its state is read when it is needed.
        self.runs.remove(&start.run);
        Ok(self.lease(start, token))
    }

    pub(super) fn lease(&self, start: &RunStart, token: i64) -> RunLease {
        let length = self.settings.lease;
        RunLease::new(
            start.session.clone(),
            start.run,
            token.unsigned_abs(),
            length,
        )
    }

    pub(super) async fn renew(&mut self, link: &mut Link, lease: &RunLease) -> Result<(), Failure> {
        let renewed = self.extend_lease(link, lease).await;
        if matches!(renewed, Err(Failure::Refused(StoreError::Stale(_)))) {
            // This process does no more with it, so its records need not stay.
            self.runs.remove(&lease.run);
        }
        renewed.map(drop)
    }

    /// Extends a lease from now on, and returns the key of its run.
    pub(super) async fn extend_lease(
        &self,
        link: &mut Link,
        lease: &RunLease,
    ) -> Result<i64, Failure> {
        let key = self.leased(link, lease).await?;
        let sql = format!(
            "UPDATE runs SET leased_until = {} + $1 \
             WHERE key = $2 AND ended_at IS NULL AND leased_until IS NOT NULL",
            self.database.dialect.now()
        );
        let values = values![self.settings.lease_millis(), key];
        match link.run(AssertSqlSafe(sql), values).await? {
            0 => Err(stale(lease)),
            _ => Ok(key),
        }
    }

    pub(super) async fn release(
        &mut self,
        link: &mut Link,
        lease: &RunLease,
    ) -> Result<(), Failure> {
        let key = self.leased(link, lease).await?;
        let sql = "UPDATE runs SET leased_until = NULL WHERE key = $1";
        link.run(sql, values![key]).await?;
        self.runs.remove(&lease.run);
        Ok(())
    }

    pub(super) async fn expire(
        &mut self,
        link: &mut Link,
        lease: &RunLease,
    ) -> Result<(), Failure> {
        let key = self.leased(link, lease).await?;
        // A released lease stays released. The run has not ended.
        let sql = format!(
            "UPDATE runs SET leased_until = {} WHERE key = $1 AND leased_until IS NOT NULL",
            self.database.dialect.now()
        );
        link.run(AssertSqlSafe(sql), values![key]).await?;
        self.runs.remove(&lease.run);
        Ok(())
    }

    pub(super) async fn abandon(
        &mut self,
        link: &mut Link,
        lease: &RunLease,
    ) -> Result<(), Failure> {
        let key = self.leased(link, lease).await?;
        let sql = "SELECT 1 FROM runs WHERE key = $1 AND records = 0";
        if link.row(sql, values![key]).await?.is_none() {
            return Err(stale(lease));
        }
        for sql in [
            "DELETE FROM inbox WHERE run = $1",
            "DELETE FROM output_chunks WHERE run = $1",
            "DELETE FROM outputs WHERE run = $1",
            "DELETE FROM runs WHERE key = $1",
        ] {
            link.run(sql, values![key]).await?;
        }
        self.runs.remove(&lease.run);
        Ok(())
    }
}

/// A session's state after its last run.
pub(super) struct LastRun {
    run: RunId,
    /// The run that has not ended, if there is one.
    at_work: Option<RunId>,
    /// The head of the session's chain, if no run is at work.
    pub(super) head: ChainHead,
}

/// Reads the last run of a session: only the last one can be at work.
pub(super) async fn last_run(
    link: &mut Link,
    session_key: i64,
) -> Result<Option<LastRun>, Failure> {
    let sql = "SELECT id, ended_at, chain_records, chain FROM runs WHERE session = $1 ORDER BY key DESC LIMIT 1";
    let Some(row) = link.row(sql, values![session_key]).await? else {
        return Ok(None);
    };
    let run = row.run_id(0)?;
    let at_work = match row.maybe_int(1)? {
        Some(_) => None,
        None => Some(run),
    };
    let head = ChainHead::new(row.int(2)?.cast_unsigned(), row.hash(3)?);
    Ok(Some(LastRun { run, at_work, head }))
}

fn busy(session: &SessionId, run: RunId) -> StoreError {
    StoreError::SessionBusy {
        session: session.clone(),
        run,
    }
}

/// Checks that no other run of a session was begun under the request's idempotency key.
pub(super) async fn check_key(
    link: &mut Link,
    session_key: i64,
    start: &RunStart,
) -> Result<(), Failure> {
    let Some(request) = &start.request else {
        return Ok(());
    };
    let sql = "SELECT id FROM runs WHERE session = $1 AND request_key = $2 AND id <> $3";
    let key = request.key.as_bytes().as_slice();
    let values = values![session_key, key, start.run.0.as_bytes().as_slice()];
    match link.row(sql, values).await? {
        Some(row) => Err(StoreError::KeyTaken {
            session: start.session.clone(),
            run: row.run_id(0)?,
        }
        .into()),
        None => Ok(()),
    }
}
