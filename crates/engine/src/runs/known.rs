//! Remembers sessions that exist, so the first request of a session reads nothing: an unknown session is assumed to be
//! new, and the store reports if that is wrong.
//!
//! While the store fails to store runs, every session is looked up first: a failed read leaves nothing to clean up,
//! whereas a failed start may have happened anyway.
//!
//! Not for the contents of a session, which may change in another process.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use neuraxis_core::SessionId;

/// The maximum number of remembered sessions, at 8 bytes each.
const PLACES: usize = 8_192;

/// The sessions that this process found or created lately. Sessions share places, and each place remembers the last
/// one. Forgetting a session costs its next request a refused start; mistaking one for another costs a lookup in the
/// store.
#[derive(Debug)]
pub(crate) struct KnownSessions {
    places: Box<[AtomicU64]>,
    /// Whether the store failed the last time a run was to begin.
    in_doubt: AtomicBool,
    hasher: RandomState,
}

impl KnownSessions {
    pub(crate) fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            in_doubt: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
    }

    /// Returns whether a session may exist and should be looked up.
    pub(super) fn may_have(&self, session: &SessionId) -> bool {
        self.in_doubt.load(Ordering::Relaxed) || self.has(session)
    }

    /// Notes whether the store answered when a run was to begin, instead of failing.
    pub(super) fn note_store_works(&self, works: bool) {
        // Rarely changes and is read by all, so it is written only when it changes.
        if self.in_doubt.load(Ordering::Relaxed) == works {
            self.in_doubt.store(!works, Ordering::Relaxed);
        }
    }

    fn has(&self, session: &SessionId) -> bool {
        let hash = self.hash(session);
        // Relaxed ordering is enough: the hash is the only data.
        let place = self.place(hash);
        place.is_some_and(|place| place.load(Ordering::Relaxed) == hash)
    }

    pub(super) fn note(&self, session: &SessionId) {
        let hash = self.hash(session);
        if let Some(place) = self.place(hash) {
            place.store(hash, Ordering::Relaxed);
        }
    }

    fn hash(&self, session: &SessionId) -> u64 {
        // Zero means empty.
        self.hasher.hash_one(session).max(1)
    }

    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        let place = usize::try_from(hash % PLACES as u64).ok()?;
        self.places.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_until_another_replaces_it() {
        let known = KnownSessions::new();
        let session = |number: usize| -> SessionId { format!("s{number}").parse().unwrap() };
        assert!(!known.has(&session(0)));
        known.note(&session(0));
        assert!(known.has(&session(0)));
        assert!(!known.has(&session(1)));
        for number in 1..=4 * PLACES {
            known.note(&session(number));
            assert!(known.has(&session(number)));
        }
        let remembered = (0..=4 * PLACES).filter(|number| known.has(&session(*number)));
        assert!(remembered.count() <= PLACES);
    }

    #[test]
    fn any_session_may_exist_while_the_store_is_failing() {
        let known = KnownSessions::new();
        let session: SessionId = "s".parse().unwrap();
        assert!(!known.may_have(&session));
        known.note_store_works(false);
        assert!(known.may_have(&session));
        known.note_store_works(true);
        assert!(!known.may_have(&session));
    }
}
