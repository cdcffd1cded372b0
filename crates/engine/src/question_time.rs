//! The time limit of a call, not counting the time that a user takes to answer its questions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::AskApproval;
use neuraxis_ports::{
    Approver, ApproverReply, Question, QuestionReply, QuestionSender, TurnContext, async_trait,
};
use tokio::time::Instant;

/// The minimum time until the next check while a question is open.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// When to check again if a call's limit is too far in the future to represent.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// Asks the user behind a call, and measures for how long.
#[derive(Debug)]
pub(crate) struct QuestionTime {
    sender: QuestionSender,
    open_time: Mutex<OpenTime>,
}

#[derive(Debug, Default)]
struct OpenTime {
    /// The number of open questions, and since when any have been open.
    open: u32,
    since: Option<Instant>,
    /// For how long any were open before that.
    before: Duration,
}

impl QuestionTime {
    pub(crate) fn of(sender: QuestionSender) -> Arc<Self> {
        Arc::new(Self {
            sender,
            open_time: Mutex::default(),
        })
    }

    /// Returns when to check a call again that may take `timeout` from `started` on; `None` once its time is up.
    pub(crate) fn next_check(&self, started: Instant, timeout: Duration) -> Option<Instant> {
        let now = Instant::now();
        let open_time = self.open_time();
        let open = open_time
            .since
            .map(|since| now.saturating_duration_since(since));
        let limit = timeout
            .saturating_add(open_time.before)
            .saturating_add(open.unwrap_or_default());
        // A limit too far in the future to represent does not apply.
        let limit = started.checked_add(limit).unwrap_or_else(|| now + FAR);
        match open {
            Some(_) => Some(limit.max(now + MIN_WAIT)),
            None => Some(limit).filter(|limit| *limit > now),
        }
    }

    fn open_time(&self) -> MutexGuard<'_, OpenTime> {
        self.open_time
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Approver for QuestionTime {
    /// Calls are not approved here.
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        ApproverReply::Nobody
    }

    async fn answer(&self, question: &Question) -> QuestionReply {
        let _open = Open::begin(self);
        self.sender.ask(question).await
    }
}

/// A question that is open until this is dropped.
struct Open<'a>(&'a QuestionTime);

impl<'a> Open<'a> {
    fn begin(time: &'a QuestionTime) -> Self {
        let mut open_time = time.open_time();
        open_time.open += 1;
        open_time.since.get_or_insert_with(Instant::now);
        Self(time)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut open_time = self.0.open_time();
        open_time.open = open_time.open.saturating_sub(1);
        if open_time.open == 0
            && let Some(since) = open_time.since.take()
        {
            open_time.before += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Slow(Duration);

    #[async_trait]
    impl Approver for Slow {
        async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
            ApproverReply::Nobody
        }

        async fn answer(&self, _: &Question) -> QuestionReply {
            tokio::time::sleep(self.0).await;
            QuestionReply::Cancelled
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_spent_answering_does_not_count() {
        let second = Duration::from_secs(1);
        let time = QuestionTime::of(QuestionSender::to(Arc::new(Slow(second * 60))));
        let started = Instant::now();
        assert_eq!(time.next_check(started, second), Some(started + second));
        let question = Question::new("shop", "Which one?");
        let asking = time.answer(&question);
        tokio::pin!(asking);
        assert!(futures_util::poll!(&mut asking).is_pending());
        tokio::time::advance(second * 30).await;
        let look = time.next_check(started, second).unwrap();
        assert_eq!(look, started + second * 31);
        asking.await;
        assert_eq!(
            time.next_check(started, second),
            Some(started + second * 61)
        );
        tokio::time::advance(second).await;
        assert_eq!(time.next_check(started, second), None, "its time is up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_too_far_away_to_represent_is_no_limit() {
        let second = Duration::from_secs(1);
        let time = QuestionTime::of(QuestionSender::to(Arc::new(Slow(second))));
        let started = Instant::now();
        assert_eq!(time.next_check(started, Duration::MAX), Some(started + FAR));
        // The time of a question does not cause an overflow either.
        time.answer(&Question::new("shop", "Which one?")).await;
        let look = time.next_check(started, Duration::MAX);
        assert_eq!(look, Some(Instant::now() + FAR));
    }
}
