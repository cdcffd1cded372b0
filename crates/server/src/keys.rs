//! The keys that a running server knows: read from their file when the server starts, and again when the file has changed.
//!
//! The file is looked at once a second at the most, when a request comes. One that cannot be read any more, or is gone, leaves
//! the keys as they were: nothing that happens to it lets in somebody who has no key.

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

/// How long is known what the file holds.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// How many requests with a wrong key are answered in a second. Nobody guesses a key; this bounds what they cost.
const WRONG_PER_SECOND: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

/// How many of them may come at once.
const WRONG_AT_ONCE: NonZeroU32 = NonZeroU32::MIN.saturating_add(49);

/// A key that a request showed.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) said: ServerKey,
    rate: Option<Rate>,
    /// How often it may be used for what is counted apart.
    apart: Option<Rate>,
}

/// The keys of a server's clients. Cloning shares them.
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
    looked: Instant,
    /// What the file looked like when it was read; `None` if there was none, or it has to be read again.
    stamp: Option<FileStamp>,
    known: Arc<HashMap<ContentHash, Arc<Key>>>,
    /// Whether a key is needed: from the moment on at which there was one, or always.
    is_needed: bool,
    /// Whether the log was told that the file cannot be read.
    has_complained: bool,
}

impl Keys {
    /// Reads the keys of a file, which need not be there yet.
    ///
    /// # Errors
    ///
    /// A [`ServerKeysError`] if there is one that cannot be read: who is let in would be anybody's guess.
    pub fn open(file: ServerKeyFile) -> Result<Self, ServerKeysError> {
        let stamp = FileStamp::of(file.path()).ok();
        let read = file.read()?;
        let is_needed = !read.is_empty();
        Ok(Self::new(file, stamp, read, is_needed))
    }

    /// Reads the keys of a file that somebody named: it has to be there, and a key is needed even while it holds none.
    ///
    /// # Errors
    ///
    /// A [`ServerKeysError`] if it is not there, or cannot be read.
    pub fn open_named(file: ServerKeyFile) -> Result<Self, ServerKeysError> {
        let stamp = FileStamp::of(file.path()).ok();
        let read = file.read_present()?;
        if read.is_empty() {
            let file = file.path().display();
            tracing::warn!(%file, "there are no keys yet, so that nobody is let in; `neuraxis-server keys create` makes one");
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
            looked: Instant::now(),
            stamp,
            is_needed,
            known: Arc::new(known(read, &HashMap::new())),
            has_complained: false,
        };
        Self(Some(Arc::new(Shared {
            file,
            state: Mutex::new(state),
            wrong: Rate::per_second(WRONG_PER_SECOND, WRONG_AT_ONCE),
        })))
    }

    /// Tells whether clients need a key: once there is one, be it expired or revoked, and from then on; always where the file
    /// was named.
    #[must_use]
    pub fn are_needed(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| shared.look(|state| state.is_needed))
    }

    /// Returns the key that a request shows. Which of all reasons it is refused for, only the log is told.
    pub(crate) fn admit(&self, shown: Option<&str>) -> Result<Arc<Key>, Problem> {
        let Some((shared, shown)) = self.0.as_ref().zip(shown) else {
            return Err(needed());
        };
        // Whoever measures how long this takes learns something of hashes, and of no key.
        let hash = ContentHash::of(shown.as_bytes());
        let found = shared.look(|state| state.known.get(&hash).cloned());
        let why = match &found {
            Some(key) => key.said.refused_at(SystemClock.now()),
            None => Some("unknown"),
        };
        let Some((why, id)) = why.map(|why| (why, found.as_ref().map(|key| &*key.said.id))) else {
            return found.ok_or_else(needed);
        };
        match shared.wrong.count() {
            Ok(()) => {
                tracing::info!(key = id, why, "a request with a key that is not taken");
                Err(needed())
            }
            Err(seconds) => {
                let detail = format!(
                    "too many requests came with a key that is not taken; try again {}",
                    in_seconds(seconds)
                );
                Err(Problem::new(&TOO_MANY_REQUESTS, detail).retry_after(seconds))
            }
        }
    }

    /// Tells the log of keys whose plan there is not: who has one is refused, and can do nothing about it.
    pub(crate) fn tell_of_missing_plans(&self, policy: &Policy) {
        let Some(shared) = &self.0 else {
            return;
        };
        let now = SystemClock.now();
        let known = shared.look(|state| Arc::clone(&state.known));
        for key in known.values().map(|key| &key.said) {
            if let Some(plan) = key.missing_plan(policy)
                && key.refused_at(now).is_none()
            {
                tracing::warn!(
                    key = key.id.as_str(), owner = key.owner.as_str(), %plan,
                    "a key has a plan that there is not: what is asked with it is refused until [plans] has it again, or its owner \
                     has a new key"
                );
            }
        }
    }

    /// Tells whether a key that was taken still is, as it was.
    pub(crate) fn takes(&self, key: &Arc<Key>) -> bool {
        let hash = &key.said.hash;
        let is_known = |shared: &Arc<Shared>| {
            shared.look(|state| {
                let known = state.known.get(hash);
                known.is_some_and(|known| Arc::ptr_eq(known, key))
            })
        };
        self.0.as_ref().is_some_and(is_known) && key.said.refused_at(SystemClock.now()).is_none()
    }
}

impl Key {
    /// Counts a request, and refuses one more than the key allows in a minute.
    pub(crate) fn count(&self) -> Result<(), Problem> {
        self.within(self.rate.as_ref())
    }

    /// Counts what cancels a run or answers the server, apart from other requests: what frees room, or was asked for, is not
    /// refused for there being too much.
    pub(crate) fn count_apart(&self) -> Result<(), Problem> {
        self.within(self.apart.as_ref())
    }

    fn within(&self, rate: Option<&Rate>) -> Result<(), Problem> {
        let Some(rate) = rate else {
            return Ok(());
        };
        rate.count().map_err(|seconds| {
            let most = self.said.requests_per_minute.map_or(0, NonZeroU32::get);
            let detail = format!(
                "this key may be used {most} times a minute; try again {}",
                in_seconds(seconds)
            );
            Problem::new(&TOO_MANY_REQUESTS, detail).retry_after(seconds)
        })
    }
}

impl Shared {
    /// Looks at what is known, after a look at the file if the last one was a while ago.
    fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= GOOD_FOR {
            self.refresh(&mut state);
            state.looked = Instant::now();
        }
        at(&state)
    }

    fn refresh(&self, state: &mut State) {
        let stamp = match FileStamp::of(self.file.path()) {
            Ok(stamp) => Ok(Some(stamp)),
            // Before there was a key there need be no file.
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
                if !state.has_complained {
                    let file = self.file.path().display();
                    tracing::error!(%file, %error, "the keys cannot be read: those that were known still count");
                }
                state.has_complained = true;
                // Once it can be read, it may look as it did before.
                state.stamp = None;
                return;
            }
        };
        state.stamp = stamp;
        state.has_complained = false;
        state.is_needed |= !read.is_empty();
        let keys = read.len();
        let read = known(read, &state.known);
        let (changed, gone) = (other_than(&read, &state.known), gone(&read, &state.known));
        tracing::info!(keys, changed, gone, "the keys were read anew");
        state.known = Arc::new(read);
    }
}

/// Finds keys by their hashes. One that is as it was before stays the same, with what was counted of it.
fn known(
    read: Vec<ServerKey>,
    before: &HashMap<ContentHash, Arc<Key>>,
) -> HashMap<ContentHash, Arc<Key>> {
    let key = |said: ServerKey| {
        let same = before.get(&said.hash).filter(|key| key.said == said);
        let key = same.cloned().unwrap_or_else(|| {
            let rate = || said.requests_per_minute.map(Rate::per_minute);
            let (rate, apart) = (rate(), rate());
            Arc::new(Key { said, rate, apart })
        });
        (key.said.hash, key)
    };
    read.into_iter().map(key).collect()
}

/// Returns the ids of keys that are new, or are not as they were before, such as one that was revoked.
fn other_than(
    read: &HashMap<ContentHash, Arc<Key>>,
    before: &HashMap<ContentHash, Arc<Key>>,
) -> Option<String> {
    let is_same = |key: &Arc<Key>| {
        let same = before.get(&key.said.hash);
        same.is_some_and(|same| Arc::ptr_eq(same, key))
    };
    ids(read.values().filter(|key| !is_same(key)))
}

/// Returns the ids of keys that are not there any more.
fn gone(
    read: &HashMap<ContentHash, Arc<Key>>,
    before: &HashMap<ContentHash, Arc<Key>>,
) -> Option<String> {
    let is_gone = |key: &&Arc<Key>| !read.contains_key(&key.said.hash);
    ids(before.values().filter(is_gone))
}

fn ids<'a>(keys: impl Iterator<Item = &'a Arc<Key>>) -> Option<String> {
    let mut ids: Vec<&str> = keys.map(|key| key.said.id.as_str()).collect();
    ids.sort_unstable();
    (!ids.is_empty()).then(|| ids.join(", "))
}

/// What a request without a key, and one with any that is not taken, is answered with.
fn needed() -> Problem {
    let detail = "this server takes requests with a key alone, one that it knows and that is neither expired nor revoked: \
                  send the header Authorization: Bearer KEY";
    Problem::new(&KEY_NEEDED, detail)
}

#[cfg(test)]
mod tests;
