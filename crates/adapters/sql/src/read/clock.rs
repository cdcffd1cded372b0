//! What time it is for all who share a database.

use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::StoreError;
use sqlx::{AssertSqlSafe, Error};

use crate::database::Dialect;
use crate::error::Failure;
use crate::link::Link;

/// Returns the time by the clock of a server. A file has that of the machine.
pub(crate) async fn shared(
    link: &mut Link,
    dialect: Dialect,
) -> Result<Option<Timestamp>, Failure> {
    if dialect == Dialect::Sqlite {
        return Ok(None);
    }
    let sql = format!("SELECT {}", dialect.now());
    let row = link.row(AssertSqlSafe(sql), &[]).await?;
    let now = row.ok_or(Error::RowNotFound)?.int(0)?;
    let beyond = |_| StoreError::Damaged("the time of the database is beyond all times".to_owned());
    Ok(Some(Timestamp::from_millisecond(now).map_err(beyond)?))
}
