//! Ids that are the same in every run of a test.

use std::sync::atomic::{AtomicU64, Ordering};

use neuraxis_core::RunId;
use neuraxis_core::uuid::{Builder, Uuid};
use neuraxis_ports::Ids;

use crate::clock::START;

/// Makes UUIDs of version 7 that count up from 1: their time is always [`START`], their random part the number.
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU64);

impl CountingIds {
    /// Begins to count.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the id that is made as the given number, from 1.
    #[must_use]
    pub fn nth(number: u64) -> Uuid {
        let mut random = [0; 10];
        for (place, byte) in random.iter_mut().skip(2).zip(number.to_be_bytes()) {
            *place = byte;
        }
        let millis = u64::try_from(START.as_millisecond()).unwrap_or_default();
        Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// Returns the id that is made as the given number as that of a run.
    #[must_use]
    pub fn nth_run(number: u64) -> RunId {
        RunId(Self::nth(number))
    }
}

impl Ids for CountingIds {
    fn new_id(&self) -> Uuid {
        Self::nth(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}
