//! The port to new ids.

use std::fmt::Debug;

use neuraxis_core::uuid::Uuid;

/// Makes ids that are unique in the world and rise with time (UUIDv7, RFC 9562).
pub trait Ids: Debug + Send + Sync + 'static {
    /// Makes one.
    fn new_id(&self) -> Uuid;
}
