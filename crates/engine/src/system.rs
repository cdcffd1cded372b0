//! The ordinary clock and ids.

use jiff::Timestamp;
use neuraxis_ports::{Clock, Ids};
use uuid::Uuid;

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Ids by RFC 9562, version 7: rising with time, unique by randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidV7;

impl Ids for UuidV7 {
    fn new_id(&self) -> Uuid {
        Uuid::now_v7()
    }
}
