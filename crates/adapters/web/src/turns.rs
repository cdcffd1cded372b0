//! Turns: of several tasks that want the same thing, one at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Waiting, OwnedMutexGuard};

/// The locks that are currently in use, by name.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<Waiting<()>>>>);

impl Turns {
    /// Waits until the lock of this name is free, and holds it until the guard is dropped. First come, first served.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue.
    pub(crate) async fn take(&self, name: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Locks that are neither held nor awaited are removed.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(name.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_same_name_is_used_by_one_at_a_time_and_forgotten_afterwards() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        let _other = turns.take("b").await;
        let mut second = Box::pin(turns.take("a"));
        tokio::select! {
            biased;
            _ = &mut second => panic!("two at a time"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        drop(second.await);
        let _third = turns.take("c").await;
        assert_eq!(turns.0.lock().unwrap().len(), 2);
    }
}
