//! A step as stored: its records as JSON Lines, except long ones, which are separate payloads.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::log::Carried;
use neuraxis_core::{ContentHash, InputId, Record, Seq};
use neuraxis_ports::{ChainHead, Ending, RunLease, RunSize, RunStart, StoreError};

/// The maximum size in bytes of a record stored inline. A longer one is a payload, named by its hash.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Begins a line that holds the hash of a record. A record begins with a brace.
const PAYLOAD: u8 = b'@';

/// A step on its way to the database.
#[derive(Debug)]
pub(crate) struct EncodedStep {
    pub(crate) lease: RunLease,
    pub(crate) records: Vec<Arc<Record>>,
    /// The lines, each with its line break.
    pub(crate) body: Vec<u8>,
    /// The hash of each line, payloads included.
    hashes: Vec<ContentHash>,
    /// Its long records.
    pub(crate) payloads: Vec<(ContentHash, Vec<u8>)>,
    /// The length of the lines, payloads included.
    pub(crate) bytes: u64,
    pub(crate) ending: Ending,
    /// The inbox entries that the step takes.
    pub(crate) taken: Vec<InputId>,
    /// Whether it may change what its session carries.
    pub(crate) carries: bool,
}

impl EncodedStep {
    /// Encodes the records of a commit, which must be consecutive.
    pub(crate) fn new(lease: &RunLease, records: &[Arc<Record>]) -> Result<Self, StoreError> {
        let stale = || StoreError::Stale(lease.run);
        let mut step = Self {
            lease: lease.clone(),
            records: records.to_vec(),
            body: Vec::with_capacity(records.len() * 512),
            hashes: Vec::with_capacity(records.len()),
            payloads: Vec::new(),
            bytes: 0,
            ending: Ending::Continues,
            taken: Vec::new(),
            carries: false,
        };
        let mut next = records.first().map(|record| record.seq);
        for record in records {
            // No record follows the end of a run.
            if record.run_id != lease.run || next != Some(record.seq) || step.ending == Ending::Ends
            {
                return Err(stale());
            }
            next = Some(record.seq.next());
            step.push(record)?;
        }
        Ok(step)
    }

    /// Encodes the first records of a run, which has no lease yet; `None` if there are none.
    pub(crate) fn first(start: &RunStart) -> Result<Option<Self>, StoreError> {
        let Some(first) = start.records.first() else {
            return Ok(None);
        };
        if first.seq != Seq(1) {
            return Err(StoreError::Stale(start.run));
        }
        let none = RunLease::new(start.session.clone(), start.run, 0, Duration::ZERO);
        Self::new(&none, &start.records).map(Some)
    }

    /// Returns the size of the run with this step, given its size without it.
    pub(crate) fn added_to(&self, size: RunSize) -> RunSize {
        let records = u64::try_from(self.records.len()).unwrap_or(u64::MAX);
        size.with(records, self.bytes)
    }

    fn push(&mut self, record: &Record) -> Result<(), StoreError> {
        let start = self.body.len();
        write_line(&mut self.body, record)?;
        let line = self.body.get(start..).unwrap_or_default();
        let hash = ContentHash::of(line);
        self.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        self.hashes.push(hash);
        if line.len() > MAX_INLINE_BYTES {
            self.payloads.push((hash, self.body.split_off(start)));
            self.body.push(PAYLOAD);
            self.body.extend_from_slice(hash.to_string().as_bytes());
        }
        self.body.push(b'\n');
        if record.ends_the_run() {
            self.ending = Ending::Ends;
        }
        self.taken.extend(record.inbox_id());
        self.carries |= Carried::default().apply(record);
        Ok(())
    }

    /// Returns the sequence numbers of its first and last record.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        Some((self.records.first()?.seq.0, self.records.last()?.seq.0))
    }

    /// Returns the head of the chain after this step.
    pub(crate) fn chained(&self, head: ChainHead) -> ChainHead {
        self.hashes.iter().copied().fold(head, ChainHead::with_hash)
    }
}

/// Writes a record as one line, without its line break.
pub(crate) fn write_line(text: &mut Vec<u8>, record: &Record) -> Result<(), StoreError> {
    let start = text.len();
    serde_json::to_writer(&mut *text, record).map_err(|_| StoreError::Invalid {
        what: "record",
        rule: "one that can be written as JSON",
    })?;
    let line = text.get_mut(start..).unwrap_or_default();
    // In JSON a line break can only be whitespace between tokens, so a space means the same.
    for byte in line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    Ok(())
}

/// A line of a stored step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A record.
    Record(&'a [u8]),
    /// The hash of a record stored as a payload.
    Payload(ContentHash),
}

/// Returns the lines of a stored step; `None` for one that is neither a record nor a hash.
pub(crate) fn lines(body: &[u8]) -> impl Iterator<Item = Option<Line<'_>>> {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    body.split(|byte| *byte == b'\n')
        .map(|line| match line.split_first() {
            Some((&PAYLOAD, hash)) => hash_of_text(hash).map(Line::Payload),
            Some((b'{', _)) => Some(Line::Record(line)),
            _ => None,
        })
}

/// Parses a hash from its hexadecimal digits.
fn hash_of_text(text: &[u8]) -> Option<ContentHash> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
