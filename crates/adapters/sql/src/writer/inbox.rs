//! Stores inbox entries until their run takes them.

use neuraxis_core::{ContentHash, InputId, RunId};
use neuraxis_ports::{MAX_INBOX_ENTRIES, RunLease, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::Task;
use super::upsert::keys;
use crate::error::Failure;
use crate::link::{Link, values};

impl Task {
    pub(super) async fn post(
        &self,
        link: &mut Link,
        run: RunId,
        id: &InputId,
        body: &str,
        hash: ContentHash,
    ) -> Result<(), Failure> {
        let sql = format!(
            "SELECT key FROM runs WHERE id = $1 AND ended_at IS NULL{}",
            self.database.dialect.for_update()
        );
        let run_id = run.0.as_bytes().as_slice();
        let (row, has_ended) = match link.row(AssertSqlSafe(sql), values![run_id]).await? {
            Some(row) => (row, false),
            None => {
                // An ended run does not change any more, so this does not wait for a transaction that may be about to
                // remove it.
                let sql = "SELECT key FROM runs WHERE id = $1";
                let row = link.row(sql, values![run_id]).await?;
                (row.ok_or(StoreError::NoSuchRun(run))?, true)
            }
        };
        let key = row.int(0)?;
        let hash = hash.as_bytes().as_slice();
        let sql = "SELECT hash FROM inbox WHERE run = $1 AND id = $2";
        if let Some(known) = link.row(sql, values![key, id.as_str()]).await? {
            let is_same = known.bytes(0)? == hash;
            let id = id.clone();
            return is_same
                .then_some(())
                .ok_or_else(|| StoreError::InputReused { run, id }.into());
        }
        if has_ended {
            return Err(StoreError::RunEnded(run).into());
        }
        let sql = "SELECT count(*) FROM inbox WHERE run = $1 AND body IS NOT NULL";
        let waiting = link.row(sql, values![key]).await?;
        let waiting = waiting.map_or(Ok(0), |row| row.int(0))?;
        if usize::try_from(waiting).unwrap_or(usize::MAX) >= MAX_INBOX_ENTRIES {
            return Err(StoreError::InboxFull(run).into());
        }
        let sql = "INSERT INTO inbox (run, id, hash, body) VALUES ($1, $2, $3, $4)";
        let values = values![key, id.as_str(), hash, body.as_bytes()];
        link.run(sql, values).await?;
        Ok(())
    }

    pub(super) async fn settle(
        &self,
        link: &mut Link,
        lease: &RunLease,
        ids: &[InputId],
    ) -> Result<(), Failure> {
        let key = self.leased(link, lease).await?;
        self.take(link, key, ids).await?;
        Ok(())
    }

    /// Takes entries out of the inbox; their ids and hashes stay as evidence that they were there.
    pub(super) async fn take(
        &self,
        link: &mut Link,
        key: i64,
        ids: &[InputId],
    ) -> Result<(), Error> {
        let sql = "UPDATE inbox SET body = NULL WHERE run = $1 AND id = $2";
        for id in ids {
            link.run(sql, values![key, id.as_str()]).await?;
        }
        Ok(())
    }

    /// Takes everything out of the inboxes of runs that have ended: nothing else will.
    pub(super) async fn take_all(&self, link: &mut Link, ended: &[i64]) -> Result<(), Error> {
        if ended.is_empty() {
            return Ok(());
        }
        let (keys, values) = keys(ended.iter().copied());
        let sql =
            format!("UPDATE inbox SET body = NULL WHERE run IN ({keys}) AND body IS NOT NULL");
        link.run(AssertSqlSafe(sql), &values).await?;
        Ok(())
    }
}
