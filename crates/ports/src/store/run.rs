//! A run as a store tells of it, without its records.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::LogSummary;
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{
    ContentHash, FinishReason, JsonText, Pending, Record, RunId, RunStatus, SessionId,
    SessionMetrics,
};
use serde::{Serialize, Serializer};

use super::Session;

/// A run that is to begin, or to begin again.
///
/// ```
/// use neuraxis_core::{ContentHash, JsonText, RunId, uuid};
/// use neuraxis_ports::{KeyedRequest, RunStart};
///
/// let (session, run) = ("main".parse()?, RunId(uuid::Uuid::nil()));
/// let request = KeyedRequest::new(ContentHash::of(b"booking-17"), JsonText::string("book it"));
/// let start = RunStart::new(session, run).for_request(request);
/// assert!(start.request.is_some() && !start.imported);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunStart {
    /// The session that is reserved for it.
    pub session: SessionId,
    /// Its id: a new one, or that of a run of the session that has not ended.
    pub run: RunId,
    /// The request that it is begun for, where that has an idempotency key.
    pub request: Option<KeyedRequest>,
    /// The session itself, where that is made with the run.
    pub new_session: Option<Session>,
    /// The last run of the session, where its records go on from the end of that: if another one came after it, this one is
    /// refused.
    pub after: Option<RunId>,
    /// The records of its first step, where they are kept with it, all or nothing.
    pub records: Vec<Arc<Record>>,
    /// Whether its records come from elsewhere: [`RunSummary::imported`] says so until it is begun again without this.
    pub imported: bool,
}

impl RunStart {
    /// Describes a run of a request without a key.
    #[must_use]
    pub const fn new(session: SessionId, run: RunId) -> Self {
        Self {
            session,
            run,
            request: None,
            new_session: None,
            after: None,
            records: Vec::new(),
            imported: false,
        }
    }

    /// Describes a run whose session is made with it, all or nothing.
    #[must_use]
    pub fn in_new_session(session: Session, run: RunId) -> Self {
        let mut start = Self::new(session.id.clone(), run);
        start.new_session = Some(session);
        start
    }

    /// Describes a run that goes on from what another one left, which was the last one of the session when it was read.
    #[must_use]
    pub const fn after(session: SessionId, run: RunId, last: RunId) -> Self {
        let mut start = Self::new(session, run);
        start.after = Some(last);
        start
    }

    /// Keeps the records of the run's first step with it.
    #[must_use]
    pub fn with_records(mut self, records: Vec<Arc<Record>>) -> Self {
        self.records = records;
        self
    }

    /// Lets the run hold the key of a request.
    #[must_use]
    pub fn for_request(mut self, request: KeyedRequest) -> Self {
        self.request = Some(request);
        self
    }

    /// Marks the run as one whose records come from elsewhere.
    #[must_use]
    pub const fn imported(mut self) -> Self {
        self.imported = true;
        self
    }
}

/// A request with an idempotency key, as far as it takes to know it when it is made again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedRequest {
    /// The hash of its key; the key itself is a client's own text.
    pub key: ContentHash,
    /// What it asked, in whatever form the caller can compare: hashes, not the text itself.
    pub asked: JsonText,
}

impl KeyedRequest {
    /// Describes a request.
    #[must_use]
    pub const fn new(key: ContentHash, asked: JsonText) -> Self {
        Self { key, asked }
    }
}

/// The right to write the records of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunLease {
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// Grows with every lease of the session, so that a stalled holder that comes back cannot write.
    pub token: u64,
    /// How long it lasts from each time that the store is asked for it: who holds it and has heard nothing of the store for
    /// as long does nothing more in its name.
    pub length: Duration,
}

impl RunLease {
    /// Makes a lease; for implementations of [`SessionStore`](super::SessionStore).
    #[must_use]
    pub const fn new(session: SessionId, run: RunId, token: u64, length: Duration) -> Self {
        Self {
            session,
            run,
            token,
            length,
        }
    }
}

/// A run in a few words: what its records say, which it can be read as, and what the store knows beside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session: SessionId,
    /// Whose that is; `None` where it is nobody's. By this the run is kept from other owners.
    pub owner: Option<String>,
    /// What its records say.
    pub log: LogSummary,
    /// Whether something waits in its inbox.
    pub has_mail: bool,
    /// Whether its last holder gave it back: a run that is left otherwise was left by a process that died or stalled, or that
    /// [let its lease run out](super::RunLog::expire).
    pub released: bool,
    /// Whether it was imported and nobody has begun it again since: what its log says was written elsewhere. One that has
    /// ended says so, too.
    pub imported: bool,
    /// Until when its lease lasts, by the clock of the store: before that, nobody but its holder can begin it again.
    /// `None` if nobody holds the run: it has ended, was given back, or its lease has run out.
    pub leased_until: Option<Timestamp>,
    /// The request that it was begun for, where that had an idempotency key.
    pub request: Option<KeyedRequest>,
}

impl RunSummary {
    /// A run of which nothing was recorded yet.
    #[must_use]
    pub fn new(run_id: RunId, session: SessionId) -> Self {
        Self {
            run_id,
            session,
            owner: None,
            log: LogSummary::default(),
            has_mail: false,
            released: false,
            imported: false,
            leased_until: None,
            request: None,
        }
    }

    /// Tells whether the run had ended before a time.
    #[must_use]
    pub fn ended_before(&self, time: Timestamp) -> bool {
        self.log.ended_at.is_some_and(|end| end < time)
    }

    /// Tells whether the run can go on at once, if nobody drives it: it waits for nobody, or something was posted to it.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.log.status != RunStatus::Waiting || self.has_mail
    }
}

/// A run as a list shows it, whatever a store keeps of it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Shown<'a> {
    /// The run.
    run_id: RunId,
    /// Its session.
    session_id: &'a SessionId,
    /// Whose that is; left out where it is nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    /// Whether it is at work, waits, or how it ended.
    status: RunStatus,
    /// Why it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a FinishReason>,
    /// What it waits for.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pending: &'a [Pending],
    /// The beginning of the user's message, at most 120 characters of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// When its first record was made.
    started_at: Option<Timestamp>,
    /// When the latest of its records was made.
    last_at: Option<Timestamp>,
    /// When it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    /// Turns that counted.
    turns: u32,
    /// How many records it has.
    records: u64,
    /// Its calls, tokens, money and time.
    used: &'a SessionMetrics,
    /// Whether its records come from elsewhere.
    imported: bool,
}

/// As JSON it is what a list of runs shows, whatever a store keeps: `cost_micro_usd` and the like stand in `used`.
impl Serialize for RunSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Shown {
            run_id: self.run_id,
            session_id: &self.session,
            owner: self.owner.as_deref(),
            status: self.status,
            finish_reason: self.finish_reason.as_ref(),
            pending: &self.pending,
            text: self.text.as_deref(),
            started_at: self.started_at,
            last_at: self.last_at,
            ended_at: self.ended_at,
            turns: self.turns,
            records: self.records,
            used: self.meter.used(),
            imported: self.imported,
        }
        .serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RunSummary {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RunSummary".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Shown::json_schema(generator)
    }
}

impl Deref for RunSummary {
    type Target = LogSummary;

    fn deref(&self) -> &LogSummary {
        &self.log
    }
}

/// Which runs a list shows, and how many.
///
/// ```
/// use neuraxis_ports::RunFilter;
///
/// let filter = RunFilter::beginning_with("0199-f").expect("hexadecimal digits");
/// assert_eq!(filter.first.to_string(), "0199f000-0000-0000-0000-000000000000");
/// assert_eq!(filter.last.to_string(), "0199ffff-ffff-ffff-ffff-ffffffffffff");
/// assert!(RunFilter::beginning_with("x").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFilter {
    /// Only those of this session; those of all if `None`.
    pub session: Option<SessionId>,
    /// Only those of this owner's sessions; those of all if `None`.
    pub owner: Option<String>,
    /// None with a smaller id.
    pub first: RunId,
    /// None with a greater id.
    pub last: RunId,
    /// Only the one of a session that holds this key, by its hash; all if `None`.
    pub key: Option<ContentHash>,
    /// How many at the most.
    pub limit: usize,
}

impl RunFilter {
    /// The most runs of one page.
    pub const MAX_LIMIT: usize = 1_000;

    /// Shows only those whose ids begin with a text; `None` for one that no id begins with.
    #[must_use]
    pub fn beginning_with(prefix: &str) -> Option<Self> {
        /// How many digits an id has.
        const DIGITS: usize = 32;
        let digits: String = prefix.chars().filter(|letter| *letter != '-').collect();
        if digits.len() > DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let filled = |with: &str| {
            let text = digits.clone() + &with.repeat(DIGITS - digits.len());
            u128::from_str_radix(&text, 16).ok().map(run_of)
        };
        Some(Self {
            first: filled("0")?,
            last: filled("f")?,
            ..Self::default()
        })
    }

    /// Shows one run.
    #[must_use]
    pub fn exactly(run: RunId) -> Self {
        Self {
            first: run,
            last: run,
            ..Self::default()
        }
    }

    /// Shows only the run of a session that was begun under a key, given as its hash.
    #[must_use]
    pub fn under_key(session: SessionId, key: ContentHash) -> Self {
        Self {
            session: Some(session),
            key: Some(key),
            ..Self::default()
        }
    }

    /// Shows only those of a session.
    #[must_use]
    pub fn of_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Shows only those of an owner's sessions.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Shows so many at the most.
    #[must_use]
    pub const fn limited_to(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Shows the page after the one that ended with this run.
    #[must_use]
    pub fn after(mut self, last: RunId) -> Self {
        match last.0.as_u128().checked_sub(1) {
            Some(before) => self.last = self.last.min(run_of(before)),
            None => self.limit = 0,
        }
        self
    }

    /// Tells whether a run is shown, as far as the limit allows: by its id, and the request that it was begun for. Whose it is,
    /// a run does not say: the store looks at its session, and at the owner of that, besides.
    #[must_use]
    pub fn shows(&self, run: RunId, request: Option<&KeyedRequest>) -> bool {
        let holds = |key: ContentHash| request.is_some_and(|it| it.key == key);
        self.key.is_none_or(holds) && (self.first..=self.last).contains(&run)
    }
}

impl Default for RunFilter {
    /// The newest [`MAX_LIMIT`](Self::MAX_LIMIT) of all sessions.
    fn default() -> Self {
        Self {
            session: None,
            owner: None,
            first: run_of(u128::MIN),
            last: run_of(u128::MAX),
            key: None,
            limit: Self::MAX_LIMIT,
        }
    }
}

const fn run_of(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}
