//! The pauses between attempts.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::sleep;

/// The shortest and the longest pause.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// After a connection has lasted this long, pauses start again with the shortest.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Pauses that start with the shortest and grow.
#[derive(Debug)]
pub(crate) struct Pauses(ExponentialBackoff);

impl Pauses {
    pub(crate) fn new() -> Self {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(MIN_PAUSE)
            .with_max_delay(MAX_PAUSE)
            .with_jitter()
            .without_max_times();
        Self(pauses.build())
    }

    /// Waits for the next pause.
    pub(crate) async fn wait(&mut self) {
        sleep(self.0.next().unwrap_or(MAX_PAUSE)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reconnect_pauses_grow_to_the_maximum_and_continue() {
        let mut pauses = Pauses::new();
        let mut waited = Vec::new();
        for _ in 0..100 {
            let begun = Instant::now();
            pauses.wait().await;
            waited.push(begun.elapsed());
        }
        // Up to twice as long each, so that clients that lost a server at the same time do not return at the same time.
        assert!(
            waited[0] >= MIN_PAUSE && waited[0] <= 2 * MIN_PAUSE,
            "{waited:?}"
        );
        let last = waited.last().unwrap();
        assert!(*last >= MAX_PAUSE && *last <= 2 * MAX_PAUSE, "{waited:?}");
    }
}
