//! How long a run has been active: the clock of its limits stands still while it waits for a person.

use std::time::Duration;

use neuraxis_core::RunStatus;
use tokio::time::Instant;

/// A stopwatch on the runtime's monotonic time.
#[derive(Debug)]
pub(super) struct ActiveTime {
    before: Duration,
    running_since: Option<Instant>,
}

impl ActiveTime {
    /// Goes on after the given time, from where another process stopped for instance.
    pub(super) fn after(before: Duration) -> Self {
        Self {
            before,
            running_since: Some(Instant::now()),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.before
            + self
                .running_since
                .map(|since| since.elapsed())
                .unwrap_or_default()
    }

    /// Stops while the run waits, runs otherwise.
    pub(super) fn follow(&mut self, status: RunStatus) {
        if status == RunStatus::Waiting {
            self.before = self.elapsed();
            self.running_since = None;
        } else if self.running_since.is_none() {
            self.running_since = Some(Instant::now());
        }
    }

    /// Returns when the given active time will be reached, unless the watch stands still.
    pub(super) fn instant_of(&self, active: Duration) -> Option<Instant> {
        let since = self.running_since?;
        // A record keeps whole milliseconds: a little later, so that the time has passed by then.
        since.checked_add(active.saturating_sub(self.before) + Duration::from_millis(1))
    }
}
