//! The end of a run, sent once to all who wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_core::{Pending, RunOutcome, RunUsage, Transcript};
use neuraxis_ports::StoreError;
use tokio::sync::SetOnce;

/// What a run left, or why it could not be stored and so has not ended; sent once no part of it is in progress here.
pub(crate) type Ended = Result<Arc<RunEnd>, StoreError>;

/// What a run left when it ended, or when it began to wait for an answer from outside this process.
#[derive(Debug)]
pub(crate) struct RunEnd {
    /// Its outcome; `None` if it waits.
    pub(crate) outcome: Option<RunOutcome>,
    /// What a waiting run waits for.
    pub(crate) pending: Vec<Pending>,
    /// If it waits: the turns that counted so far, and its usage.
    pub(crate) so_far: Option<(u32, RunUsage)>,
    /// The whole conversation of its root agent.
    pub(crate) messages: Transcript,
}

/// Sends the end of a run. If it is dropped before sending, all waiters are released without an end.
#[derive(Debug, Default)]
pub(crate) struct EndSender(EndReceiver);

/// Waits for the end of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndReceiver(Arc<SharedEnd>);

#[derive(Debug, Default)]
struct SharedEnd {
    end: SetOnce<Option<Ended>>,
    /// Whether the run is ending: its outcome is determined but may not be stored yet.
    is_ending: AtomicBool,
}

impl EndSender {
    /// Returns a receiver of the end.
    pub(crate) fn receiver(&self) -> EndReceiver {
        self.0.clone()
    }

    /// Notes that the run is ending: whatever is sent to it now comes too late.
    pub(crate) fn note_ending(&self) {
        self.0.0.is_ending.store(true, Ordering::Relaxed);
    }

    /// Sends the end. Only the first one sent is kept.
    pub(crate) fn send(&self, end: Ended) {
        self.0.set(Some(end));
    }
}

impl Drop for EndSender {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl EndReceiver {
    /// Creates a receiver of an end that has already come.
    pub(crate) fn ended(end: Ended) -> Self {
        Self(Arc::new(SharedEnd {
            end: SetOnce::new_with(Some(Some(end))),
            is_ending: AtomicBool::new(false),
        }))
    }

    /// Returns whether the end has come.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.end.get().is_some_and(Option::is_some)
    }

    /// Returns whether the run itself is over, or about to be: it neither waits nor was left.
    pub(crate) fn is_over(&self) -> bool {
        match self.0.end.get() {
            Some(Some(Ok(end))) => end.outcome.is_some(),
            Some(Some(Err(_)) | None) => false,
            None => self.0.is_ending.load(Ordering::Relaxed),
        }
    }

    /// Waits for the end; `None` once the sender is gone without sending one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn wait(&self) -> Option<Ended> {
        self.0.end.wait().await.clone()
    }

    fn set(&self, end: Option<Ended>) {
        // Fails if an end was already sent; the first one stays.
        let _ = self.0.end.set(end);
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::RunId;

    use super::*;

    fn lost() -> Ended {
        Err(StoreError::Stale(RunId(uuid::Uuid::nil())))
    }

    #[tokio::test]
    async fn all_waiters_receive_the_first_end_that_was_sent() {
        let sender = EndSender::default();
        let (before, after) = (sender.receiver(), sender.receiver());
        assert!(!before.has_ended());
        let waiting = tokio::spawn(async move { before.wait().await });
        tokio::task::yield_now().await;
        sender.send(lost());
        sender.send(Err(StoreError::RunEnded(RunId(uuid::Uuid::nil()))));
        let received = waiting.await.unwrap().unwrap().unwrap_err();
        assert!(matches!(received, StoreError::Stale(_)));
        assert!(after.has_ended());
        assert!(after.wait().await.is_some());
    }

    #[tokio::test]
    async fn waiters_return_when_the_sender_is_dropped() {
        let sender = EndSender::default();
        let end = sender.receiver();
        let waiting = tokio::spawn({
            let end = end.clone();
            async move { end.wait().await }
        });
        tokio::task::yield_now().await;
        drop(sender);
        assert!(waiting.await.unwrap().is_none());
        assert!(!end.has_ended());
    }
}
