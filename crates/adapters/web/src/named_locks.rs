//! Locks with names: of several tasks that want the same thing, one at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Waiting, OwnedMutexGuard};

/// The locks that are currently in use, by name.
#[derive(Debug, Default)]
pub(crate) struct NamedLocks(Mutex<HashMap<String, Arc<Waiting<()>>>>);

impl NamedLocks {
    /// Waits until the lock of this name is free, and holds it until the guard is dropped. First come, first served.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue.
    pub(crate) async fn lock(&self, name: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Locks that are neither held nor awaited are removed.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(name.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_named_lock_is_exclusive_and_removed_after_use() {
        let locks = NamedLocks::default();
        let first = locks.lock("a").await;
        let _other = locks.lock("b").await;
        let mut second = Box::pin(locks.lock("a"));
        tokio::select! {
            biased;
            _ = &mut second => panic!("two at a time"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        drop(second.await);
        let _third = locks.lock("c").await;
        assert_eq!(locks.0.lock().unwrap().len(), 2);
    }
}
