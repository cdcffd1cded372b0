//! Leases are renewed, marked and given back.

use neuraxis_ports::RunLease;
use sqlx::AssertSqlSafe;

use super::{Task, stale};
use crate::error::Failure;
use crate::link::{Link, values};
use crate::read::runs::IMPORTED;

impl Task {
    pub(super) async fn renew(&self, link: &mut Link, lease: &RunLease) -> Result<(), Failure> {
        let key = self.leased(link, lease).await?;
        let sql = format!(
            "UPDATE runs SET leased_until = {} + $1 \
             WHERE key = $2 AND ended_at IS NULL AND leased_until IS NOT NULL",
            self.database.dialect.now()
        );
        let values = values![self.settings.lease_millis(), key];
        match link.run(AssertSqlSafe(sql), values).await? {
            0 => Err(stale(lease)),
            _ => Ok(()),
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

    pub(super) async fn mark_imported(
        &self,
        link: &mut Link,
        lease: &RunLease,
    ) -> Result<(), Failure> {
        let key = self.leased(link, lease).await?;
        let sql = "UPDATE runs SET holder = $1 WHERE key = $2";
        link.run(sql, values![IMPORTED, key]).await?;
        Ok(())
    }
}
