//! How long a run has been active: the clock of its limits stands still while it waits for a person, be it with a call that needs
//! approval or with a question of a tool.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::RunStatus;
use tokio::time::Instant;

use crate::feed::Feed;

/// How often it is looked whether a question is still open, at the least.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// A stopwatch on the runtime's monotonic time.
#[derive(Debug)]
pub(super) struct ActiveTime {
    before: Duration,
    running: Option<Running>,
    /// Where the questions of the run's tools are.
    feed: Arc<Feed>,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    since: Instant,
    /// How long a person had been asked by then.
    asked: Duration,
}

impl ActiveTime {
    /// Goes on after the given time, from where another process stopped for instance.
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
            .asked_for()
            .saturating_sub(running.asked);
        self.before + running.since.elapsed().saturating_sub(asked)
    }

    fn run(&mut self) {
        self.running = Some(Running {
            since: Instant::now(),
            asked: self.feed.questions.asked_for(),
        });
    }

    /// Stops while the run waits, runs otherwise.
    pub(super) fn follow(&mut self, status: RunStatus) {
        if status == RunStatus::Waiting {
            self.before = self.elapsed();
            self.running = None;
        } else if self.running.is_none() {
            self.run();
        }
    }

    /// Returns when the given active time will be reached, at the earliest: later, if a person is asked until then. `None` while
    /// the run waits.
    pub(super) fn instant_of(&self, active: Duration) -> Option<Instant> {
        let running = self.running?;
        let questions = &self.feed.questions;
        let asked = questions.asked_for().saturating_sub(running.asked);
        // A record keeps whole milliseconds: a little later, so that the time has passed by then.
        let left = active.saturating_sub(self.before) + Duration::from_millis(1);
        let due = running.since.checked_add(left)?.checked_add(asked)?;
        match questions.is_any_open() {
            true => Some(due.max(Instant::now() + MIN_WAIT)),
            false => Some(due),
        }
    }
}
