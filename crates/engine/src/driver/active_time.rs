//! How long a run has been active. The clock of its limits stops while the run waits for the user, either for approval
//! of a call or for the answer to a tool's question.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::RunStatus;
use tokio::time::Instant;

use crate::feed::Feed;

/// The minimum time between two checks whether a question is still open.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// A stopwatch on the runtime's monotonic time.
#[derive(Debug)]
pub(super) struct ActiveTime {
    before: Duration,
    running: Option<Running>,
    /// Gives access to the questions of the run's tools.
    feed: Arc<Feed>,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    since: Instant,
    /// The total time spent asking the user, up to then.
    time_asked: Duration,
}

impl ActiveTime {
    /// Creates a stopwatch that continues from the given time, such as where another process stopped.
    pub(super) fn after(before: Duration, feed: &Arc<Feed>) -> Self {
        let mut time = Self {
            before,
            running: None,
            feed: Arc::clone(feed),
        };
        time.run();
        time
    }

    pub(super) fn elapsed(&self) -> Duration {
        let Some(running) = self.running else {
            return self.before;
        };
        let asked = self
            .feed
            .questions
            .time_asked()
            .saturating_sub(running.time_asked);
        self.before + running.since.elapsed().saturating_sub(asked)
    }

    fn run(&mut self) {
        self.running = Some(Running {
            since: Instant::now(),
            time_asked: self.feed.questions.time_asked(),
        });
    }

    /// Stops while the run waits, and runs otherwise.
    pub(super) fn follow(&mut self, status: RunStatus) {
        if status == RunStatus::Waiting {
            self.before = self.elapsed();
            self.running = None;
        } else if self.running.is_none() {
            self.run();
        }
    }

    /// Returns the earliest instant at which the given active time will be reached; it is later if the user is asked in
    /// between. `None` while the run waits.
    pub(super) fn instant_of(&self, active: Duration) -> Option<Instant> {
        let running = self.running?;
        let questions = &self.feed.questions;
        let asked = questions.time_asked().saturating_sub(running.time_asked);
        // A record stores whole milliseconds, so wait a little longer to make sure that the time has passed.
        let left = active.saturating_sub(self.before) + Duration::from_millis(1);
        let due = running.since.checked_add(left)?.checked_add(asked)?;
        match questions.is_any_open() {
            true => Some(due.max(Instant::now() + MIN_WAIT)),
            false => Some(due),
        }
    }
}
