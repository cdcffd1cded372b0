//! How often something may happen: in bursts up to a number, and as many a second or a minute in the long run.

use std::num::NonZeroU32;
use std::time::Instant;

use governor::clock::Clock;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// Counts what happens, and says when it is too much. It takes the same memory however often that is.
#[derive(Debug)]
pub(crate) struct Rate(RateLimiter<NotKeyed, InMemoryState, TokioTime>);

/// The time by which tokio's timers go.
#[derive(Debug, Clone, Copy)]
struct TokioTime;

impl Clock for TokioTime {
    type Instant = Instant;

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl Rate {
    /// Allows so many a minute, all of them at once if need be.
    pub(crate) fn per_minute(most: NonZeroU32) -> Self {
        Self::of(Quota::per_minute(most))
    }

    /// Allows so many a second in the long run, and more of them at once.
    pub(crate) fn per_second(most: NonZeroU32, at_once: NonZeroU32) -> Self {
        Self::of(Quota::per_second(most).allow_burst(at_once))
    }

    fn of(quota: Quota) -> Self {
        Self(RateLimiter::direct_with_clock(quota, TokioTime))
    }

    /// Counts one more, or returns after how many seconds there may be one, at least 1.
    pub(crate) fn count(&self) -> Result<(), u32> {
        self.0.check().map_err(|not_until| {
            let wait = not_until.wait_time_from(TokioTime.now());
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_too_often_is_told_when_to_come_again_and_is_taken_then() {
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
}
