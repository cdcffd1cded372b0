//! The port to new ids.

use std::fmt::Debug;

use neuraxis_core::uuid::Uuid;

/// Generates ids that are globally unique and increase with time (UUIDv7, RFC 9562).
pub trait Ids: Debug + Send + Sync + 'static {
    /// Generates an id.
    fn new_id(&self) -> Uuid;
}
