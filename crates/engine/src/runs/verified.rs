//! Makes sure that a session is what was kept, before anything goes on from it: whoever can alter its log could slip words
//! and permissions into what a model goes on from.
//!
//! That follows the hash chain through the session's whole log, so that a session found whole is taken to be so for a
//! while. What is altered meanwhile is found after it, at the latest.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use neuraxis_core::SessionId;
use neuraxis_ports::StoreError;
use tokio::time::Instant;

use super::Runs;

/// How long a session is taken to be whole at the least; it is twice as long at the most. Looking at one takes about as
/// long as reading its log, which a conversation that goes on all the time then pays for a few times an hour.
const PERIOD: Duration = Duration::from_secs(300);

/// The most sessions that are remembered of one period. The oldest are forgotten, and looked at again.
const MAX_SESSIONS: usize = 8_192;

/// How long a session that was found altered is refused without a look: whoever looks for runs to take up does so every few
/// seconds.
const REFUSED: Duration = Duration::from_secs(60);

/// The most altered sessions that are remembered. All are forgotten when there are more.
const MAX_ALTERED: usize = 256;

/// What was found of sessions lately.
#[derive(Debug)]
pub(crate) struct VerifiedSessions(Mutex<Periods>);

#[derive(Debug)]
struct Periods {
    began: Instant,
    current: HashSet<SessionId>,
    last: HashSet<SessionId>,
    /// When each was found altered, and what does not fit.
    altered: HashMap<SessionId, (Instant, String)>,
}

impl VerifiedSessions {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Periods {
            began: Instant::now(),
            current: HashSet::new(),
            last: HashSet::new(),
            altered: HashMap::new(),
        }))
    }

    /// Locks what is remembered, for no longer than a lookup; never across an `await`.
    fn with<T>(&self, look: impl FnOnce(&mut Periods) -> T) -> T {
        let mut periods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        periods.move_on(Instant::now());
        look(&mut periods)
    }
}

impl Periods {
    fn move_on(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.began);
        if since >= PERIOD || self.current.len() >= MAX_SESSIONS {
            self.last = std::mem::take(&mut self.current);
            self.began = now;
        }
        if since >= 2 * PERIOD {
            self.last.clear();
        }
    }

    /// Returns what is known of a session: that it is whole, or why it is not.
    fn known(&self, session: &SessionId) -> Option<Result<(), String>> {
        if self.current.contains(session) || self.last.contains(session) {
            return Some(Ok(()));
        }
        let (found, why) = self.altered.get(session)?;
        (found.elapsed() < REFUSED).then(|| Err(why.clone()))
    }

    fn note_altered(&mut self, session: &SessionId, why: &str) {
        if self.altered.len() >= MAX_ALTERED {
            self.altered.clear();
        }
        let found = (Instant::now(), why.to_owned());
        self.altered.insert(session.clone(), found);
    }
}

impl Runs {
    /// Returns why a session is not what was kept, as far as the engine was asked to look and has not done so lately; `None` if
    /// it is, or if there is none.
    pub(crate) async fn alteration(
        &self,
        session: &SessionId,
    ) -> Result<Option<String>, StoreError> {
        match &self.parts.verified {
            // Boxed, because most engines do not look.
            Some(verified) => Box::pin(self.look(verified, session)).await,
            None => Ok(None),
        }
    }

    async fn look(
        &self,
        verified: &VerifiedSessions,
        session: &SessionId,
    ) -> Result<Option<String>, StoreError> {
        if let Some(known) = verified.with(|periods| periods.known(session)) {
            return Ok(known.err());
        }
        let store = &self.parts.store;
        match store.verify(session, None).await {
            Ok(_) => {
                verified.with(|periods| periods.current.insert(session.clone()));
                Ok(None)
            }
            // There is nothing to go on from.
            Err(StoreError::NoSuchSession(_)) => Ok(None),
            Err(StoreError::Damaged(why)) => {
                // One that is deleted while it is read lacks what was read last.
                if let Err(StoreError::NoSuchSession(_)) = store.session(session).await {
                    return Ok(None);
                }
                verified.with(|periods| periods.note_altered(session, &why));
                Ok(Some(why))
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_sessions_are_remembered_than_two_periods_have() {
        let verified = VerifiedSessions::new();
        let session = |number: usize| -> SessionId { format!("s{number}").parse().unwrap() };
        let many = 3 * MAX_SESSIONS;
        for number in 0..many {
            verified.with(|periods| {
                periods.current.insert(session(number));
                periods.note_altered(&session(many + number), "it was");
            });
        }
        verified.with(|periods| {
            assert!(periods.current.len() + periods.last.len() <= 2 * MAX_SESSIONS);
            assert!(periods.altered.len() <= MAX_ALTERED);
            assert_eq!(periods.known(&session(0)), None);
            assert_eq!(periods.known(&session(many - 1)), Some(Ok(())));
            assert_eq!(periods.known(&session(many)), None);
            let last = periods.known(&session(2 * many - 1));
            assert_eq!(last, Some(Err("it was".to_owned())));
        });
    }
}
