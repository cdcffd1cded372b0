//! Verifies that a session is unaltered before anything continues it: an attacker who can alter its log could otherwise
//! insert text and permissions into what a model continues from.
//!
//! Verifying follows the hash chain through the session's whole log, so a session that was found unaltered is trusted
//! for a while. A change made in that time is found afterwards.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use neuraxis_core::SessionId;
use neuraxis_ports::StoreError;
use tokio::time::Instant;

use super::Runs;

/// The length of a period. A session that was found unaltered is trusted for the rest of its period and for the next
/// one: for one to two periods. Verifying takes about as long as reading the session's log, so a continuously used
/// conversation pays for that a few times an hour.
const PERIOD: Duration = Duration::from_secs(300);

/// The maximum number of sessions that are remembered per period. Beyond it, the oldest are forgotten and verified
/// again.
const MAX_SESSIONS: usize = 8_192;

/// How long a session that was found altered is refused without another check: recovery would otherwise check it every
/// few seconds.
const REFUSED: Duration = Duration::from_secs(60);

/// The maximum number of altered sessions that are remembered. Beyond it, all are forgotten.
const MAX_ALTERED: usize = 256;

/// The recent results of verifying sessions.
#[derive(Debug)]
pub(crate) struct VerifiedSessions(Mutex<Periods>);

#[derive(Debug)]
struct Periods {
    began: Instant,
    current: HashSet<SessionId>,
    last: HashSet<SessionId>,
    /// When each session was found altered, and the inconsistency.
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

    /// Locks the results for no longer than a lookup, and never across an `await`.
    fn with<T>(&self, look: impl FnOnce(&mut Periods) -> T) -> T {
        let mut periods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        periods.move_on(Instant::now());
        look(&mut periods)
    }
}

impl Periods {
    fn move_on(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.began);
        if since >= 2 * PERIOD {
            self.current.clear();
            self.last.clear();
            self.began = now;
        } else if since >= PERIOD {
            self.last = std::mem::take(&mut self.current);
            // Not `now`: a late look would make the period longer than it is.
            self.began += PERIOD;
        } else if self.current.len() >= MAX_SESSIONS {
            self.last = std::mem::take(&mut self.current);
            self.began = now;
        }
    }

    /// Returns the known result for a session: unaltered, or the inconsistency.
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
    /// Returns how a session was altered, if the engine verifies sessions, using a recent result if there is one;
    /// `None` if it is unaltered or does not exist.
    pub(crate) async fn alteration(
        &self,
        session: &SessionId,
    ) -> Result<Option<String>, StoreError> {
        match &self.parts.verified {
            // Boxed because most engines do not verify.
            Some(verified) => Box::pin(self.check_alteration(verified, session)).await,
            None => Ok(None),
        }
    }

    async fn check_alteration(
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
            // There is nothing to continue.
            Err(StoreError::NoSuchSession(_)) => Ok(None),
            Err(StoreError::Damaged(why)) => {
                // A session that is deleted while it is read lacks the records that would have been read last.
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
    fn a_session_is_trusted_for_one_to_two_periods_however_rare_the_checks() {
        let verified = VerifiedSessions::new();
        let session: SessionId = "s".parse().unwrap();
        verified.with(|periods| {
            let (began, second) = (periods.began, Duration::from_secs(1));
            periods.current.insert(session.clone());
            // The first look after that comes at the very end of the next period.
            periods.move_on(began + 2 * PERIOD - second);
            assert_eq!(periods.known(&session), Some(Ok(())));
            periods.move_on(began + 2 * PERIOD);
            assert_eq!(periods.known(&session), None);
            // And after a long time without any.
            periods.current.insert(session.clone());
            periods.move_on(began + 10 * PERIOD);
            assert_eq!(periods.known(&session), None);
        });
    }

    #[test]
    fn at_most_two_periods_of_sessions_are_remembered() {
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
