//! Whether another process still holds a run, by a clock that may be set.
//!
//! Leases end by the database's clock. If that clock is set forward or back, leases of live processes appear expired,
//! or appear to last for hours, until they are renewed. So it is compared with this process's monotonic clock. Shortly
//! after the two diverge, no lease is treated as expired, and a lease that ends later than is possible is believed only
//! briefly.
//!
//! Not for deciding whether this process itself still holds a run: the engine knows that without a database.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far the clocks may diverge between two readings before the database's clock is treated as having been set, in
/// milliseconds.
const TOLERANCE_MILLIS: i64 = 500;

/// What is known about the database's clock.
#[derive(Debug)]
pub(crate) struct LeaseClock {
    opened: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<ClockReading>,
    /// When a change of the clock was last noticed.
    set: Option<Instant>,
}

/// A reading of the database's clock, in milliseconds, taken between two moments of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
    pub(crate) now: i64,
}

/// A lease as stored in the database, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredLease {
    pub(crate) until: i64,
    /// How long it lasts after each renewal; `None` if an older version granted it.
    pub(crate) length: Option<i64>,
}

impl LeaseClock {
    pub(crate) fn new() -> Self {
        Self {
            opened: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// Records a reading of the database's clock.
    pub(crate) fn observe(&self, reading: ClockReading) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| last.was_set_before(reading)) {
            tracing::warn!("the database's clock was set; leases are not judged by it for a while");
            state.set = Some(reading.answered);
        }
        if state
            .last
            .is_none_or(|last| last.answered <= reading.answered)
        {
            state.last = Some(reading);
        }
    }

    /// Returns whether the holder of a lease may still be at work.
    pub(crate) fn is_held(&self, lease: StoredLease, reading: ClockReading) -> bool {
        let is_running = lease.until > reading.now;
        let Some(length) = lease.length else {
            return is_running;
        };
        // One and a half times as long as a live holder waits before it renews.
        let soon = Duration::from_millis(length.unsigned_abs() / 2);
        let is_within = |since: Instant| reading.answered.saturating_duration_since(since) < soon;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.set.is_some_and(is_within) {
            return true;
        }
        // The latest end of a lease that leaves no doubt that the holder is alive: the clock may have been set back by
        // up to the length of the lease.
        let most = reading.now.saturating_add(length.saturating_mul(2));
        is_running && (lease.until <= most || is_within(self.opened))
    }
}

impl ClockReading {
    /// Returns whether the clock was set between this reading and a later one.
    fn was_set_before(self, later: Self) -> bool {
        let passed = later.now.saturating_sub(self.now);
        let least = millis(self.answered, later.asked) - TOLERANCE_MILLIS;
        let most = millis(self.asked, later.answered) + TOLERANCE_MILLIS;
        passed < least || passed > most
    }
}

/// Returns the time from one moment to another; negative if the second was earlier, as when two readings overlap.
fn millis(from: Instant, to: Instant) -> i64 {
    // Far enough below the maximum that adding a tolerance cannot overflow.
    let whole = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2);
    whole(to.saturating_duration_since(from)) - whole(from.saturating_duration_since(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    struct World {
        clock: LeaseClock,
        began: Instant,
    }

    impl World {
        fn new() -> Self {
            let clock = LeaseClock::new();
            let began = clock.opened;
            Self { clock, began }
        }

        /// Reads the clock at `at` milliseconds after the beginning, with the database's clock `ahead` milliseconds
        /// ahead.
        fn read(&self, at: u64, ahead: i64) -> ClockReading {
            let asked = self.began + Duration::from_millis(at);
            let reading = ClockReading {
                asked,
                answered: asked + Duration::from_millis(3),
                now: 1_000_000_000 + at.cast_signed() + ahead,
            };
            self.clock.observe(reading);
            reading
        }

        fn is_held(&self, until: i64, reading: ClockReading) -> bool {
            let length = Some(30_000);
            self.clock.is_held(StoredLease { until, length }, reading)
        }
    }

    #[test]
    fn a_lease_holds_until_its_end() {
        let world = World::new();
        let renewed = world.read(100_000, 0).now;
        let until = renewed + 30_000;
        assert!(world.is_held(until, world.read(129_000, 0)));
        assert!(!world.is_held(until, world.read(130_001, 0)));
    }

    #[test]
    fn a_lease_that_ends_implausibly_late_is_trusted_only_briefly() {
        let world = World::new();
        let ahead = world.read(0, 0).now + HOUR;
        assert!(world.is_held(ahead, world.read(14_000, 0)), "just opened");
        assert!(!world.is_held(ahead, world.read(16_000, 0)));
        let stored = StoredLease {
            until: ahead,
            length: None,
        };
        assert!(world.clock.is_held(stored, world.read(17_000, 0)));
    }

    #[test]
    fn a_live_process_keeps_its_run_when_the_clock_is_set() {
        for jump in [HOUR, -HOUR] {
            let world = World::new();
            let until = world.read(100_000, 0).now + 30_000;
            assert!(world.is_held(until, world.read(105_000, jump)), "{jump}");
            assert!(world.is_held(until, world.read(119_000, jump)), "{jump}");
            // No process renewed it.
            assert!(!world.is_held(until, world.read(121_000, jump)), "{jump}");
            let renewed = world.read(122_000, jump).now + 30_000;
            assert!(world.is_held(renewed, world.read(123_000, jump)), "{jump}");
        }
    }

    #[test]
    fn overlapping_or_slow_readings_are_not_taken_for_a_clock_jump() {
        let world = World::new();
        let slow = ClockReading {
            asked: world.began,
            answered: world.began + Duration::from_secs(20),
            now: 1_000_000_000,
        };
        world.clock.observe(slow);
        world.read(10_000, 0);
        world.read(21_000, -20_000);
        let reading = world.read(30_000, -20_000);
        assert!(!world.is_held(reading.now - 1, reading));
    }

    /// For example, a reading that waited for a run's row after reading the time, or that read many runs.
    #[test]
    fn a_slow_reading_observed_after_a_later_one_is_not_a_clock_jump() {
        let world = World::new();
        let quick = world.read(10_000, 0);
        let slow = ClockReading {
            asked: world.began,
            answered: world.began + Duration::from_secs(20),
            now: 1_000_000_000,
        };
        world.clock.observe(slow);
        assert!(!world.is_held(quick.now - 1, quick));
        let later = world.read(21_000, 0);
        assert!(!world.is_held(later.now - 1, later));
    }
}
