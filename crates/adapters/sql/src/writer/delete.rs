//! Sessions go, with all that belongs to them.

use neuraxis_core::SessionId;
use neuraxis_ports::StoreError;
use sqlx::{AssertSqlSafe, Error};

use super::act::Act;
use super::{Task, Work};
use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, values};
use crate::read::ids::run_id;

/// How many sessions one transaction prunes at the most: others want to write, too.
const PRUNED_AT_ONCE: i64 = 1_000;

impl Task {
    pub(super) async fn delete(
        &mut self,
        link: &mut Link,
        session: &SessionId,
    ) -> Result<(), Failure> {
        let sql = format!(
            "SELECT key FROM sessions WHERE id = $1{}",
            self.database.dialect.for_update()
        );
        let id = session.as_str();
        let row = link.row(AssertSqlSafe(sql), values![id]).await?;
        let key = row.ok_or_else(|| StoreError::NoSuchSession(session.clone()))?;
        let key = key.int(0)?;
        let sql = "SELECT id FROM runs WHERE session = $1 AND ended_at IS NULL";
        if let Some(row) = link.row(sql, values![key]).await? {
            let (session, run) = (session.clone(), run_id(&row, 0)?);
            return Err(StoreError::SessionBusy { session, run }.into());
        }
        Ok(remove(link, key).await?)
    }

    /// Removes sessions in which nothing happened since; a page of them.
    pub(super) async fn prune(&self, link: &mut Link, before: i64) -> Result<u64, Failure> {
        let sql = format!(
            "SELECT key FROM sessions WHERE created_at < $1 AND NOT EXISTS (SELECT 1 FROM runs \
             WHERE runs.session = sessions.key AND (runs.ended_at IS NULL OR runs.ended_at >= $1)) \
             ORDER BY created_at LIMIT {PRUNED_AT_ONCE}{}",
            self.database.dialect.for_update()
        );
        let old = link.rows(AssertSqlSafe(sql), values![before]).await?;
        for row in &old {
            remove(link, row.int(0)?).await?;
        }
        Ok(old.len().try_into().unwrap_or(u64::MAX))
    }

    /// Gives the space of what was deleted back to the disk. Whether it works out does not matter.
    pub(super) async fn tidy(&self, link: &mut Link, works: &[Work]) {
        let deleted = works
            .iter()
            .any(|work| matches!(work, Work::Act(Act::Delete(_) | Act::Prune(_))));
        if deleted && self.database.dialect == Dialect::Sqlite {
            for sql in [
                "PRAGMA incremental_vacuum",
                "PRAGMA wal_checkpoint(TRUNCATE)",
            ] {
                if let Err(error) = link.rows(sql, &[]).await {
                    tracing::debug!(%error, "freed space stays in the file for now");
                }
            }
        }
    }
}

async fn remove(link: &mut Link, session: i64) -> Result<(), Error> {
    const OF_RUNS: [&str; 3] = [
        "DELETE FROM steps WHERE run IN (SELECT key FROM runs WHERE session = $1)",
        "DELETE FROM payloads WHERE run IN (SELECT key FROM runs WHERE session = $1)",
        "DELETE FROM inbox WHERE run IN (SELECT key FROM runs WHERE session = $1)",
    ];
    for sql in OF_RUNS {
        link.run(sql, values![session]).await?;
    }
    for sql in [
        "DELETE FROM runs WHERE session = $1",
        "DELETE FROM taints WHERE session = $1",
        "DELETE FROM grants WHERE session = $1",
    ] {
        link.run(sql, values![session]).await?;
    }
    link.run("DELETE FROM sessions WHERE key = $1", values![session])
        .await?;
    Ok(())
}
