//! A permit that counts a run toward the server's limit on concurrent runs.

use std::future::pending;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

/// A permit to run, released when this is dropped.
#[derive(Debug)]
pub struct RunPermit {
    _taken: Option<OwnedSemaphorePermit>,
    _owed: Option<AbortOnDropHandle<()>>,
}

impl RunPermit {
    /// Takes a permit, or returns `None` if none is available.
    #[must_use]
    pub fn take(permits: &Arc<Semaphore>) -> Option<Self> {
        let taken = Arc::clone(permits).try_acquire_owned().ok()?;
        Some(Self {
            _taken: Some(taken),
            _owed: None,
        })
    }

    /// Takes a permit for a run that must continue even if none is available, such as after a user's decision. It then
    /// receives the next one released, ahead of later callers. Must be called within a tokio runtime.
    #[must_use]
    pub fn take_regardless(permits: &Arc<Semaphore>) -> Self {
        Self::take(permits).unwrap_or_else(|| {
            let permits = Arc::clone(permits);
            let owed = tokio::spawn(async move {
                let _taken = permits.acquire_owned().await;
                pending::<()>().await;
            });
            Self {
                _taken: None,
                _owed: Some(AbortOnDropHandle::new(owed)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn take_regardless_waits_for_the_next_free_permit_and_releases_it_on_drop() {
        let permits = Arc::new(Semaphore::new(1));
        let first = RunPermit::take(&permits).unwrap();
        assert!(RunPermit::take(&permits).is_none());
        let other = RunPermit::take_regardless(&permits);
        // The task is queued by now.
        tokio::task::yield_now().await;
        drop(first);
        assert!(RunPermit::take(&permits).is_none(), "it is the other's");
        drop(other);
        while permits.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
    }
}
