//! Wakes a run when one of its limits is reached.

use std::future::pending;
use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

/// One timer for the whole run, because setting a timer costs a lock and may wake a thread.
///
/// Limits only ever move later: a timer that was set for an earlier one is left alone until it fires, and then set
/// again.
#[derive(Debug, Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Waits for an instant; forever if there is none.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the timer set.
    pub(super) async fn rings_at(&mut self, due: Option<Instant>) {
        let Some(due) = due else {
            return pending().await;
        };
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        loop {
            timer.as_mut().await;
            if Instant::now() >= due {
                return;
            }
            timer.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_alarm_rings_at_the_latest_requested_time() {
        let start = Instant::now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let mut alarm = Alarm::default();
        assert!(alarm.rings_at(at(5)).now_or_never().is_none());
        for seconds in [9, 20, 30] {
            alarm.rings_at(at(seconds)).await;
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
        assert!(alarm.rings_at(at(100)).now_or_never().is_none());
        alarm.rings_at(at(40)).await;
        assert_eq!(start.elapsed().as_secs(), 40);
        assert!(alarm.rings_at(None).now_or_never().is_none());
        alarm.rings_at(at(7)).now_or_never().unwrap();
    }
}
