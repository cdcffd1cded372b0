//! What waits for a run.

use neuraxis_core::{InboxEntry, JsonText};
use neuraxis_ports::{RunLease, StoreError};

use crate::error::Failure;
use crate::link::{Link, values};

pub(crate) async fn of_lease(
    link: &mut Link,
    lease: &RunLease,
) -> Result<Vec<InboxEntry>, Failure> {
    let sql = "SELECT runs.key FROM runs JOIN sessions ON sessions.key = runs.session \
               WHERE runs.id = $1 AND runs.token = $2 AND sessions.id = $3";
    let values = values![
        lease.run.0.as_bytes().as_slice(),
        lease.token.cast_signed(),
        lease.session.as_str(),
    ];
    let row = link.row(sql, values).await?;
    let key = row.ok_or(StoreError::Stale(lease.run))?.int(0)?;
    let sql = "SELECT body FROM inbox WHERE run = $1 AND body IS NOT NULL ORDER BY key";
    let rows = link.rows(sql, values![key]).await?;
    let entries = rows.iter().map(|row| {
        let text = String::from_utf8(row.bytes(0)?).ok();
        let entry = text.and_then(|text| JsonText::from_text(text).decode().ok());
        let run = lease.run;
        let damaged = || StoreError::Damaged(format!("the inbox of run {run} cannot be read"));
        Ok(entry.ok_or_else(damaged)?)
    });
    entries.collect()
}
