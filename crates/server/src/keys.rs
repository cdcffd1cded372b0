//! The keys that a running server knows: read from their file when the server starts, and again when the file has
//! changed.
//!
//! The file is checked at most once a second, when a request arrives. If it cannot be read any more, or is missing, the
//! known keys stay valid: nothing that happens to the file admits a client without a key.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuraxis::Policy;
use neuraxis::core::{ContentHash, with_causes};
use neuraxis::engine::SystemClock;
use neuraxis::ports::Clock as _;
use neuraxis_app::{ServerKey, ServerKeyFile, ServerKeysError};
use tokio::time::Instant;

use crate::file_stamp::FileStamp;
use crate::problem::{KEY_NEEDED, Problem, TOO_MANY_REQUESTS};
use crate::rate::{Rate, in_seconds};

/// How long the known state of the file is used without another check.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// How many requests with an invalid key are answered per second. Keys cannot be guessed; this bounds the cost.
const WRONG_PER_SECOND: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

/// How many such requests may arrive in one burst.
const WRONG_AT_ONCE: NonZeroU32 = NonZeroU32::MIN.saturating_add(49);

/// A key that a request presented.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) stored: ServerKey,
    rate: Option<Rate>,
    /// The rate limit for requests that are counted separately.
    separate_rate: Option<Rate>,
}

/// The keys of a server's clients. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Keys(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    file: ServerKeyFile,
    state: Mutex<State>,
    wrong: Rate,
}

#[derive(Debug)]
struct State {
    checked_at: Instant,
    /// The state of the file when it was read. `None` if there was no file, or if it must be read again.
    stamp: Option<FileStamp>,
    known: Arc<HashMap<ContentHash, Arc<Key>>>,
    /// Whether a key is needed: always, or from the moment there was one.
    is_needed: bool,
    /// Whether the log already reports that the file cannot be read.
    has_logged_failure: bool,
}

impl Keys {
    /// Reads the keys from a file, which may not exist yet.
    ///
    /// # Errors
    ///
    /// Returns a [`ServerKeysError`] if the file exists but cannot be read, because it would be unknown which clients
    /// to admit.
    pub fn open(file: ServerKeyFile) -> Result<Self, ServerKeysError> {
        let stamp = FileStamp::of(file.path()).ok();
        let read = file.read()?;
        let is_needed = !read.is_empty();
        Ok(Self::new(file, stamp, read, is_needed))
    }

    /// Reads the keys from an explicitly configured file: it must exist, and a key is needed even while it holds none.
    ///
    /// # Errors
    ///
    /// Returns a [`ServerKeysError`] if the file does not exist or cannot be read.
    pub fn open_named(file: ServerKeyFile) -> Result<Self, ServerKeysError> {
        let stamp = FileStamp::of(file.path()).ok();
        let read = file.read_present()?;
        if read.is_empty() {
            let file = file.path().display();
            tracing::warn!(%file, "no keys exist yet, so every request is refused; create one with `neuraxis-server \
                                   keys create`");
        }
        Ok(Self::new(file, stamp, read, true))
    }

    fn new(
        file: ServerKeyFile,
        stamp: Option<FileStamp>,
        read: Vec<ServerKey>,
        is_needed: bool,
    ) -> Self {
        let state = State {
            checked_at: Instant::now(),
            stamp,
            is_needed,
            known: Arc::new(index_by_hash(read, &HashMap::new())),
            has_logged_failure: false,
        };
        Self(Some(Arc::new(Shared {
            file,
            state: Mutex::new(state),
            wrong: Rate::per_second(WRONG_PER_SECOND, WRONG_AT_ONCE),
        })))
    }

    /// Returns whether clients need a key: always with a configured file, otherwise from the moment there is a key,
    /// even an expired or revoked one.
    #[must_use]
    pub fn are_needed(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| shared.with_state(|state| state.is_needed))
    }

    /// Returns the key that a request presents. The reason for a refusal is only logged.
    pub(crate) fn admit(&self, presented: Option<&str>) -> Result<Arc<Key>, Problem> {
        let Some((shared, presented)) = self.0.as_ref().zip(presented) else {
            return Err(needed());
        };
        // Timing this reveals something about hashes, but nothing about keys.
        let hash = ContentHash::of(presented.as_bytes());
        let found = shared.with_state(|state| state.known.get(&hash).cloned());
        let reason = match &found {
            Some(key) => key.stored.refused_at(SystemClock.now()),
            None => Some("unknown"),
        };
        let id = found.as_ref().map(|key| &*key.stored.id);
        let Some(reason) = reason else {
            return found.ok_or_else(needed);
        };
        match shared.wrong.count() {
            Ok(()) => {
                tracing::info!(key = id, reason, "a request had a key that is not accepted");
                Err(needed())
            }
            Err(seconds) => {
                let detail = format!(
                    "too many requests with keys that are not accepted; try again {}",
                    in_seconds(seconds)
                );
                Err(Problem::new(&TOO_MANY_REQUESTS, detail).retry_after(seconds))
            }
        }
    }

    /// Logs each key that has an unknown plan: requests with it are refused, and its holder cannot fix that.
    pub(crate) fn warn_about_missing_plans(&self, policy: &Policy) {
        let Some(shared) = &self.0 else {
            return;
        };
        let now = SystemClock.now();
        let known = shared.with_state(|state| Arc::clone(&state.known));
        for key in known.values().map(|key| &key.stored) {
            if let Some(plan) = key.missing_plan(policy)
                && key.refused_at(now).is_none()
            {
                tracing::warn!(
                    key = key.id.as_str(), owner = key.owner.as_str(), %plan,
                    "a key names a plan that does not exist: its requests are refused until the plan is restored in \
                     [plans] or its owner gets a new key"
                );
            }
        }
    }

    /// Returns whether a key that was accepted still is, unchanged.
    pub(crate) fn still_accepts(&self, key: &Arc<Key>) -> bool {
        let hash = &key.stored.hash;
        let is_known = |shared: &Arc<Shared>| {
            shared.with_state(|state| {
                let known = state.known.get(hash);
                known.is_some_and(|known| Arc::ptr_eq(known, key))
            })
        };
        self.0.as_ref().is_some_and(is_known) && key.stored.refused_at(SystemClock.now()).is_none()
    }
}

impl Key {
    /// Counts a request, and refuses it if it exceeds the key's limit per minute.
    pub(crate) fn count(&self) -> Result<(), Problem> {
        self.check_rate(self.rate.as_ref())
    }

    /// Counts a request that cancels a run or answers the server separately from other requests, so that one that frees
    /// capacity or was asked for is not refused because of them.
    pub(crate) fn count_separately(&self) -> Result<(), Problem> {
        self.check_rate(self.separate_rate.as_ref())
    }

    fn check_rate(&self, rate: Option<&Rate>) -> Result<(), Problem> {
        let Some(rate) = rate else {
            return Ok(());
        };
        rate.count().map_err(|seconds| {
            let most = self.stored.requests_per_minute.map_or(0, NonZeroU32::get);
            let detail = format!(
                "this key is limited to {most} requests per minute; try again {}",
                in_seconds(seconds)
            );
            Problem::new(&TOO_MANY_REQUESTS, detail).retry_after(seconds)
        })
    }
}

impl Shared {
    /// Reads the known keys, after checking the file if the last check was a while ago.
    fn with_state<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.checked_at.elapsed() >= GOOD_FOR {
            self.refresh(&mut state);
            state.checked_at = Instant::now();
        }
        at(&state)
    }

    fn refresh(&self, state: &mut State) {
        let stamp = match FileStamp::of(self.file.path()) {
            Ok(stamp) => Ok(Some(stamp)),
            // The file may be missing as long as there was no key.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !state.is_needed => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        let read = match stamp {
            Ok(stamp) if stamp == state.stamp => return,
            Ok(stamp) => {
                let read = self.file.read().map_err(|error| with_causes(&error));
                read.map(|read| (stamp, read))
            }
            Err(error) => Err(error),
        };
        let (stamp, read) = match read {
            Ok(read) => read,
            Err(error) => {
                if !state.has_logged_failure {
                    let file = self.file.path().display();
                    tracing::error!(%file, %error, "cannot read the keys; the previous ones remain in force");
                }
                state.has_logged_failure = true;
                // Once the file can be read, its stamp may be the same as before.
                state.stamp = None;
                return;
            }
        };
        state.stamp = stamp;
        state.has_logged_failure = false;
        state.is_needed |= !read.is_empty();
        let keys = read.len();
        let read = index_by_hash(read, &state.known);
        let (changed, gone) = (
            changed_ids(&read, &state.known),
            removed_ids(&read, &state.known),
        );
        tracing::info!(keys, changed, gone, "reloaded the keys");
        state.known = Arc::new(read);
    }
}

/// Indexes keys by their hashes. An unchanged key keeps its object, and with it its request counts.
fn index_by_hash(
    read: Vec<ServerKey>,
    before: &HashMap<ContentHash, Arc<Key>>,
) -> HashMap<ContentHash, Arc<Key>> {
    let key = |stored: ServerKey| {
        let same = before.get(&stored.hash).filter(|key| key.stored == stored);
        let key = same.cloned().unwrap_or_else(|| {
            let rate = || stored.requests_per_minute.map(Rate::per_minute);
            let (rate, separate_rate) = (rate(), rate());
            Arc::new(Key {
                stored,
                rate,
                separate_rate,
            })
        });
        (key.stored.hash, key)
    };
    read.into_iter().map(key).collect()
}

/// Returns the ids of keys that are new or have changed, such as revoked ones.
fn changed_ids(
    read: &HashMap<ContentHash, Arc<Key>>,
    before: &HashMap<ContentHash, Arc<Key>>,
) -> Option<String> {
    let is_same = |key: &Arc<Key>| {
        let same = before.get(&key.stored.hash);
        same.is_some_and(|same| Arc::ptr_eq(same, key))
    };
    ids(read.values().filter(|key| !is_same(key)))
}

/// Returns the ids of keys that no longer exist.
fn removed_ids(
    read: &HashMap<ContentHash, Arc<Key>>,
    before: &HashMap<ContentHash, Arc<Key>>,
) -> Option<String> {
    let is_gone = |key: &&Arc<Key>| !read.contains_key(&key.stored.hash);
    ids(before.values().filter(is_gone))
}

fn ids<'a>(keys: impl Iterator<Item = &'a Arc<Key>>) -> Option<String> {
    let mut ids: Vec<&str> = keys.map(|key| key.stored.id.as_str()).collect();
    ids.sort_unstable();
    (!ids.is_empty()).then(|| ids.join(", "))
}

/// The answer to a request without a key, or with one that is not accepted.
fn needed() -> Problem {
    let detail = "this server requires a valid key that is neither expired nor revoked; send the header \
                  Authorization: Bearer KEY";
    Problem::new(&KEY_NEEDED, detail)
}

#[cfg(test)]
mod tests;
