//! Creates and removes sessions with everything that belongs to them, and updates what they carry.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuraxis_core::log::Carried;
use neuraxis_core::{JsonText, Record, SessionId};
use neuraxis_ports::{ChainHead, Session, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::beginnings::{NewSession, make};
use super::leases::last_run;
use super::operation::Operation;
use super::upsert::{chunks, in_chunks, keys};
use super::{Task, Work};
use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, Row, Value, values};
use crate::read::sessions::{IDLE, carried_of, find, row};

/// The maximum number of sessions that one transaction prunes, so that other writers get a turn: three times as many as
/// fit into a statement.
const PRUNED_AT_ONCE: usize = 96;

/// The maximum number of bytes of records and outputs that one transaction prunes, unless a single session has more.
const PRUNED_BYTES: i64 = 64 * 1024 * 1024;

/// The maximum number of those bytes that one statement removes, unless a single run has more: a server cancels a
/// statement that takes longer than a request may.
const REMOVED_BYTES: i64 = 8 * 1024 * 1024;

/// The bytes of a run's records and outputs.
const BYTES: &str = "runs.bytes + (SELECT coalesce(sum(outputs.bytes), 0) FROM outputs WHERE outputs.run = runs.key)";

/// The number of pages of a file returned to the disk at a time: about 4 MB.
const FREED_AT_ONCE: usize = 1_000;

/// How long to wait for readers of a file before its log is truncated: all writers wait as long.
const READERS: Duration = Duration::from_millis(100);

/// How long to wait before a log that readers used is truncated.
pub(super) const EMPTY_AGAIN: Duration = Duration::from_secs(1);

/// Revokes a grant of a session, given by its number.
const TAKE_BACK: &str =
    "INSERT INTO revoked (session, id) VALUES ($1, $2) ON CONFLICT (session, id) DO NOTHING";

impl Task {
    pub(super) async fn create(&self, link: &mut Link, session: &Session) -> Result<(), Failure> {
        if !make(link, &[NewSession::alone(session)]).await?.is_empty() {
            return Ok(());
        }
        if self.repeats {
            let mut made = find(link, &session.id).await?.1;
            // A session that was copied from another store has had runs there.
            made.last_active_at = session.last_active_at;
            if made == *session {
                return Ok(());
            }
        }
        Err(StoreError::SessionExists(session.id.clone()).into())
    }

    pub(super) async fn delete(
        &mut self,
        link: &mut Link,
        session: &SessionId,
        at: Option<ChainHead>,
    ) -> Result<(), Failure> {
        let key = match self.locked(link, session).await {
            Err(Failure::Refused(StoreError::NoSuchSession(_))) if self.repeats => return Ok(()),
            row => row?.int(0)?,
        };
        let sql = "SELECT id FROM runs WHERE session = $1 AND ended_at IS NULL";
        if let Some(row) = link.row(sql, values![key]).await? {
            let (session, run) = (session.clone(), row.run_id(0)?);
            return Err(StoreError::SessionBusy { session, run }.into());
        }
        if let Some(head) = at {
            let found = match last_run(link, key).await? {
                Some(last) => last.head,
                None => ChainHead::start(&find(link, session).await?.1),
            };
            if found != head {
                return Err(StoreError::SessionChanged(session.clone()).into());
            }
        }
        Ok(remove(link, &[key]).await?)
    }

    /// Removes one page of the sessions in which nothing has happened since `before`.
    pub(super) async fn prune(&self, link: &mut Link, before: i64) -> Result<u64, Failure> {
        let sql = format!(
            "SELECT key, (SELECT CAST(coalesce(sum({BYTES}), 0) AS BIGINT) FROM runs WHERE runs.session = sessions.key) \
             FROM sessions WHERE {IDLE} ORDER BY created_at LIMIT {PRUNED_AT_ONCE}"
        );
        let found = read_sizes(&link.rows(AssertSqlSafe(sql), values![before]).await?)?;
        let (mut old, mut rest) = (Vec::new(), found.as_slice());
        while old.is_empty() && !rest.is_empty() {
            let (some, others) = rest.split_at(fitting(rest, PRUNED_BYTES));
            old = some.iter().map(|(key, _)| *key).collect();
            if self.database.dialect == Dialect::Postgres {
                // Locks only the sessions about to be removed: a run that begins in one of them must wait.
                old = locked_of(link, &old).await?;
                // What was read before the lock may be outdated.
                old = still_idle(link, &old, before).await?;
            }
            rest = others;
        }
        remove(link, &old).await?;
        Ok(old.len().try_into().unwrap_or(u64::MAX))
    }

    /// Returns the key of a session and what it carries, and locks both against changes until this transaction ends.
    async fn locked(&self, link: &mut Link, session: &SessionId) -> Result<Row, Failure> {
        let sql = format!(
            "SELECT key, carried FROM sessions WHERE id = $1{}",
            self.database.dialect.for_update()
        );
        row(link, AssertSqlSafe(sql), session).await
    }

    /// Revokes a grant; returns whether it existed.
    pub(super) async fn revoke(
        &self,
        link: &mut Link,
        session: &SessionId,
        id: u32,
    ) -> Result<bool, Failure> {
        let row = self.locked(link, session).await?;
        let carried = carried_of(&row, 1)?.unwrap_or_default();
        let mut grants = carried.remembered.grants().iter();
        if !grants.any(|grant| grant.id == id) {
            return Ok(false);
        }
        let values = values![row.int(0)?, i64::from(id)];
        let revoked = link.run(TAKE_BACK, values).await?;
        Ok(revoked > 0 || self.repeats)
    }

    pub(super) async fn set_title(
        &self,
        link: &mut Link,
        session: &SessionId,
        title: Option<&str>,
    ) -> Result<(), Failure> {
        let sql = "UPDATE sessions SET title = $1 WHERE id = $2";
        let values = [Value::Text(title), Value::from(session.as_str())];
        match link.run(sql, &values).await? {
            0 => Err(StoreError::NoSuchSession(session.clone()).into()),
            _ => Ok(()),
        }
    }

    /// Updates what a session carries with records of a run, given by its key.
    pub(super) async fn carry(
        &self,
        link: &mut Link,
        run: i64,
        records: &[Arc<Record>],
    ) -> Result<(), Failure> {
        let lock = match self.database.dialect {
            Dialect::Sqlite => "",
            Dialect::Postgres => " FOR UPDATE OF sessions",
        };
        let sql = format!(
            "SELECT sessions.key, carried, CAST(imported AS BIGINT) FROM sessions JOIN runs ON runs.session = sessions.key \
             WHERE runs.key = $1{lock}"
        );
        let row = link.row(AssertSqlSafe(sql), values![run]).await?;
        let row = row.ok_or(Error::RowNotFound)?;
        let mut carried = carried_of(&row, 1)?.unwrap_or_default();
        let mut has_changed = false;
        for record in records {
            has_changed |= carried.apply(record);
        }
        if has_changed {
            let json = JsonText::encode(&carried).map_err(|_| StoreError::Invalid {
                what: "record",
                rule: "one that can be written as JSON",
            })?;
            let sql = "UPDATE sessions SET carried = $1 WHERE key = $2";
            link.run(sql, values![json.as_str(), row.int(0)?]).await?;
        }
        if row.int(2)? != 0 {
            // Grants in a log from another store have no effect.
            for grant in records.iter().flat_map(|record| Carried::granted(record)) {
                let values = values![row.int(0)?, i64::from(grant.id)];
                link.run(TAKE_BACK, values).await?;
            }
        }
        Ok(())
    }

    /// Returns some of the space freed by deletions to the disk; the rest follows while no job waits. A failure does
    /// not matter.
    pub(super) async fn free_space(&mut self, link: &mut Link, works: &[Work]) {
        let deleted = works.iter().any(|work| {
            matches!(
                work,
                Work::Operation(Operation::Delete(..) | Operation::Prune(_))
            )
        });
        if deleted && self.database.dialect == Dialect::Sqlite {
            self.free_pages(link).await;
            self.empty_log(link, READERS).await;
        } else if self
            .deleted_in_log
            .is_some_and(|last| last.elapsed() >= EMPTY_AGAIN)
        {
            // Jobs may be waiting.
            self.empty_log(link, Duration::ZERO).await;
        }
    }

    /// Truncates the log, if readers prevented that before. Without a connection there is nothing to do: the last one to
    /// be closed removes the log.
    pub(super) async fn empty_log_again(&mut self) {
        match self.link.take() {
            Some(mut link) => {
                self.empty_log(&mut link, Duration::ZERO).await;
                self.link = Some(link);
            }
            None => self.deleted_in_log = None,
        }
    }

    /// Returns some more of that space.
    pub(super) async fn continue_freeing(&mut self) {
        let Some(mut link) = self.link.take() else {
            self.has_free_pages = false;
            return;
        };
        self.free_pages(&mut link).await;
        if !self.has_free_pages {
            self.empty_log(&mut link, READERS).await;
        }
        self.link = Some(link);
    }

    async fn free_pages(&mut self, link: &mut Link) {
        let sql = format!("PRAGMA incremental_vacuum({FREED_AT_ONCE})");
        let freed = rows_or_none(link.rows(AssertSqlSafe(sql), &[]).await);
        // One row per page.
        self.has_free_pages = freed.len() == FREED_AT_ONCE;
    }

    /// Writes the log back into the file and truncates the log, unless readers still use it after this time. Then
    /// remembers that.
    async fn empty_log(&mut self, link: &mut Link, readers: Duration) {
        let patience = self.database.patience();
        let emptied = async {
            wait_for_locks(link, patience.min(readers)).await?;
            let emptied = link.rows("PRAGMA wal_checkpoint(TRUNCATE)", &[]).await;
            wait_for_locks(link, patience).await?;
            emptied
        };
        let rows = rows_or_none(emptied.await);
        // The first column says whether something prevented it.
        let is_empty = rows.first().is_some_and(|row| matches!(row.int(0), Ok(0)));
        self.deleted_in_log = (!is_empty).then(Instant::now);
    }
}

/// Sets how long to wait for a lock of a file.
async fn wait_for_locks(link: &mut Link, longest: Duration) -> Result<(), Error> {
    let millis = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX);
    let sql = format!("PRAGMA busy_timeout = {millis}");
    link.rows(AssertSqlSafe(sql), &[]).await.map(drop)
}

fn rows_or_none(rows: Result<Vec<Row>, Error>) -> Vec<Row> {
    rows.unwrap_or_else(|error| {
        tracing::debug!(%error, "freed space is not returned to the file system yet");
        Vec::new()
    })
}

/// Locks sessions, given by their keys, and returns those that it could lock: a session locked by another transaction
/// is in use.
async fn locked_of(link: &mut Link, sessions: &[i64]) -> Result<Vec<i64>, Error> {
    let mut locked = Vec::with_capacity(sessions.len());
    for chunk in in_chunks(sessions) {
        let (keys, values) = keys(chunk.iter().copied());
        let sql = format!("SELECT key FROM sessions WHERE key IN ({keys}) FOR UPDATE SKIP LOCKED");
        for row in link.rows(AssertSqlSafe(sql), &values).await? {
            locked.push(row.int(0)?);
        }
    }
    Ok(locked)
}

/// Returns the sessions among those given by their keys in which still nothing has happened since `before`.
async fn still_idle(link: &mut Link, sessions: &[i64], before: i64) -> Result<Vec<i64>, Error> {
    let mut idle = Vec::with_capacity(sessions.len());
    for chunk in in_chunks(sessions) {
        let (keys, mut values) = keys(chunk.iter().copied());
        values.push(Value::from(before));
        let sql = format!(
            "SELECT session FROM runs WHERE session IN ({keys}) AND (ended_at IS NULL OR ended_at >= ${})",
            values.len()
        );
        let used = link.rows(AssertSqlSafe(sql), &values).await?;
        let used = used.iter().map(|row| row.int(0));
        let used = used.collect::<Result<HashSet<_>, _>>()?;
        idle.extend(chunk.iter().copied().filter(|key| !used.contains(key)));
    }
    Ok(idle)
}

/// Removes sessions, given by their keys, with everything that belongs to them: many per statement. The rows of the
/// sessions go last: once such a row is deleted, a transaction that recreates the session waits for the end of this
/// one, together with all writes in its batch.
async fn remove(link: &mut Link, sessions: &[i64]) -> Result<(), Error> {
    for chunk in in_chunks(sessions) {
        let (keys, values) = keys(chunk.iter().copied());
        let sql =
            format!("SELECT key, CAST({BYTES} AS BIGINT) FROM runs WHERE session IN ({keys})");
        let runs = read_sizes(&link.rows(AssertSqlSafe(sql), &values).await?)?;
        remove_runs(link, &runs).await?;
        let sql = format!("DELETE FROM revoked WHERE session IN ({keys})");
        link.run(AssertSqlSafe(sql), &values).await?;
    }
    for chunk in in_chunks(sessions) {
        let (keys, values) = keys(chunk.iter().copied());
        let sql = format!("DELETE FROM sessions WHERE key IN ({keys})");
        link.run(AssertSqlSafe(sql), &values).await?;
    }
    Ok(())
}

/// Removes runs, given by their keys and bytes, with everything that belongs to them: as many per statement as the
/// limit on bytes allows.
async fn remove_runs(link: &mut Link, runs: &[(i64, i64)]) -> Result<(), Error> {
    const OF_RUNS: [&str; 5] = ["steps", "payloads", "inbox", "output_chunks", "outputs"];
    let mut rest = runs;
    while !rest.is_empty() {
        let (chunk, others) = rest.split_at(chunks(fitting(rest, REMOVED_BYTES)));
        let (keys, values) = keys(chunk.iter().map(|(key, _)| *key));
        for table in OF_RUNS {
            let sql = format!("DELETE FROM {table} WHERE run IN ({keys})");
            link.run(AssertSqlSafe(sql), &values).await?;
        }
        let sql = format!("DELETE FROM runs WHERE key IN ({keys})");
        link.run(AssertSqlSafe(sql), &values).await?;
        rest = others;
    }
    Ok(())
}

/// Reads pairs of a key and the number of bytes that belong to it.
fn read_sizes(rows: &[Row]) -> Result<Vec<(i64, i64)>, Error> {
    let pairs = rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?)));
    pairs.collect()
}

/// Returns how many pairs, from the first on, have no more than `most` bytes together; at least one.
fn fitting(sizes: &[(i64, i64)], most: i64) -> usize {
    let mut sum = 0_i64;
    let fitting = sizes.iter().take_while(|(_, bytes)| {
        sum = sum.saturating_add(*bytes);
        sum <= most
    });
    fitting.count().max(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use neuraxis_ports::RunBounds;
    use neuraxis_testkit::START;

    use super::*;
    use crate::config::SqlConfig;
    use crate::database::Database;
    use crate::writer::{Settings, WriterKind};

    /// Returns a writer of a new file.
    async fn task_in(folder: &Path) -> Task {
        let file = folder.join("sessions.db");
        let config = SqlConfig::new(format!("sqlite://{}", file.display()));
        let database = Database::open(&config).await.unwrap();
        let settings = Settings {
            holder: "me".to_owned(),
            lease: Duration::from_secs(30),
            bounds: RunBounds::default(),
            kind: WriterKind::Commits,
        };
        Task::new(Arc::new(database), Arc::default(), settings, None)
    }

    /// The connection broke after the commit.
    #[tokio::test]
    async fn a_repeated_attempt_succeeds_if_the_first_one_took_effect() {
        let folder = tempfile::tempdir().unwrap();
        let mut task = task_in(folder.path()).await;
        let mut link = task.database.writer().await.unwrap();
        let session = Session::new("main".parse().unwrap(), START);
        let other = session.clone().owned_by("ann");
        assert!(task.create(&mut link, &session).await.is_ok());
        assert!(task.create(&mut link, &session).await.is_err());
        task.repeats = true;
        assert!(task.create(&mut link, &session).await.is_ok());
        assert!(task.create(&mut link, &other).await.is_err());
        assert!(task.delete(&mut link, &session.id, None).await.is_ok());
        assert!(task.delete(&mut link, &session.id, None).await.is_ok());
        task.repeats = false;
        assert!(task.delete(&mut link, &session.id, None).await.is_err());
    }

    /// A copy of the file is being read while a session is deleted.
    #[tokio::test]
    async fn what_was_deleted_leaves_the_log_once_no_reader_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut task = task_in(folder.path()).await;
        let session = Session::new("zoltan-quux".parse().unwrap(), START);
        let create = [Work::Operation(Operation::Create(session.clone()))];
        assert!(task.write(&create).await.iter().all(Result::is_ok));
        let mut reader = task.database.reader().await.unwrap();
        reader.run("BEGIN", &[]).await.unwrap();
        let sql = "SELECT count(*) FROM sessions";
        reader.row(sql, &[]).await.unwrap();
        let delete = [Work::Operation(Operation::Delete(session.id, None))];
        assert!(task.write(&delete).await.iter().all(Result::is_ok));
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let has_it = |bytes: &[u8]| bytes.windows(11).any(|it| it == b"zoltan-quux");
        assert!(task.deleted_in_log.is_some() && has_it(&read("sessions.db-wal")));
        task.empty_log_again().await;
        assert!(task.deleted_in_log.is_some());
        reader.run("COMMIT", &[]).await.unwrap();
        task.empty_log_again().await;
        assert!(task.deleted_in_log.is_none() && read("sessions.db-wal").is_empty());
        assert!(!has_it(&read("sessions.db")));
    }
}
