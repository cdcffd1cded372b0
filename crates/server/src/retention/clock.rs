//! The clock by which sessions are old: that of the machine or that of the store, whichever is behind, since one that is ahead
//! would have everybody's sessions deleted.
//!
//! For the same reason it is compared with the clock of this process that nobody sets. That one may stand still while a machine
//! sleeps, which looks as if the other were set: so a look is left out, and never two in a row.

use std::time::Duration;

use neuraxis::core::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// How far the clocks may go apart between two looks before the one that can be set counts as set.
const TOLERANCE: Duration = Duration::from_secs(60);

/// What is known of the clock from the looks at the store before.
#[derive(Debug, Default)]
pub(super) struct AgeClock {
    last: Option<(Reading, Look)>,
}

/// What the clock said, and when that was by the one that nobody sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    now: Timestamp,
    at: Instant,
}

/// What a look at the store is to know of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The server starts, perhaps before the clock of its machine was set.
    First,
    /// The clock was set since the look before, or the machine slept.
    AfterJump,
    Later,
}

impl AgeClock {
    /// Notes what the clock says at a look.
    pub(super) fn hear(&mut self, reading: Reading) -> Look {
        let look = match self.last {
            None => Look::First,
            Some((last, before)) if before != Look::AfterJump && last.is_apart_from(reading) => {
                Look::AfterJump
            }
            Some(_) => Look::Later,
        };
        self.last = Some((reading, look));
        look
    }
}

impl Reading {
    /// What this machine's clock says at this moment, and the store's, if it has one of its own.
    pub(super) fn new(now: Timestamp, shared: Option<Timestamp>) -> Self {
        Self {
            now: shared.map_or(now, |shared| shared.min(now)),
            at: Instant::now(),
        }
    }

    /// Returns since when nothing has happened in a session that is old after so long.
    pub(super) fn old_before(self, keep: Duration) -> Option<Timestamp> {
        self.now.checked_sub(keep).ok()
    }

    /// Tells whether the clock was set between this reading and a later one.
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
    fn what_is_old_is_said_by_the_clock_that_is_behind() {
        for (shared, expected) in [(None, 4), (Some(3), 2), (Some(9), 4)] {
            let reading = Reading::new(hours(5), shared.map(hours));
            assert_eq!(reading.old_before(HOUR), Some(hours(expected)));
        }
    }

    #[test]
    fn a_clock_that_was_set_and_a_machine_that_slept_cost_one_look_and_never_two_in_a_row() {
        let began = Instant::now();
        let mut clock = AgeClock::default();
        let mut hear = |elapsed: u32, said: i64| {
            clock.hear(Reading {
                now: hours(said),
                at: began + HOUR * elapsed,
            })
        };
        assert_eq!(hear(0, 0), Look::First);
        assert_eq!(hear(1, 1), Look::Later);
        assert_eq!(hear(2, 9_000), Look::AfterJump);
        assert_eq!(hear(3, 9_001), Look::Later);
        assert_eq!(hear(4, 4), Look::AfterJump);
        assert_eq!(hear(5, 5), Look::Later);
        // It sleeps for a day each hour.
        for (number, look) in [Look::AfterJump, Look::Later, Look::AfterJump]
            .into_iter()
            .enumerate()
        {
            let number = u32::try_from(number).unwrap();
            assert_eq!(hear(6 + number, 30 + 25 * i64::from(number)), look);
        }
    }
}
