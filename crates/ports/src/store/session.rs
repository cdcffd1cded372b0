//! A session, and the filter for lists of sessions.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::Carried;
use neuraxis_core::{ContentHash, JsonText, Record, RunId, SessionId, Transcript};
use serde::Serialize;

use super::bounds::{self, MAX_OWNER_BYTES};
use super::{SessionSearch, StoreError};

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The owner; `None` if there is only one user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When it was created, to the microsecond.
    pub created_at: Timestamp,
    /// When its last run ended or, if it has not, began, to the microsecond: the time of that record. Absent if no run
    /// has a record yet. A new title changes nothing here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_active_at: Option<Timestamp>,
    /// What a person called it, at most 200 characters in one line; absent if it has no title. Not covered by the hash
    /// chain, because it may be changed at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The beginning of its history, if it continues another conversation. Not part of its JSON: it may be long.
    #[serde(skip)]
    pub seed: Transcript,
}

impl Session {
    /// Creates a session of the only user.
    #[must_use]
    pub fn new(id: SessionId, created_at: Timestamp) -> Self {
        Self {
            id,
            owner: None,
            created_at: stored_time(created_at),
            last_active_at: None,
            title: None,
            seed: Transcript::default(),
        }
    }

    /// Lets its history begin with another conversation.
    #[must_use]
    pub fn seeded(mut self, history: Transcript) -> Self {
        self.seed = history;
        self
    }

    /// Sets the owner.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets when its last run began or ended; for implementations of [`SessionStore`](super::SessionStore).
    pub fn mark_active(&mut self, at: Timestamp) {
        self.last_active_at = Some(stored_time(at));
    }

    /// Returns when something last happened in it: [`last_active_at`](Self::last_active_at), or when it was created.
    #[must_use]
    pub fn last_activity(&self) -> Timestamp {
        self.last_active_at.unwrap_or(self.created_at)
    }

    /// Checks that every store can hold it; for implementations of [`SessionStore`](super::SessionStore).
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the owner's name is longer than [`MAX_OWNER_BYTES`] or contains a NUL, or if the title
    /// is not as [`check_title`] returns it.
    pub fn check(&self) -> Result<(), StoreError> {
        let rule = "at most 1024 bytes, without NUL";
        let owner = self.owner.as_deref().unwrap_or_default();
        bounds::check_text("owner", owner, MAX_OWNER_BYTES, rule)?;
        match self.title.as_deref() {
            Some(title) if check_title(title)? != title => Err(INVALID_TITLE),
            _ => Ok(()),
        }
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

/// Returns a time with the precision of stores, so that its creator sees the same time as every reader.
fn stored_time(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// The maximum number of characters of a session's title.
pub const MAX_TITLE_CHARS: usize = 200;

const INVALID_TITLE: StoreError = StoreError::Invalid {
    what: "title",
    rule: "1 to 200 characters, not only spaces, without line breaks and other control characters",
};

/// Checks the title of a session, and returns it without the white space around it.
///
/// # Errors
///
/// [`StoreError::Invalid`] if nothing else is left, if that is longer than [`MAX_TITLE_CHARS`], or if it contains a line
/// break or another control character.
pub fn check_title(title: &str) -> Result<&str, StoreError> {
    // Unicode does not count the separators of lines and paragraphs as control characters.
    let breaks = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    let title = title.trim();
    let is_valid = (1..=MAX_TITLE_CHARS).contains(&title.chars().count());
    match is_valid && !title.contains(breaks) {
        true => Ok(title),
        false => Err(INVALID_TITLE),
    }
}

/// What the next run of a session continues from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Continuation {
    /// The session's last run, if that has ended; the other fields are what it left. `None` while a run is in progress,
    /// and if there is no run.
    pub last_run: Option<RunId>,
    /// The messages of its ended runs.
    pub history: Transcript,
    /// What it carries from one run to the next.
    pub carried: Carried,
}

impl Continuation {
    /// Creates a session's continuation; for implementations of [`SessionStore`](super::SessionStore).
    #[must_use]
    pub const fn new(last_run: Option<RunId>, history: Transcript, carried: Carried) -> Self {
        Self {
            last_run,
            history,
            carried,
        }
    }
}

/// The current head of the hash chain of a session. A head noted elsewhere can later prove that nothing was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainHead {
    /// The number of records it covers.
    pub records: u64,
    /// The chained hash of the session and all of its records, in their order.
    pub hash: ContentHash,
}

impl ChainHead {
    /// Returns the start of the chain of a session.
    #[must_use]
    pub fn start(session: &Session) -> Self {
        Self::new(0, session.chain_start())
    }

    /// Creates a head.
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

/// A head that was noted elsewhere, and is searched for while the chain of a session is followed: a session that has
/// continued since then still has it, and one that was cut off or rewritten does not. For implementations of
/// [`SessionIndex`](super::SessionIndex).
#[derive(Debug, Clone, Copy)]
pub struct ExpectedHead {
    hash: Option<ContentHash>,
    was_met: bool,
}

impl ExpectedHead {
    /// Searches for a head from the start of a chain; `None` if none was noted.
    #[must_use]
    pub fn new(hash: Option<ContentHash>, start: ChainHead) -> Self {
        let was_met = hash.is_none_or(|hash| hash == start.hash);
        Self { hash, was_met }
    }

    /// Compares the head after one more record with the one that is searched for.
    pub fn pass(&mut self, head: ChainHead) {
        self.was_met |= self.hash == Some(head.hash);
    }

    /// Returns the end of the chain.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if the chain never had the noted head.
    pub fn met(self, end: ChainHead) -> Result<ChainHead, StoreError> {
        match self.hash {
            Some(expected) if !self.was_met => Err(StoreError::Damaged(format!(
                "the session's hash chain ends with {} after {} records and never had the head {expected}",
                end.hash, end.records
            ))),
            _ => Ok(end),
        }
    }
}

/// Which sessions a list shows, in which order, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionFilter {
    /// Only sessions of this owner; all owners if `None`.
    pub owner: Option<String>,
    /// Only sessions whose ids begin with this; all if empty.
    pub prefix: String,
    /// By which time the list is sorted.
    pub order: SessionOrder,
    /// The maximum number of sessions.
    pub limit: usize,
    /// Only sessions that a list shows after this one, which is the last one of the preceding page.
    pub before: Option<SessionCursor>,
}

/// By which time a list of sessions is sorted, the latest first; sessions with the same time by id, descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionOrder {
    /// By when they were created, which never changes: pages show every session exactly once, whatever happens
    /// meanwhile. For reading all of them.
    #[default]
    Created,
    /// By their [last activity](Session::last_activity). Pages show every session exactly once unless a run of it begins
    /// or ends meanwhile, which moves it to the front: a page read later then lacks it. For lists that people read.
    LastActive,
}

/// The place of a session in a list, which is sorted by time and then by id, both descending.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionCursor {
    /// The time that the list is sorted by.
    pub at: Timestamp,
    /// The session's id.
    pub id: SessionId,
}

impl SessionCursor {
    /// Returns the place of a session in a list with this order.
    #[must_use]
    pub fn of(session: &Session, order: SessionOrder) -> Self {
        let at = match order {
            SessionOrder::Created => session.created_at,
            SessionOrder::LastActive => session.last_activity(),
        };
        Self {
            at,
            id: session.id.clone(),
        }
    }
}

impl SessionFilter {
    /// The maximum number of sessions on one page.
    pub const MAX_LIMIT: usize = 1_000;

    /// Limits the list to the sessions of an owner.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Limits the list to sessions whose ids begin with a prefix.
    #[must_use]
    pub fn beginning_with(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Limits the number of sessions.
    #[must_use]
    pub const fn limited_to(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sorts the list by the last activity of each session. To be called before [`after`](Self::after).
    #[must_use]
    pub const fn by_last_activity(mut self) -> Self {
        self.order = SessionOrder::LastActive;
        self
    }

    /// Selects the page after the one that ended with this session.
    #[must_use]
    pub fn after(mut self, last: &Session) -> Self {
        self.before = Some(SessionCursor::of(last, self.order));
        self
    }

    /// Searches the sessions of the list for a text.
    #[must_use]
    pub fn containing(self, text: &str) -> SessionSearch {
        SessionSearch::new(self, text)
    }

    /// Returns whether a session is shown, regardless of the limit.
    #[must_use]
    pub fn shows(&self, session: &Session) -> bool {
        let owned = self.owner.is_none() || self.owner == session.owner;
        let named = session.id.as_str().starts_with(&self.prefix);
        let before = self.before.as_ref();
        let is_after = |before: &SessionCursor| SessionCursor::of(session, self.order) < *before;
        owned && named && before.is_none_or(is_after)
    }
}

impl Default for SessionFilter {
    /// The newest [`MAX_LIMIT`](Self::MAX_LIMIT) sessions of all owners, by when they were created.
    fn default() -> Self {
        Self {
            owner: None,
            prefix: String::new(),
            order: SessionOrder::default(),
            limit: Self::MAX_LIMIT,
            before: None,
        }
    }
}

/// Whose usage is added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageOf {
    /// The usage of one session.
    Session(SessionId),
    /// The usage of all sessions of an owner, or of those without an owner if `None`.
    Owner(Option<String>),
}
