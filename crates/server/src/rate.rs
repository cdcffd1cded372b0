//! Rate limits: bursts up to a number, and a rate per second or minute in the long run.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// How far ahead the retry times of refused requests are staggered. Beyond this, staggering starts again.
const AHEAD: Duration = Duration::from_secs(60);

/// Counts events and reports when there are too many. Its memory use does not depend on the number of events.
#[derive(Debug)]
pub(crate) struct Rate {
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioTime>,
    /// The interval after which one more is allowed.
    every: Duration,
    /// The latest retry time given to a refused request.
    latest_retry: Mutex<Instant>,
}

/// The clock of tokio's timers.
#[derive(Debug, Clone, Copy)]
struct TokioTime;

impl Clock for TokioTime {
    type Instant = Instant;

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl Rate {
    /// Allows this many per minute, all in one burst if necessary.
    pub(crate) fn per_minute(most: NonZeroU32) -> Self {
        Self::of(Quota::per_minute(most))
    }

    /// Allows this many per second in the long run, with bursts up to `at_once`.
    pub(crate) fn per_second(most: NonZeroU32, at_once: NonZeroU32) -> Self {
        Self::of(Quota::per_second(most).allow_burst(at_once))
    }

    fn of(quota: Quota) -> Self {
        Self {
            limiter: RateLimiter::direct_with_clock(quota, TokioTime),
            every: quota.replenish_interval(),
            latest_retry: Mutex::new(TokioTime.now()),
        }
    }

    /// Counts one more, or returns after how many seconds to retry, at least 1. Each refused request gets a later time
    /// than the ones still pending, because otherwise all would retry at the same moment.
    pub(crate) fn count(&self) -> Result<(), u32> {
        self.limiter.check().map_err(|not_until| {
            let now = TokioTime.now();
            let free = not_until.wait_time_from(now);
            // Nothing panics while the lock is held.
            let mut latest_retry = self
                .latest_retry
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let ahead = latest_retry.saturating_duration_since(now);
            let after_the_last = ahead + self.every;
            let wait = match ahead.is_zero() || after_the_last > AHEAD {
                true => free,
                false => free.max(after_the_last),
            };
            *latest_retry = now + wait;
            drop(latest_retry);
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
        })
    }
}

/// Describes after how many seconds to retry.
pub(crate) fn in_seconds(seconds: u32) -> String {
    match seconds {
        1 => "in 1 second".to_owned(),
        _ => format!("in {seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_over_the_rate_is_given_a_time_after_which_it_is_accepted() {
        let rate = Rate::per_minute(NonZeroU32::new(3).unwrap());
        for _ in 0..3 {
            assert_eq!(rate.count(), Ok(()));
        }
        let seconds = rate.count().unwrap_err();
        assert!((19..=21).contains(&seconds), "{seconds}");
        tokio::time::advance(Duration::from_secs(seconds.into())).await;
        assert_eq!(rate.count(), Ok(()));
        assert!(rate.count().is_err(), "one, and no more");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!((0..3).all(|_| rate.count().is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_refused_client_waits_only_until_the_next_request_is_allowed() {
        let rate = Rate::per_minute(NonZeroU32::new(3).unwrap());
        assert!((0..3).all(|_| rate.count().is_ok()));
        tokio::time::advance(Duration::from_secs(15)).await;
        let seconds = rate.count().unwrap_err();
        assert!((5..=6).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn refused_clients_are_given_staggered_retry_times() {
        let rate = Rate::per_minute(NonZeroU32::new(60).unwrap());
        assert!((0..60).all(|_| rate.count().is_ok()));
        for seconds in (1..=60).chain([1, 2]) {
            assert_eq!(rate.count(), Err(seconds));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(rate.count(), Ok(()));
        assert_eq!(rate.count(), Err(2), "one was told to come in 1 second");
    }
}
