//! What a session carries from one run to the next, beside its messages.
//!
//! A store updates it with each commit, so the session's next run does not have to read the records of all earlier
//! runs. A check of the records detects whether it has gone out of sync.

use serde::{Deserialize, Serialize};

use crate::citations::Source;
use crate::decision::{Grant, Grants, Taint};
use crate::json::JsonText;
use crate::record::{Record, RecordBody};

/// How far into its line the type of a record may begin, in bytes.
const HEAD_BYTES: usize = 512;

/// Maximum number of pages that a session remembers as read.
const MAX_CARRIED_SOURCES: usize = 200;

/// The types of the records that may change what a session carries: those that [`Carried::apply`] and [`Taint::read`]
/// look at.
const TYPES: [&[u8]; 5] = [
    br#""type":"run_started""#,
    br#""type":"decision""#,
    br#""type":"tool_result""#,
    br#""type":"verdict""#,
    br#""type":"plan""#,
];

/// What a session carries from one run to the next, beside its messages: a fold over the records of all of its runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Carried {
    /// The untrusted content that its runs introduced.
    pub taint: Taint,
    /// What users allowed for the session, in order.
    pub remembered: Grants,
    /// The pages that its runs read: the 200 most recent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// Its most recent plan, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<JsonText>,
}

impl Carried {
    /// Applies the next record of the session; returns whether it changed anything, which few records do.
    pub fn apply(&mut self, record: &Record) -> bool {
        match &record.body {
            RecordBody::Plan(changed) => {
                self.plan = Some(changed.plan.clone());
                true
            }
            RecordBody::Verdict(vetted) => {
                for grant in &vetted.granted {
                    self.remembered.record(grant.clone());
                }
                !vetted.granted.is_empty()
            }
            _ => {
                let before = self.taint.sources().len();
                self.taint.read(record);
                let is_tainted = self.taint.sources().len() > before;
                self.read_pages(record) || is_tainted
            }
        }
    }

    /// Notes the pages that a result is based on, or that were read before the session was forked; returns whether any
    /// is new.
    fn read_pages(&mut self, record: &Record) -> bool {
        let read = match &record.body {
            RecordBody::RunStarted(started) => &started.spec.sources,
            RecordBody::ToolResult(result) if result.failure.is_none() => &result.sources,
            _ => return false,
        };
        let known = |source: &&Source| !self.sources.contains(source);
        let new: Vec<Source> = read.iter().filter(known).cloned().collect();
        let is_any = !new.is_empty();
        self.sources.extend(new);
        let too_many = self.sources.len().saturating_sub(MAX_CARRIED_SOURCES);
        self.sources.drain(..too_many);
        is_any
    }

    /// Returns what a user allowed for the session, according to this record.
    ///
    /// When a store imports a run, it revokes what the run's records allow, so that it has no effect: an imported log
    /// grants nothing, and a grant that was revoked before its session was deleted stays revoked.
    #[must_use]
    pub fn granted(record: &Record) -> &[Grant] {
        match &record.body {
            RecordBody::Verdict(vetted) => &vetted.granted,
            _ => &[],
        }
    }

    /// Applies the next record of the session, given as its line of JSON. Most records are skipped by type without
    /// parsing. A record that cannot be parsed is skipped too; the reader that continues the session detects it.
    pub fn apply_line(&mut self, line: &[u8]) {
        let head = line.get(..HEAD_BYTES).unwrap_or(line);
        let names = |name: &&[u8]| head.windows(name.len()).any(|part| part == *name);
        if !TYPES.iter().any(names) {
            return;
        }
        let text = std::str::from_utf8(line).ok();
        if let Some(record) = text.and_then(|text| Record::from_json(text).ok()) {
            self.apply(&record);
        }
    }
}
