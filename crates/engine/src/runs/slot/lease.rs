//! Whether this process still holds its run, by its own clocks and without asking the store.
//!
//! A process that stalled does not notice: what it was about to begin it begins when it resumes, however much later,
//! and by then another process may have taken over its run. So the clocks are checked right before anything begins.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::{Clock, RunLease};
use tokio::time::Instant;

/// The longest time that a run goes without renewing its lease and checking its inbox.
const MAX_HEARTBEAT: Duration = Duration::from_secs(5);

/// The shortest such time: a lease of length zero must not keep a run busy with renewing it.
const MIN_HEARTBEAT: Duration = Duration::from_millis(10);

/// A moment by both clocks. The monotonic clock is never set but may stop while the machine sleeps; the wall clock
/// shows that time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    steady: Instant,
    wall: Timestamp,
}

impl Moment {
    pub(super) fn now(clock: &dyn Clock) -> Self {
        Self {
            steady: Instant::now(),
            wall: clock.now(),
        }
    }
}

/// The right to write the records of a run, and the time from which its length is counted.
#[derive(Debug)]
pub(super) struct HeldLease {
    pub(super) lease: RunLease,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// The moment before the store was asked for the last successful renewal.
    renewed: Moment,
    /// When the store was last asked for a renewal, whether or not it succeeded.
    tried: Instant,
    /// When the run's inbox was last read.
    looked: Instant,
}

impl HeldLease {
    /// Creates a held lease that was requested from the store at a moment.
    pub(super) const fn new(lease: RunLease, requested_at: Moment) -> Self {
        let times = Times {
            renewed: requested_at,
            tried: requested_at.steady,
            looked: requested_at.steady,
        };
        Self {
            lease,
            times: Mutex::new(times),
        }
    }

    /// Returns whether no other process can have the run yet. If the wall clock was set back, the difference counts as
    /// elapsed time too.
    pub(super) fn is_valid(&self, now: Moment) -> bool {
        self.age(now) <= self.lease.length
    }

    /// Returns for how much longer no other process can have the run.
    pub(super) fn left(&self, now: Moment) -> Duration {
        self.lease.length.saturating_sub(self.age(now))
    }

    fn age(&self, now: Moment) -> Duration {
        let renewed = self.times().renewed;
        let by_steady = now.steady.saturating_duration_since(renewed.steady);
        let by_wall = now.wall.duration_since(renewed.wall).unsigned_abs();
        by_steady.max(by_wall)
    }

    /// Notes that the store is being asked for a renewal.
    pub(super) fn note_tried(&self, requested_at: Moment) {
        self.times().tried = requested_at.steady;
    }

    /// Notes that the store granted a renewal that was requested at a moment.
    pub(super) fn note_renewed(&self, requested_at: Moment) {
        let mut times = self.times();
        (times.renewed, times.tried) = (requested_at, requested_at.steady);
    }

    /// Returns when the lease should be renewed, if nothing is committed until then: a third of its length after the
    /// store was last asked, but no less than [`MIN_HEARTBEAT`] and no more than [`MAX_HEARTBEAT`].
    pub(super) fn heartbeat(&self) -> Option<Instant> {
        self.times().tried.checked_add(self.pause())
    }

    /// Returns whether a whole renewal interval lies between the last reading of the inbox and the last commit. A run
    /// that commits all the time never needs to renew, but should learn of posted inputs as soon as one that waits.
    pub(super) fn is_inbox_due(&self) -> bool {
        let times = self.times();
        times.tried.saturating_duration_since(times.looked) >= self.pause()
    }

    /// Notes that the inbox is being read.
    pub(super) fn note_inbox_read(&self, at: Instant) {
        self.times().looked = at;
    }

    fn pause(&self) -> Duration {
        let third = self.lease.length / 3;
        third.clamp(MIN_HEARTBEAT, MAX_HEARTBEAT)
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::SessionId;
    use neuraxis_testkit::{CountingIds, START};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held(length: Duration) -> (HeldLease, Moment) {
        let session: SessionId = "s".parse().unwrap();
        let lease = RunLease::new(session, CountingIds::nth_run(1), 1, length);
        let began = Moment {
            steady: Instant::now(),
            wall: START,
        };
        (HeldLease::new(lease, began), began)
    }

    fn after(began: Moment, steady: Duration, wall: Duration) -> Moment {
        Moment {
            steady: began.steady + steady,
            wall: began.wall.checked_add(wall).unwrap(),
        }
    }

    #[test]
    fn a_lease_is_invalid_once_it_has_expired_on_either_clock() {
        let (lease, began) = held(30 * SECOND);
        for (steady, wall, valid) in [(30, 30, true), (31, 1, false), (1, 31, false)] {
            let now = after(began, steady * SECOND, wall * SECOND);
            assert_eq!(lease.is_valid(now), valid, "{steady} {wall}");
        }
        let set_back = Moment {
            wall: began.wall.checked_sub(31 * SECOND).unwrap(),
            ..began
        };
        assert!(!lease.is_valid(set_back));
        let later = after(began, 40 * SECOND, 40 * SECOND);
        lease.note_tried(later);
        assert!(!lease.is_valid(later), "asked and not answered");
        lease.note_renewed(later);
        assert!(lease.is_valid(later));
    }

    #[test]
    fn a_lease_is_renewed_three_times_per_length_and_at_least_every_five_seconds() {
        for (length, pause) in [
            (Duration::ZERO, MIN_HEARTBEAT),
            (3 * SECOND, SECOND),
            (30 * SECOND, 5 * SECOND),
            (600 * SECOND, 5 * SECOND),
        ] {
            let (lease, began) = held(length);
            assert_eq!(lease.heartbeat(), Some(began.steady + pause), "{length:?}");
        }
    }
}
