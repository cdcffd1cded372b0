//! Time and ids that are the same in every run of a test: a clock that a test sets, and ids that count up.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use neuraxis_core::RunId;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::uuid::{Builder, Uuid};
use neuraxis_ports::{Clock, Ids};

use crate::scripted::lock;

/// The time at which tests begin: the start of 2026.
pub const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A clock that a test sets. It is independent of tokio's time, which a test pauses and advances separately.
#[derive(Debug)]
pub struct VirtualClock(Mutex<Hand>);

#[derive(Debug, Clone, Copy)]
struct Hand {
    now: Timestamp,
    step: Duration,
}

impl VirtualClock {
    /// Creates a clock that shows [`START`].
    #[must_use]
    pub fn new() -> Self {
        Self::at(START)
    }

    /// Creates a clock that shows the given time.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self(Mutex::new(Hand {
            now,
            step: Duration::ZERO,
        }))
    }

    /// Creates a clock that starts at [`START`] and advances by `step` each time it is read.
    #[must_use]
    pub const fn ticking(step: Duration) -> Self {
        Self(Mutex::new(Hand { now: START, step }))
    }

    /// Sets the time, which may be earlier than the current one.
    pub fn set(&self, now: Timestamp) {
        self.hand(|hand| hand.now = now);
    }

    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        self.hand(|hand| hand.now = later(hand.now, by));
    }

    fn hand<T>(&self, change: impl FnOnce(&mut Hand) -> T) -> T {
        change(&mut lock(&self.0))
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.hand(|hand| {
            let now = hand.now;
            hand.now = later(now, hand.step);
            now
        })
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Creates UUIDs of version 7 that count up from 1: their time is always [`START`], and their random part is the
/// number.
///
/// Engines on one store must share one value, even if they run one after the other, as in a test of a restart. A new
/// value counts from 1 again, so its runs would have the ids of existing ones, and the store would refuse them.
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU64);

impl CountingIds {
    /// Starts counting at 1.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the id that is created as the given number, counting from 1.
    #[must_use]
    pub fn nth(number: u64) -> Uuid {
        let mut random = [0; 10];
        for (place, byte) in random.iter_mut().skip(2).zip(number.to_be_bytes()) {
            *place = byte;
        }
        let millis = u64::try_from(START.as_millisecond()).unwrap_or_default();
        Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// Returns the run id that is created as the given number.
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
