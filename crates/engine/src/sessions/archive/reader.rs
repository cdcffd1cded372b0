//! Reads an archive line by line, and detects everything that is not as it was written.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use neuraxis_core::{NotUtf8, Record, RecordBody, RunId};
use neuraxis_ports::{ChainHead, Session, check_title};

use serde::Deserialize;

use super::{
    ARCHIVE_FORMAT, ArchiveError, ArchiveFault, ArchivedSession, Line, MAX_LINE_BYTES, RECORD,
    RecordLine,
};

/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The entries of an archive, in order.
#[derive(Debug)]
#[non_exhaustive]
pub enum ArchiveEntry {
    /// The beginning of a session.
    Session(Session),
    /// The session's next record. The records of one run come together.
    Record(Arc<Record>),
    /// The end of the session, which is complete.
    End(ArchivedSession),
}

/// The kind of a line, whatever else the line holds.
#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

/// A reader of an archive, one line at a time.
#[derive(Debug)]
pub struct ArchiveReader<R> {
    input: R,
    line: u64,
    open: Option<Open>,
}

/// The session that is being read.
#[derive(Debug)]
struct Open {
    head: ChainHead,
    so_far: ArchivedSession,
    /// The run that is being read, and the number of its last record so far.
    run: Option<(RunId, u64)>,
}

impl<R: BufRead> ArchiveReader<R> {
    /// Creates a reader.
    pub const fn new(input: R) -> Self {
        Self {
            input,
            line: 0,
            open: None,
        }
    }

    /// Returns the current head of the hash chain of the session that is being read; `None` between two sessions.
    #[must_use]
    pub fn head(&self) -> Option<ChainHead> {
        self.open.as_ref().map(|open| open.head)
    }

    /// Returns the next entry; `None` at the end. Empty lines between sessions are skipped.
    ///
    /// # Errors
    ///
    /// An [`ArchiveError`] that names the faulty line.
    pub fn next_entry(&mut self) -> Result<Option<ArchiveEntry>, ArchiveError> {
        let entry = self.next_of_any_kind();
        entry.map_err(|fault| ArchiveError {
            line: self.line,
            fault,
        })
    }

    fn next_of_any_kind(&mut self) -> Result<Option<ArchiveEntry>, ArchiveFault> {
        loop {
            self.line += 1;
            let Some(line) = self.read()? else {
                return match self.open {
                    Some(_) => Err(ArchiveFault::CutOff),
                    None => Ok(None),
                };
            };
            if !line.trim().is_empty() || self.open.is_some() {
                return self.understand(&line).map(Some);
            }
        }
    }

    fn read(&mut self) -> Result<Option<String>, ArchiveFault> {
        let mut bytes = Vec::new();
        let mut bounded = (&mut self.input).take(MAX_LINE_BYTES + 1);
        bounded.read_until(b'\n', &mut bytes)?;
        if bounded.limit() == 0 {
            let most = MAX_LINE_BYTES;
            return Err(ArchiveFault::TooLong { most });
        }
        if self.line == 1 {
            if let Some(other) = NotUtf8::by_mark(&bytes) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, other).into());
            }
            // Some editors begin a file with a byte order mark, which is not valid JSON.
            if bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
        }
        let is_end = bytes.is_empty();
        let line = String::from_utf8(bytes);
        let line = line.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok((!is_end).then_some(line))
    }

    fn understand(&mut self, line: &str) -> Result<ArchiveEntry, ArchiveFault> {
        let Kind { kind } = serde_json::from_str(line).map_err(ArchiveFault::Unknown)?;
        if kind == RECORD {
            let line = serde_json::from_str(line).map_err(ArchiveFault::Unknown)?;
            return self.record(&line);
        }
        match serde_json::from_str(line).map_err(ArchiveFault::Unknown)? {
            Line::Session {
                format,
                id,
                owner,
                created_at,
                title,
                seed,
                head,
            } => {
                if format != ARCHIVE_FORMAT {
                    return Err(ArchiveFault::OtherFormat {
                        found: format,
                        ours: ARCHIVE_FORMAT,
                    });
                }
                let mut session = Session::new(id, created_at).seeded(seed);
                session.owner = owner;
                let title = title.as_deref().map(check_title).transpose();
                let title = title.map_err(ArchiveFault::InvalidTitle)?;
                session.title = title.map(str::to_owned);
                self.begin(session, ChainHead::new(0, head))
            }
            Line::SessionEnd {
                runs,
                records,
                head,
            } => self.end(runs, ChainHead::new(records, head)),
        }
    }

    fn begin(&mut self, session: Session, head: ChainHead) -> Result<ArchiveEntry, ArchiveFault> {
        if self.open.is_some() {
            let expected = "a record, or the end of the session";
            return Err(ArchiveFault::OutOfPlace { expected });
        }
        if ChainHead::start(&session) != head {
            return Err(ArchiveFault::Changed);
        }
        self.open = Some(Open {
            head,
            so_far: ArchivedSession {
                id: session.id.clone(),
                runs: 0,
                unfinished: None,
                head,
            },
            run: None,
        });
        Ok(ArchiveEntry::Session(session))
    }

    fn record(&mut self, line: &RecordLine<'_>) -> Result<ArchiveEntry, ArchiveFault> {
        let open = self.open.as_mut().ok_or(ArchiveFault::OutOfPlace {
            expected: "a session",
        })?;
        let text = line.record.get();
        let head = open.head.with(text.as_bytes());
        if head.hash != line.head {
            return Err(ArchiveFault::Changed);
        }
        let record = Record::from_json(text).map_err(ArchiveFault::UnknownRecord)?;
        // Fields that this version would drop must not be lost silently.
        if record.to_json() != text {
            return Err(ArchiveFault::NotRoundTrippable);
        }
        open.head = head;
        open.take(&record)?;
        Ok(ArchiveEntry::Record(Arc::new(record)))
    }

    fn end(&mut self, runs: u64, head: ChainHead) -> Result<ArchiveEntry, ArchiveFault> {
        let open = self.open.take().ok_or(ArchiveFault::OutOfPlace {
            expected: "a session",
        })?;
        if open.head != head || open.so_far.runs != runs {
            return Err(ArchiveFault::Changed);
        }
        Ok(ArchiveEntry::End(ArchivedSession {
            head,
            ..open.so_far
        }))
    }
}

impl Open {
    /// Checks that a record comes in the right place, and updates the state.
    fn take(&mut self, record: &Record) -> Result<(), ArchiveFault> {
        let found = record.seq.0;
        let last = match self.run {
            Some((run, last)) if run == record.run_id => last,
            _ => {
                self.begin_run(record)?;
                0
            }
        };
        let expected = last + 1;
        if found != expected {
            return Err(ArchiveFault::Gap { expected, found });
        }
        self.run = Some((record.run_id, found));
        if record.ends_the_run() {
            self.so_far.unfinished = None;
        }
        Ok(())
    }

    fn begin_run(&mut self, record: &Record) -> Result<(), ArchiveFault> {
        let is_ours = match &record.body {
            RecordBody::RunStarted(started) => started.session_id.as_ref() == Some(&self.so_far.id),
            _ => false,
        };
        let expected = match is_ours {
            false => Some("the first record of a run of this session"),
            // A session has only one run at a time.
            true if self.so_far.unfinished.is_some() => Some("the end of the previous run"),
            true => None,
        };
        if let Some(expected) = expected {
            return Err(ArchiveFault::OutOfPlace { expected });
        }
        self.so_far.runs += 1;
        self.so_far.unfinished = Some(record.run_id);
        Ok(())
    }
}
