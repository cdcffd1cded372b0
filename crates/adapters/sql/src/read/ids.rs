//! Ids and hashes, as columns hold them.

use neuraxis_core::{ContentHash, RunId};
use neuraxis_ports::StoreError;

use crate::error::Failure;
use crate::link::Row;

/// Reads a hash.
pub(crate) fn hash(row: &Row, column: usize) -> Result<ContentHash, Failure> {
    let bytes = row.bytes(column)?;
    let damaged = || StoreError::Damaged("a hash is not 32 bytes long".to_owned());
    Ok(ContentHash::from_bytes(&bytes).ok_or_else(damaged)?)
}

/// Reads the id of a run.
pub(crate) fn run_id(row: &Row, column: usize) -> Result<RunId, Failure> {
    let bytes = row.bytes(column)?;
    let damaged = |_| StoreError::Damaged("the id of a run is not 16 bytes long".to_owned());
    Ok(RunId(uuid::Uuid::from_slice(&bytes).map_err(damaged)?))
}
