//! A clock that stands still until it is told otherwise.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::Clock;

/// The time at which tests begin: the first moment of 2026.
pub const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A clock that a test sets. It has nothing to do with tokio's time, which a test pauses and advances on its own.
#[derive(Debug)]
pub struct VirtualClock(Mutex<Hand>);

#[derive(Debug, Clone, Copy)]
struct Hand {
    now: Timestamp,
    step: Duration,
}

impl VirtualClock {
    /// Makes a clock that stands at [`START`].
    #[must_use]
    pub fn new() -> Self {
        Self::at(START)
    }

    /// Makes a clock that stands at the given time.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self(Mutex::new(Hand {
            now,
            step: Duration::ZERO,
        }))
    }

    /// Makes a clock that begins at [`START`] and moves on by `step` each time it is read.
    #[must_use]
    pub const fn ticking(step: Duration) -> Self {
        Self(Mutex::new(Hand { now: START, step }))
    }

    /// Sets the time, also back.
    pub fn set(&self, now: Timestamp) {
        self.hand(|hand| hand.now = now);
    }

    /// Moves the time on.
    pub fn advance(&self, by: Duration) {
        self.hand(|hand| hand.now = later(hand.now, by));
    }

    fn hand<T>(&self, change: impl FnOnce(&mut Hand) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
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
