//! The clock that determines the age of sessions: the machine's or the store's, whichever is behind, because one that
//! is ahead would delete every session.
//!
//! For the same reason it is compared with the process's monotonic clock. That one may stop while a machine sleeps,
//! which looks as if the other had been set. So one check of the store is skipped then, but never two in a row.

use std::time::Duration;

use neuraxis::core::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// By how much the clocks may diverge between two checks before the wall clock is considered to have been set.
const TOLERANCE: Duration = Duration::from_secs(60);

/// The state of the clock at the previous check.
#[derive(Debug, Default)]
pub(super) struct AgeClock {
    last: Option<(Reading, ClockCheck)>,
}

/// The time of the wall clock, and the monotonic time when it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    now: Timestamp,
    at: Instant,
}

/// What a check needs to know about the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockCheck {
    /// The server has just started, perhaps before its machine's clock was set.
    First,
    /// The clock was set since the previous check, or the machine slept.
    AfterJump,
    Later,
}

impl AgeClock {
    /// Records the clock at a check.
    pub(super) fn observe(&mut self, reading: Reading) -> ClockCheck {
        let check = match self.last {
            None => ClockCheck::First,
            Some((last, before))
                if before != ClockCheck::AfterJump && last.is_apart_from(reading) =>
            {
                ClockCheck::AfterJump
            }
            Some(_) => ClockCheck::Later,
        };
        self.last = Some((reading, check));
        check
    }
}

impl Reading {
    /// Reads this machine's clock and, if the store has its own, the store's.
    pub(super) fn new(now: Timestamp, shared: Option<Timestamp>) -> Self {
        Self {
            now: shared.map_or(now, |shared| shared.min(now)),
            at: Instant::now(),
        }
    }

    /// Returns the time since which a session must have been inactive to be old.
    pub(super) fn old_before(self, keep: Duration) -> Option<Timestamp> {
        self.now.checked_sub(keep).ok()
    }

    /// Returns whether the clock was set between this reading and a later one.
    fn is_apart_from(self, later: Self) -> bool {
        let passed = later.now.duration_since(self.now);
        let elapsed = later.at.saturating_duration_since(self.at);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        passed.saturating_sub(elapsed).unsigned_abs() > TOLERANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn hours(number: i64) -> Timestamp {
        Timestamp::from_second(number * 3_600).unwrap()
    }

    #[test]
    fn session_age_is_measured_by_the_clock_that_is_behind() {
        for (shared, expected) in [(None, 4), (Some(3), 2), (Some(9), 4)] {
            let reading = Reading::new(hours(5), shared.map(hours));
            assert_eq!(reading.old_before(HOUR), Some(hours(expected)));
        }
    }

    #[test]
    fn a_clock_jump_or_a_sleep_skips_one_check_and_never_two_in_a_row() {
        let began = Instant::now();
        let mut clock = AgeClock::default();
        let mut observe = |elapsed: u32, said: i64| {
            clock.observe(Reading {
                now: hours(said),
                at: began + HOUR * elapsed,
            })
        };
        assert_eq!(observe(0, 0), ClockCheck::First);
        assert_eq!(observe(1, 1), ClockCheck::Later);
        assert_eq!(observe(2, 9_000), ClockCheck::AfterJump);
        assert_eq!(observe(3, 9_001), ClockCheck::Later);
        assert_eq!(observe(4, 4), ClockCheck::AfterJump);
        assert_eq!(observe(5, 5), ClockCheck::Later);
        // The machine sleeps for a day each hour.
        for (number, check) in [
            ClockCheck::AfterJump,
            ClockCheck::Later,
            ClockCheck::AfterJump,
        ]
        .into_iter()
        .enumerate()
        {
            let number = u32::try_from(number).unwrap();
            assert_eq!(observe(6 + number, 30 + 25 * i64::from(number)), check);
        }
    }
}
