//! Answers of people are remembered and taken back, and untrusted content is noted.

use neuraxis_core::{Grant, SessionId, Taint};
use neuraxis_ports::{RunLease, StoreError, grant_out_of_turn};
use sqlx::{AssertSqlSafe, Error};

use super::Task;
use crate::error::Failure;
use crate::link::{Link, values};
use crate::read::answers::of_session;

impl Task {
    pub(super) async fn remember(
        &self,
        link: &mut Link,
        lease: &RunLease,
        grant: &Grant,
        body: &str,
    ) -> Result<(), Failure> {
        // Holds the row of the run, so that nobody else remembers anything for the session meanwhile.
        let run = self.leased(link, lease).await?;
        let sql = "SELECT session FROM runs WHERE key = $1";
        let row = link.row(sql, values![run]).await?;
        let session = row.ok_or(StoreError::Stale(lease.run))?.int(0)?;
        let mut remembered = of_session(link, session).await?;
        if remembered.grants().last() == Some(grant) {
            return Ok(());
        }
        if !remembered.add(grant.clone()) {
            return Err(grant_out_of_turn().into());
        }
        let sql = "INSERT INTO grants (session, id, body) VALUES ($1, $2, $3)";
        let values = values![session, i64::from(grant.id), body.as_bytes()];
        link.run(sql, values).await?;
        Ok(())
    }

    pub(super) async fn revoke(
        &self,
        link: &mut Link,
        session: &SessionId,
        id: u32,
    ) -> Result<bool, Failure> {
        let sql = format!(
            "SELECT key FROM sessions WHERE id = $1{}",
            self.database.dialect.for_update()
        );
        let row = link
            .row(AssertSqlSafe(sql), values![session.as_str()])
            .await?;
        let key = row.ok_or_else(|| StoreError::NoSuchSession(session.clone()))?;
        let key = key.int(0)?;
        let sql =
            "UPDATE grants SET body = NULL WHERE session = $1 AND id = $2 AND body IS NOT NULL";
        Ok(link.run(sql, values![key, i64::from(id)]).await? > 0)
    }
}

/// Notes the tools that brought untrusted content with a step of a run, by the run's key.
pub(super) async fn insert_taint(link: &mut Link, run: i64, taint: &Taint) -> Result<(), Error> {
    let sql = "INSERT INTO taints (session, tool) SELECT session, $2 FROM runs WHERE key = $1 \
               ON CONFLICT (session, tool) DO NOTHING";
    for source in taint.sources() {
        link.run(sql, values![run, source.tool.as_str()]).await?;
    }
    Ok(())
}
