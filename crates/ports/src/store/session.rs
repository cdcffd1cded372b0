//! A session, and which of them a list shows.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::Carried;
use neuraxis_core::{ContentHash, JsonText, Record, RunId, SessionId, Transcript};
use serde::Serialize;

use super::StoreError;
use super::bounds::{self, MAX_OWNER_BYTES};

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is; `None` where there is only one user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When it was made; kept to the microsecond.
    pub created_at: Timestamp,
    /// What its history begins with, where it goes on from another conversation. No part of its JSON: it may be long.
    #[serde(skip)]
    pub seed: Transcript,
}

impl Session {
    /// Describes a session of the only user.
    #[must_use]
    pub fn new(id: SessionId, created_at: Timestamp) -> Self {
        // As stores keep it, so that the one who made it is told what everybody reads.
        let kept = Timestamp::from_microsecond(created_at.as_microsecond());
        Self {
            id,
            owner: None,
            created_at: kept.unwrap_or(created_at),
            seed: Transcript::default(),
        }
    }

    /// Lets its history begin with another conversation.
    #[must_use]
    pub fn seeded(mut self, history: Transcript) -> Self {
        self.seed = history;
        self
    }

    /// Says whose it is.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Checks that every store can keep it; for implementations of [`SessionStore`](super::SessionStore).
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the owner's name is longer than [`MAX_OWNER_BYTES`] or holds a NUL.
    pub fn check(&self) -> Result<(), StoreError> {
        let rule = "at most 1024 bytes, without NUL";
        let owner = self.owner.as_deref().unwrap_or_default();
        bounds::check_text("owner", owner, MAX_OWNER_BYTES, rule)
    }

    /// Returns the start of the hash chain over this session's records: the hash of the session itself.
    #[must_use]
    pub fn chain_start(&self) -> ContentHash {
        let created_at = self.created_at.as_microsecond();
        let seed = JsonText::encode(&self.seed);
        let header = JsonText::encode(&(self.id.as_str(), &self.owner, created_at, seed.ok()));
        let hash = header.map_or(ContentHash::EMPTY, |header| header.hash());
        ContentHash::EMPTY.chain(hash)
    }
}

/// What the next run of a session goes on from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Standing {
    /// The session's last run, if that has ended; the rest is what it left. `None` while a run is at work, and where there is
    /// no run.
    pub last_run: Option<RunId>,
    /// The messages of its ended runs.
    pub history: Transcript,
    /// What it carries from one run to the next.
    pub carried: Carried,
}

impl Standing {
    /// Describes where a session stands; for implementations of [`SessionStore`](super::SessionStore).
    #[must_use]
    pub const fn new(last_run: Option<RunId>, history: Transcript, carried: Carried) -> Self {
        Self {
            last_run,
            history,
            carried,
        }
    }
}

/// Where the hash chain of a session stands. Whoever keeps it elsewhere can tell later that nothing was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainHead {
    /// How many records it covers.
    pub records: u64,
    /// The chained hash of the session and all of its records, in their order.
    pub hash: ContentHash,
}

impl ChainHead {
    /// Begins the chain of a session.
    #[must_use]
    pub fn start(session: &Session) -> Self {
        Self::new(0, session.chain_start())
    }

    /// Makes a head.
    #[must_use]
    pub const fn new(records: u64, hash: ContentHash) -> Self {
        Self { records, hash }
    }

    /// Returns the head after one more record, given as one line of JSON without its line break.
    #[must_use]
    pub fn with(self, line: &[u8]) -> Self {
        self.with_hash(ContentHash::of(line))
    }

    /// Returns the head after one more record, given as the hash of its line.
    #[must_use]
    pub fn with_hash(self, hash: ContentHash) -> Self {
        Self::new(self.records.saturating_add(1), self.hash.chain(hash))
    }

    /// Returns the head after more records.
    #[must_use]
    pub fn with_records<'a>(self, records: impl IntoIterator<Item = &'a Record>) -> Self {
        let with = |head: Self, record: &Record| head.with(record.to_json().as_bytes());
        records.into_iter().fold(self, with)
    }
}

/// A head that was noted elsewhere, which is looked for while the chain of a session is followed: a session that went on since
/// still had it, and one that was cut off or made anew did not. For implementations of
/// [`SessionIndex`](super::SessionIndex).
#[derive(Debug, Clone, Copy)]
pub struct ExpectedHead {
    hash: Option<ContentHash>,
    was_met: bool,
}

impl ExpectedHead {
    /// Looks for a head from the start of a chain on; `None` where none was noted.
    #[must_use]
    pub fn new(hash: Option<ContentHash>, start: ChainHead) -> Self {
        let was_met = hash.is_none_or(|hash| hash == start.hash);
        Self { hash, was_met }
    }

    /// Takes in the head after one more record.
    pub fn pass(&mut self, head: ChainHead) {
        self.was_met |= self.hash == Some(head.hash);
    }

    /// Returns the end of the chain.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if the chain never had the head that was noted.
    pub fn met(self, end: ChainHead) -> Result<ChainHead, StoreError> {
        match self.hash {
            Some(expected) if !self.was_met => Err(StoreError::Damaged(format!(
                "the chain of the session ends with {} after {} records, and never had the head {expected}",
                end.hash, end.records
            ))),
            _ => Ok(end),
        }
    }
}

/// Which sessions a list shows, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionFilter {
    /// Only those of this owner; those of all if `None`.
    pub owner: Option<String>,
    /// Only those whose ids begin with this; all if empty.
    pub prefix: String,
    /// How many at the most.
    pub limit: usize,
    /// Only those that a list shows after this one: the last of the page before.
    pub before: Option<SessionCursor>,
}

/// The place of a session in a list: by the time it was made, and of one time by its id, the greatest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionCursor {
    /// When it was made.
    pub created_at: Timestamp,
    /// Its id.
    pub id: SessionId,
}

impl SessionCursor {
    /// Returns the place of a session.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        Self {
            created_at: session.created_at,
            id: session.id.clone(),
        }
    }
}

impl SessionFilter {
    /// The most sessions of one page.
    pub const MAX_LIMIT: usize = 1_000;

    /// Shows only those of an owner.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Shows only those whose ids begin with a text.
    #[must_use]
    pub fn beginning_with(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Shows so many at the most.
    #[must_use]
    pub const fn limited_to(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Shows the page after the one that ended with this session.
    #[must_use]
    pub fn after(mut self, last: &Session) -> Self {
        self.before = Some(SessionCursor::of(last));
        self
    }

    /// Tells whether a session is shown, as far as the limit allows.
    #[must_use]
    pub fn shows(&self, session: &Session) -> bool {
        let owned = self.owner.is_none() || self.owner == session.owner;
        let named = session.id.as_str().starts_with(&self.prefix);
        let before = self.before.as_ref();
        owned && named && before.is_none_or(|before| SessionCursor::of(session) < *before)
    }
}

impl Default for SessionFilter {
    /// The newest [`MAX_LIMIT`](Self::MAX_LIMIT) of all owners.
    fn default() -> Self {
        Self {
            owner: None,
            prefix: String::new(),
            limit: Self::MAX_LIMIT,
            before: None,
        }
    }
}

/// Whose use is added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageOf {
    /// That of one session.
    Session(SessionId),
    /// That of all sessions of an owner; of those without one if `None`.
    Owner(Option<String>),
}
