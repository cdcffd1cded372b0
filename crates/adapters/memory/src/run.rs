//! One run: its records, its lease and its inbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::LogSummary;
use neuraxis_core::{
    ContentHash, InboxEntry, InputId, Record, RunId, RunMeter, RunStatus, Seq, SessionId,
    SessionMetrics, ToolCallId,
};
use neuraxis_ports::{
    Ending, KeyedRequest, LongOutput, MAX_INBOX_ENTRIES, OutputHead, RunBounds, RunFilter,
    RunLease, RunSize, RunStart, RunSummary, StoreError, check_input,
};

#[derive(Debug)]
pub(crate) struct Run {
    id: RunId,
    session: SessionId,
    /// The owner of its session.
    owner: Option<String>,
    token: u64,
    /// When the lease expires; `None` if no process holds it.
    lease: Option<LeaseEnd>,
    records: Vec<Arc<Record>>,
    /// The number of records when it was last checked whether the run waits, and the result of that check.
    waited: (usize, bool),
    bytes: u64,
    inbox: Vec<StoredInboxEntry>,
    /// The long outputs of its calls.
    outputs: BTreeMap<ToolCallId, LongOutput>,
    /// Whether the run was imported and has not been begun again since.
    imported: bool,
    /// The request that began the run, if it had a key.
    request: Option<KeyedRequest>,
}

/// When a lease expires.
#[derive(Debug, Clone, Copy)]
struct LeaseEnd {
    /// On the monotonic clock.
    at: Instant,
    /// The time that other processes are given.
    reported: Timestamp,
}

impl LeaseEnd {
    /// Returns the end of a lease that begins now; `None` if the time is out of range.
    fn after(lease: Duration) -> Option<Self> {
        let now = Timestamp::UNIX_EPOCH.checked_add(UNIX_EPOCH.elapsed().ok()?);
        Some(Self {
            at: Instant::now().checked_add(lease)?,
            reported: now.ok()?.checked_add(lease).ok()?,
        })
    }

    fn is_over(&self) -> bool {
        self.at <= Instant::now()
    }
}

/// An inbox entry. Once taken, only what is needed to recognize it again remains.
#[derive(Debug)]
struct StoredInboxEntry {
    id: InputId,
    hash: ContentHash,
    entry: Option<InboxEntry>,
}

impl Run {
    pub(crate) fn new(start: &RunStart) -> Self {
        Self {
            id: start.run,
            session: start.session.clone(),
            owner: None,
            token: 0,
            lease: None,
            records: Vec::new(),
            waited: (0, false),
            bytes: 0,
            inbox: Vec::new(),
            outputs: BTreeMap::new(),
            imported: false,
            request: start.request.clone(),
        }
    }

    /// Sets the owner of its session.
    pub(crate) fn owned_by(&mut self, owner: Option<String>) {
        self.owner = owner;
    }

    pub(crate) const fn id(&self) -> RunId {
        self.id
    }

    /// Returns the token of its latest lease.
    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    pub(crate) const fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) fn records(&self) -> &[Arc<Record>] {
        &self.records
    }

    pub(crate) fn records_after(&self, after: Seq) -> &[Arc<Record>] {
        let start = self.records.partition_point(|record| record.seq <= after);
        self.records.get(start..).unwrap_or_default()
    }

    /// Returns whether its records come from elsewhere: the run was imported and has not been begun again since.
    pub(crate) const fn is_imported(&self) -> bool {
        self.imported
    }

    /// Leases the run to a new holder.
    pub(crate) fn lease_to(&mut self, token: u64, lease: Duration, imported: bool) {
        self.token = token;
        self.lease = LeaseEnd::after(lease);
        self.imported = imported;
    }

    /// Returns whether a filter shows the run, apart from the filter's session and owner.
    pub(crate) fn matches_filter(&self, filter: &RunFilter) -> bool {
        filter.shows(self.id, self.request.as_ref())
    }

    /// Returns whether the run was begun for a request with the key that has this hash.
    pub(crate) fn holds(&self, key: ContentHash) -> bool {
        self.request
            .as_ref()
            .is_some_and(|request| request.key == key)
    }

    /// Restarts the lease's time.
    pub(crate) fn renew(&mut self, lease: Duration) -> Result<(), StoreError> {
        if self.lease.is_none() || self.has_ended() {
            return Err(StoreError::Stale(self.id));
        }
        self.lease = LeaseEnd::after(lease);
        Ok(())
    }

    pub(crate) const fn release(&mut self) {
        self.lease = None;
    }

    pub(crate) fn expire(&mut self) {
        self.lease = self.lease.and_then(|_| LeaseEnd::after(Duration::ZERO));
    }

    /// Returns whether the lease is the latest one of this run.
    pub(crate) fn is_leased_by(&self, lease: &RunLease) -> bool {
        self.session == lease.session && self.token == lease.token
    }

    /// Returns whether the run has not ended and no process drives it.
    pub(crate) fn is_undriven(&self) -> bool {
        !self.has_ended() && self.lease.is_none_or(|lease| lease.is_over())
    }

    /// Returns whether the run can continue now. While it waits, which may take long, its records are read only once.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.has_mail() {
            return true;
        }
        let records = self.records.len();
        if self.waited.0 != records {
            let status = LogSummary::of(&self.records).status;
            self.waited = (records, status == RunStatus::Waiting);
        }
        !self.waited.1
    }

    fn has_ended(&self) -> bool {
        self.records
            .last()
            .is_some_and(|record| record.ends_the_run())
    }

    pub(crate) fn ended_before(&self, time: Timestamp) -> bool {
        let last = self.records.last();
        last.is_some_and(|last| last.ends_the_run() && last.at < time)
    }

    /// Appends all of the records or none, and returns whether they end the run.
    pub(crate) fn commit(
        &mut self,
        records: &[Arc<Record>],
        bounds: &RunBounds,
        lease: Duration,
    ) -> Result<Ending, StoreError> {
        let ending = match records.last() {
            Some(last) if last.ends_the_run() => Ending::Ends,
            _ => Ending::Continues,
        };
        if self.has_just_appended(records) {
            return Ok(ending);
        }
        if self.has_ended() || self.lease.is_none() || !self.is_followed_by(records) {
            return Err(StoreError::Stale(self.id));
        }
        let weight = records.iter().map(|record| record.weight()).sum();
        let before = self.size();
        let after = before.with(records.len().try_into().unwrap_or(u64::MAX), weight);
        // An imported log may already have used the room that is reserved for its end.
        let room = match self.imported {
            true => Ending::Ends,
            false => ending,
        };
        after.check(bounds, self.id, room)?;
        if after.has_crossed(before, bounds) {
            tracing::warn!(run = %self.id, records = after.records, bytes = after.bytes, "a run is getting long");
        }
        self.records.extend(records.iter().cloned());
        self.bytes = after.bytes;
        self.remove_handled(records, ending);
        self.lease = LeaseEnd::after(lease);
        Ok(ending)
    }

    fn size(&self) -> RunSize {
        RunSize {
            records: self.records.len().try_into().unwrap_or(u64::MAX),
            bytes: self.bytes,
        }
    }

    /// Returns whether exactly these records were appended last: the commit is repeated because its answer was lost.
    fn has_just_appended(&self, records: &[Arc<Record>]) -> bool {
        !records.is_empty() && self.records.ends_with(records)
    }

    /// Returns whether the records directly follow those that are stored.
    fn is_followed_by(&self, records: &[Arc<Record>]) -> bool {
        let mut last = self
            .records
            .last()
            .map(|record| record.seq)
            .unwrap_or_default();
        let mut has_ended = false;
        records.iter().all(|record| {
            let follows = record.run_id == self.id && record.seq == last.next() && !has_ended;
            last = record.seq;
            has_ended = record.ends_the_run();
            follows
        })
    }

    pub(crate) fn post(&mut self, entry: &InboxEntry) -> Result<(), StoreError> {
        let hash = ContentHash::of(check_input(entry)?.as_bytes());
        if let Some(known) = self.inbox.iter().find(|posted| posted.id == entry.id) {
            let (run, id) = (self.id, entry.id.clone());
            let is_same = known.hash == hash;
            return is_same
                .then_some(())
                .ok_or(StoreError::InputReused { run, id });
        }
        if self.has_ended() {
            return Err(StoreError::RunEnded(self.id));
        }
        let waiting = self.inbox.iter().filter(|posted| posted.entry.is_some());
        if waiting.count() >= MAX_INBOX_ENTRIES {
            return Err(StoreError::InboxFull(self.id));
        }
        self.inbox.push(StoredInboxEntry {
            id: entry.id.clone(),
            hash,
            entry: Some(entry.clone()),
        });
        Ok(())
    }

    pub(crate) fn inbox(&self) -> Vec<InboxEntry> {
        let waiting = self.inbox.iter();
        waiting.filter_map(|posted| posted.entry.clone()).collect()
    }

    pub(crate) fn settle(&mut self, ids: &[InputId]) {
        let settled = self.inbox.iter_mut();
        settled
            .filter(|posted| ids.contains(&posted.id))
            .for_each(|posted| posted.entry = None);
    }

    /// Removes the inbox entries that the records contain, or all entries once the run has ended, since they will not
    /// be handled any more.
    fn remove_handled(&mut self, records: &[Arc<Record>], ending: Ending) {
        if self.inbox.is_empty() {
            return;
        }
        if ending == Ending::Ends {
            let waiting = self.inbox.iter_mut();
            waiting.for_each(|posted| posted.entry = None);
            return;
        }
        let handled: Vec<_> = records
            .iter()
            .filter_map(|record| record.inbox_id())
            .collect();
        self.settle(&handled);
    }

    /// Stores the long output of a call if there is room for it.
    pub(crate) fn keep_output(
        &mut self,
        output: &LongOutput,
        bounds: &RunBounds,
    ) -> Result<(), StoreError> {
        if self.lease.is_none() || self.has_ended() {
            return Err(StoreError::Stale(self.id));
        }
        let others = self.outputs.values().filter(|it| it.call != output.call);
        let bytes = others.chain([output]).map(|it| it.text.len() as u64).sum();
        if bytes > bounds.max_output_bytes {
            return Err(StoreError::OutputsTooLarge {
                run: self.id,
                bytes,
                most: bounds.max_output_bytes,
            });
        }
        self.outputs.insert(output.call.clone(), output.clone());
        Ok(())
    }

    pub(crate) fn outputs(&self) -> Vec<OutputHead> {
        self.outputs.values().map(LongOutput::head).collect()
    }

    /// Returns the long output of a call. The text is shared, not copied.
    pub(crate) fn output(&self, call: &ToolCallId) -> Result<LongOutput, StoreError> {
        let found = self.outputs.get(call).cloned();
        found.ok_or_else(|| StoreError::NoSuchOutput {
            run: self.id,
            call: call.clone(),
        })
    }

    /// Returns whether its inbox has an entry.
    pub(crate) fn has_mail(&self) -> bool {
        self.inbox.iter().any(|posted| posted.entry.is_some())
    }

    pub(crate) fn summary(&self) -> RunSummary {
        let mut summary = RunSummary::new(self.id, self.session.clone());
        summary.owner.clone_from(&self.owner);
        summary.log = LogSummary::of(&self.records);
        summary.request.clone_from(&self.request);
        let held = self
            .lease
            .filter(|lease| !lease.is_over() && !self.has_ended());
        summary.released = self.lease.is_none() && summary.ended_at.is_none();
        summary.imported = self.imported;
        summary.leased_until = held.map(|lease| lease.reported);
        summary.has_mail = self.has_mail();
        summary
    }

    /// Adds what was used since the given time.
    pub(crate) fn add_usage(&self, used: &mut SessionMetrics, since: Timestamp) {
        let mut meter = RunMeter::since(since);
        self.records.iter().for_each(|record| meter.read(record));
        *used += meter.used();
    }
}
