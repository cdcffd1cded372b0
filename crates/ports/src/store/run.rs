//! A run as a store reports it, without its records.

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

/// A run to begin, or to begin again.
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
    /// The session that is reserved for the run.
    pub session: SessionId,
    /// The id of the run: a new one, or that of a run of the session that has not ended.
    pub run: RunId,
    /// The request for which it begins, if that has an idempotency key.
    pub request: Option<KeyedRequest>,
    /// The session itself, if it is created together with the run.
    pub new_session: Option<Session>,
    /// The session's last run, if this run's records continue from its end: if another run came after that one, this
    /// one is refused.
    pub after: Option<RunId>,
    /// The records of its first step, if they are stored with it, all or none.
    pub records: Vec<Arc<Record>>,
    /// Whether its records come from elsewhere: [`RunSummary::imported`] reports this until the run is begun again
    /// without it.
    pub imported: bool,
}

impl RunStart {
    /// Creates a run for a request without a key.
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

    /// Creates a run whose session is created together with it, both or neither.
    #[must_use]
    pub fn in_new_session(session: Session, run: RunId) -> Self {
        let mut start = Self::new(session.id.clone(), run);
        start.new_session = Some(session);
        start
    }

    /// Creates a run that continues what another run left, which was the session's last one when it was read.
    #[must_use]
    pub const fn after(session: SessionId, run: RunId, last: RunId) -> Self {
        let mut start = Self::new(session, run);
        start.after = Some(last);
        start
    }

    /// Stores the records of the run's first step together with it.
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

    /// Marks the run's records as coming from elsewhere.
    #[must_use]
    pub const fn imported(mut self) -> Self {
        self.imported = true;
        self
    }
}

/// The part of a request with an idempotency key that is needed to recognize it when it is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedRequest {
    /// The hash of its key; the key itself is the client's own text.
    pub key: ContentHash,
    /// What was requested, in any form that the caller can compare: hashes, not the text itself.
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
    /// Increases with every lease of the session, so a stalled holder that resumes cannot write.
    pub token: u64,
    /// How long the lease lasts from each time that it is requested from the store. A holder that has had no response
    /// from the store for this long must do nothing more under the lease.
    pub length: Duration,
}

impl RunLease {
    /// Creates a lease; for implementations of [`SessionStore`](super::SessionStore).
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

/// A summary of a run: what its records say, and what else the store knows about it. Dereferences to the summary of its
/// log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session: SessionId,
    /// The owner of the session; `None` if it has none. Other owners are denied access to the run on this basis.
    pub owner: Option<String>,
    /// What its records say.
    pub log: LogSummary,
    /// Whether its inbox holds anything.
    pub has_mail: bool,
    /// Whether its last holder released it. Otherwise a run that no process drives was left by a process that died or
    /// stalled, or that [let its lease expire](super::RunLog::expire).
    pub released: bool,
    /// Whether it was imported and has not been begun again since, so its log was written elsewhere. Also set for a run
    /// that has ended.
    pub imported: bool,
    /// When its lease ends, by the clock of the store: until then only its holder can begin it again. `None` if the run
    /// has no holder: it has ended, was released, or its lease has expired.
    pub leased_until: Option<Timestamp>,
    /// The request for which it began, if that had an idempotency key.
    pub request: Option<KeyedRequest>,
}

impl RunSummary {
    /// Creates the summary of a run of which nothing has been recorded yet.
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

    /// Returns whether the run ended before a time.
    #[must_use]
    pub fn ended_before(&self, time: Timestamp) -> bool {
        self.log.ended_at.is_some_and(|end| end < time)
    }

    /// Returns whether the run can continue immediately if no process drives it: it is not waiting, or its inbox holds
    /// something.
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
    /// The owner of the session; left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    /// Whether it is in progress or waits, or how it ended.
    status: RunStatus,
    /// Why it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a FinishReason>,
    /// What it waits for.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pending: &'a [Pending],
    /// The beginning of the user's message, at most 120 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// When its first record was created.
    started_at: Option<Timestamp>,
    /// When its latest record was created.
    last_at: Option<Timestamp>,
    /// When it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    /// The turns that counted.
    turns: u32,
    /// The number of its records.
    records: u64,
    /// Its calls, tokens, cost and time.
    used: &'a SessionMetrics,
    /// Whether its records come from elsewhere.
    imported: bool,
}

/// As JSON it is what a list of runs shows, whatever a store keeps of it: `cost_micro_usd` and similar values are in
/// `used`.
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
    /// Only runs of this session; all sessions if `None`.
    pub session: Option<SessionId>,
    /// Only runs of this owner's sessions; all owners if `None`.
    pub owner: Option<String>,
    /// No runs with smaller ids.
    pub first: RunId,
    /// No runs with greater ids.
    pub last: RunId,
    /// Only the run of a session that holds the key with this hash; all if `None`.
    pub key: Option<ContentHash>,
    /// The maximum number of runs.
    pub limit: usize,
}

impl RunFilter {
    /// The maximum number of runs on one page.
    pub const MAX_LIMIT: usize = 1_000;

    /// Limits the list to runs whose ids begin with a prefix; `None` if no id can begin with it.
    #[must_use]
    pub fn beginning_with(prefix: &str) -> Option<Self> {
        /// The number of digits of an id.
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

    /// Limits the list to one run.
    #[must_use]
    pub fn exactly(run: RunId) -> Self {
        Self {
            first: run,
            last: run,
            ..Self::default()
        }
    }

    /// Limits the list to the run of a session that began under a key, given as its hash.
    #[must_use]
    pub fn under_key(session: SessionId, key: ContentHash) -> Self {
        Self {
            session: Some(session),
            key: Some(key),
            ..Self::default()
        }
    }

    /// Limits the list to the runs of a session.
    #[must_use]
    pub fn of_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Limits the list to the runs of an owner's sessions.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Limits the number of runs.
    #[must_use]
    pub const fn limited_to(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Selects the page after the one that ended with this run.
    #[must_use]
    pub fn after(mut self, last: RunId) -> Self {
        match last.0.as_u128().checked_sub(1) {
            Some(before) => self.last = self.last.min(run_of(before)),
            None => self.limit = 0,
        }
        self
    }

    /// Returns whether a run is shown, regardless of the limit: by its id, and by the request for which it began.
    /// Session and owner are not checked here: the store checks them itself.
    #[must_use]
    pub fn shows(&self, run: RunId, request: Option<&KeyedRequest>) -> bool {
        let holds = |key: ContentHash| request.is_some_and(|it| it.key == key);
        self.key.is_none_or(holds) && (self.first..=self.last).contains(&run)
    }
}

impl Default for RunFilter {
    /// The newest [`MAX_LIMIT`](Self::MAX_LIMIT) runs of all sessions.
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
