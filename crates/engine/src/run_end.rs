//! How a run ended, told once to all who wait for it.

use std::sync::Arc;

use neuraxis_core::{Pending, RunOutcome, RunUsage, Transcript};
use neuraxis_ports::StoreError;
use tokio::sync::SetOnce;

/// What a run left, or why it cannot be kept and so has not ended; told once nothing of it is under way here any more.
pub(crate) type Ended = Result<Arc<RunEnd>, StoreError>;

/// What a run left when it ended, or came to wait for somebody who is not here.
#[derive(Debug)]
pub(crate) struct RunEnd {
    /// What it came to; `None` if it waits.
    pub(crate) outcome: Option<RunOutcome>,
    /// What it waits for, if it waits.
    pub(crate) pending: Vec<Pending>,
    /// If it waits: the turns that counted so far, and what it used.
    pub(crate) so_far: Option<(u32, RunUsage)>,
    /// Its root agent's whole conversation.
    pub(crate) messages: Transcript,
}

/// Tells how a run ended. Dropped before it did, it lets all go who wait: nobody will tell them any more.
#[derive(Debug, Default)]
pub(crate) struct EndTeller(AwaitedEnd);

/// Waits for the end of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct AwaitedEnd(Arc<SetOnce<Option<Ended>>>);

impl EndTeller {
    /// Returns what waits for it.
    pub(crate) fn awaited(&self) -> AwaitedEnd {
        self.0.clone()
    }

    /// Tells it. What was told first stays.
    pub(crate) fn tell(&self, end: Ended) {
        self.0.set(Some(end));
    }
}

impl Drop for EndTeller {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl AwaitedEnd {
    /// Makes an end that is told already.
    pub(crate) fn told(end: Ended) -> Self {
        Self(Arc::new(SetOnce::new_with(Some(Some(end)))))
    }

    /// Tells whether the run has ended, as far as was told.
    pub(crate) fn is_told(&self) -> bool {
        self.0.get().is_some_and(Option::is_some)
    }

    /// Waits for it; `None` once nobody is left who could tell it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn wait(&self) -> Option<Ended> {
        self.0.wait().await.clone()
    }

    fn set(&self, end: Option<Ended>) {
        // It fails once something was told, which stays.
        let _ = self.0.set(end);
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
    async fn all_who_wait_hear_what_was_told_first() {
        let teller = EndTeller::default();
        let (before, after) = (teller.awaited(), teller.awaited());
        assert!(!before.is_told());
        let waiting = tokio::spawn(async move { before.wait().await });
        tokio::task::yield_now().await;
        teller.tell(lost());
        teller.tell(Err(StoreError::RunEnded(RunId(uuid::Uuid::nil()))));
        let heard = waiting.await.unwrap().unwrap().unwrap_err();
        assert!(matches!(heard, StoreError::Stale(_)));
        assert!(after.is_told());
        assert!(after.wait().await.is_some());
    }

    #[tokio::test]
    async fn nobody_waits_for_one_who_is_gone() {
        let teller = EndTeller::default();
        let end = teller.awaited();
        let waiting = tokio::spawn({
            let end = end.clone();
            async move { end.wait().await }
        });
        tokio::task::yield_now().await;
        drop(teller);
        assert!(waiting.await.unwrap().is_none());
        assert!(!end.is_told());
    }
}
