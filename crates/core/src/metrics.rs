//! What a session used: calls, errors, tokens, money. A pure fold over records.

use std::ops::AddAssign;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::duration;
use crate::limits::MicroUsd;
use crate::record::{Record, RecordBody, ToolStatus};
use crate::usage::{RunUsage, Usage};

/// What one or more runs used.
///
/// ```
/// use neuraxis_core::{Record, SessionMetrics};
///
/// # let records: Vec<Record> = Vec::new();
/// let mut metrics = SessionMetrics::default();
/// for record in &records {
///     metrics.read(record);
/// }
/// assert_eq!(metrics.llm_calls, 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SessionMetrics {
    /// Runs that began.
    pub runs: u64,
    /// Model calls that gave a reply.
    pub llm_calls: u64,
    /// Attempts of model calls that failed.
    pub llm_failures: u64,
    /// Tool calls with a result, be it an error.
    pub tool_calls: u64,
    /// Tool calls whose result is an error.
    pub tool_errors: u64,
    /// Tokens, in all and per role that served; failed attempts included as far as known.
    pub usage: RunUsage,
    /// Money, as far as prices are known.
    #[serde(rename = "cost_micro_usd")]
    pub cost: MicroUsd,
    /// The time that model and tool calls took, added up: calls beside each other count each, and so do a sub-agent's
    /// besides the call that started it.
    #[serde(rename = "worked_ms", with = "duration::millis")]
    pub worked: Duration,
}

impl SessionMetrics {
    /// Adds what a record tells.
    pub fn read(&mut self, record: &Record) {
        match &record.body {
            RecordBody::RunStarted(_) => self.runs += 1,
            RecordBody::LlmCall(call) => {
                self.llm_calls += 1;
                self.usage.add(&call.served_by, call.reply.usage);
                let cost = call.cost.unwrap_or_default();
                self.cost.0 = self.cost.0.saturating_add(cost.0);
                self.work(call.duration);
            }
            RecordBody::LlmFailed(failed) => {
                self.llm_failures += 1;
                self.work(failed.duration);
                let usage = failed.error.usage.as_deref().copied();
                let unknown = failed.error.kind.may_have_used_tokens();
                if let Some(usage) = usage.or(unknown.then_some(Usage::UNKNOWN)) {
                    self.usage.add(&failed.served_by, usage);
                }
            }
            RecordBody::ToolResult(result) => {
                self.tool_calls += 1;
                self.work(result.duration.unwrap_or_default());
                self.tool_errors += u64::from(result.status == ToolStatus::Error);
            }
            _ => {}
        }
    }

    fn work(&mut self, took: Duration) {
        // As records say it: what is read back adds up to the same.
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let took = Duration::from_millis(millis);
        self.worked = self.worked.saturating_add(took);
    }

    /// Adds what a record tells, if it is not older than the given time.
    pub fn read_since(&mut self, record: &Record, since: Timestamp) {
        if record.at >= since {
            self.read(record);
        }
    }
}

impl AddAssign<&Self> for SessionMetrics {
    fn add_assign(&mut self, other: &Self) {
        self.runs += other.runs;
        self.llm_calls += other.llm_calls;
        self.llm_failures += other.llm_failures;
        self.tool_calls += other.tool_calls;
        self.tool_errors += other.tool_errors;
        self.usage.merge(&other.usage);
        self.cost.0 = self.cost.0.saturating_add(other.cost.0);
        self.work(other.worked);
    }
}
