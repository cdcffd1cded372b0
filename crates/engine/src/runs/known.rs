//! Remembers sessions that are there, so that the first request of a session reads nothing: one that is not known is taken to be
//! new, and the store says where that is wrong.
//!
//! While the store keeps nothing, every session is looked for: a read that fails leaves nothing to be cleared up, where a
//! beginning that failed may have happened all the same.
//!
//! Not for what a session holds, which may change in another process.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use neuraxis_core::SessionId;

/// How many sessions are remembered at the most, in 8 bytes each.
const PLACES: usize = 8_192;

/// The sessions that this process found or made lately. Each has one place, which it shares with others: the last of them is
/// remembered. To forget one costs its next request a refused beginning, to take one for another a look into the store.
#[derive(Debug)]
pub(crate) struct KnownSessions {
    places: Box<[AtomicU64]>,
    /// Whether the store kept nothing when it was last to begin a run.
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

    /// Tells whether a session is to be looked for: it may be there.
    pub(super) fn may_have(&self, session: &SessionId) -> bool {
        self.in_doubt.load(Ordering::Relaxed) || self.has(session)
    }

    /// Notes whether the store kept a run that began.
    pub(super) fn note_kept(&self, kept: bool) {
        // Seldom changed, and read by all: it is not written without need.
        if self.in_doubt.load(Ordering::Relaxed) == kept {
            self.in_doubt.store(!kept, Ordering::Relaxed);
        }
    }

    fn has(&self, session: &SessionId) -> bool {
        let hash = self.hash(session);
        // No order is needed: the hash is all that there is to be read.
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
        // Nothing is remembered as zero.
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
    fn a_session_is_known_until_another_takes_its_place() {
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
    fn any_session_may_be_there_while_the_store_keeps_nothing() {
        let known = KnownSessions::new();
        let session: SessionId = "s".parse().unwrap();
        assert!(!known.may_have(&session));
        known.note_kept(false);
        assert!(known.may_have(&session));
        known.note_kept(true);
        assert!(!known.may_have(&session));
    }
}
