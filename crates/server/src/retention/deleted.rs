//! Logs the sessions that were deleted because of their age.

use neuraxis::SessionId;
use neuraxis::engine::Sessions;
use neuraxis::ports::StoreError;

/// How many of them are named.
pub(super) const NAMED: usize = 5;

/// Logs how many were deleted, and the ids of the first ones.
pub(super) fn log(count: u64, first: &[SessionId]) {
    if count > 0 {
        let first: Vec<&str> = first.iter().map(SessionId::as_str).collect();
        let first = first.join(", ");
        tracing::info!(count, first, "deleted expired sessions");
    }
}

/// Returns those that no longer exist: one may have been used again before its deletion.
pub(super) async fn find_missing(sessions: &Sessions, some: Vec<SessionId>) -> Vec<SessionId> {
    let mut gone = Vec::new();
    for session in some {
        let found = sessions.get(&session).await;
        if matches!(found, Err(StoreError::NoSuchSession(_))) {
            gone.push(session);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuraxis::core::jiff::Timestamp;
    use neuraxis::memory::MemoryStore;
    use neuraxis::ports::{Session, SessionIndex as _};

    use super::*;

    #[tokio::test]
    async fn a_session_that_is_used_again_is_not_reported_as_deleted() {
        let store = Arc::new(MemoryStore::default());
        let [deleted, used]: [SessionId; 2] = ["deleted", "used"].map(|id| id.parse().unwrap());
        let session = Session::new(used.clone(), Timestamp::UNIX_EPOCH);
        store.create_session(&session).await.unwrap();
        let some = vec![deleted.clone(), used];
        assert_eq!(find_missing(&Sessions::new(store), some).await, [deleted]);
    }
}
