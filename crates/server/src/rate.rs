//! How often something may happen: in bursts up to a number, and as many a second or a minute in the long run.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// How far ahead those who are refused are told to come again, one after the other: whoever comes beyond that begins anew.
const AHEAD: Duration = Duration::from_secs(60);

/// Counts what happens, and says when it is too much. It takes the same memory however often that is.
#[derive(Debug)]
pub(crate) struct Rate {
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioTime>,
    /// After how long there may be one more.
    every: Duration,
    /// When the last one that was refused is to come again.
    told: Mutex<Instant>,
}

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
        Self {
            limiter: RateLimiter::direct_with_clock(quota, TokioTime),
            every: quota.replenish_interval(),
            told: Mutex::new(TokioTime.now()),
        }
    }

    /// Counts one more, or returns after how many seconds there may be one, at least 1: whoever is refused while others are still
    /// to come again is told a later time than they were, since all would come for the same one.
    pub(crate) fn count(&self) -> Result<(), u32> {
        self.limiter.check().map_err(|not_until| {
            let now = TokioTime.now();
            let free = not_until.wait_time_from(now);
            // Nothing panics while it is held.
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let ahead = told.saturating_duration_since(now);
            let after_the_last = ahead + self.every;
            let wait = match ahead.is_zero() || after_the_last > AHEAD {
                true => free,
                false => free.max(after_the_last),
            };
            *told = now + wait;
            drop(told);
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
        })
    }
}

/// Says after how many seconds, for people.
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

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_alone_waits_no_longer_than_until_there_may_be_one_more() {
        let rate = Rate::per_minute(NonZeroU32::new(3).unwrap());
        assert!((0..3).all(|_| rate.count().is_ok()));
        tokio::time::advance(Duration::from_secs(15)).await;
        let seconds = rate.count().unwrap_err();
        assert!((5..=6).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_are_refused_are_told_to_come_one_after_the_other() {
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
