//! What came of cases: to be shown, written, read, and compared.

mod shown;

use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{CountLabel, MicroUsd, RunId, TokenCount, whole_millis};
use neuraxis_engine::OrchestratorResult;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::seen::Seen;

/// The form in which reports are written. A report of another one is not read.
pub const REPORT_FORMAT: u32 = 1;

/// The most characters of an answer that a report keeps; the run has all of it.
const MAX_ANSWER_CHARS: usize = 4_000;

/// What came of cases.
///
/// Its `Display` is for messages of tests: the cases that did not pass, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    /// When the first case began.
    pub started_at: Timestamp,
    /// How long all of it took, in milliseconds.
    pub took_ms: u64,
    /// How many cases came to what, and what they used.
    pub totals: Totals,
    /// The cases, in the order in which they were given.
    pub cases: Vec<CaseReport>,
}

/// How many cases came to what, and what all runs used that were begun for them, those of the judge among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// Cases that passed.
    pub passed: u64,
    /// Cases that failed.
    pub failed: u64,
    /// Cases that could not be judged.
    pub errors: u64,
    /// Cases of which an attempt is missing, because somebody stopped it all.
    pub not_run: u64,
    /// Tokens, in all.
    pub tokens: u64,
    /// Whether every provider said how many tokens it used; otherwise there were more, or the number is estimated.
    pub tokens_measured: bool,
    /// Money; `None` if a model without a price answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
}

/// What came of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// What it is called.
    pub name: String,
    /// What came of it.
    pub status: CaseStatus,
    /// The share of its attempts that had to pass.
    pub pass_rate: f64,
    /// How many attempts were to be made.
    pub planned: u32,
    /// Whether it is about a run that was there already: the totals leave out what that one used.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stored: bool,
    /// Those that were made, in the order in which they began.
    pub attempts: Vec<Attempt>,
}

/// What came of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CaseStatus {
    /// Enough of its attempts are as they should be.
    Passed,
    /// Too many of its attempts are not as they should be.
    Failed,
    /// Too few could be judged to tell: a model, a store or the judge failed.
    Error,
    /// Somebody stopped it all before it was done.
    NotRun,
}

/// One attempt of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// What came of it.
    pub verdict: Verdict,
    /// Why it could not be judged, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The run, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The answer, or the beginning of a long one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Turns that counted.
    pub turns: u32,
    /// Tool calls, those of sub-agents included.
    pub tool_calls: u64,
    /// Tokens of all model calls.
    pub tokens: u64,
    /// How sure that number is.
    pub tokens_label: CountLabel,
    /// What the models cost; `None` if one has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// How long the run was active, in milliseconds.
    pub active_ms: u64,
    /// What each check found, in the order of the case.
    pub checks: Vec<CheckReport>,
}

/// Whether something is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is as it should be.
    Passed,
    /// It is another way, which the message tells.
    Failed,
    /// Nobody can tell.
    Error,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// What was looked at.
    pub check: String,
    /// Whether the run is as the check wants it.
    pub verdict: Verdict,
    /// What is there instead, or why nobody can tell; of a judge that passed it, why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The run of the judge, if one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_run: Option<RunId>,
    /// What that run used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<JudgeUsage>,
}

/// What a run of the judge used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JudgeUsage {
    /// Tokens of all its model calls.
    pub tokens: u64,
    /// How sure that number is.
    pub tokens_label: CountLabel,
    /// What they cost; `None` if a model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
}

/// Why a text is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportFault {
    /// The text is no JSON, or lacks what a report has.
    #[error("it is no result of an eval")]
    Json(#[from] serde_json::Error),
    /// It was written by a version that writes otherwise.
    #[error("it is written in format {found}, and this program reads format {REPORT_FORMAT}")]
    OtherFormat {
        /// The format of the text.
        found: u32,
    },
}

impl Report {
    /// A report of cases of which none was run yet.
    pub(crate) fn begin(started_at: Timestamp, cases: &[Case], repeat: Option<u32>) -> Self {
        let cases = cases.iter().map(|case| CaseReport {
            name: case.name.clone(),
            status: CaseStatus::NotRun,
            pass_rate: case.pass_rate,
            planned: case.attempts(repeat),
            stored: !case.begins_a_run(),
            attempts: Vec::new(),
        });
        let mut report = Self {
            format: REPORT_FORMAT,
            started_at,
            took_ms: 0,
            totals: Totals::default(),
            cases: cases.collect(),
        };
        report.count();
        report
    }

    /// Takes in an attempt of a case.
    pub(crate) fn add(&mut self, case: usize, attempt: Attempt, took: Duration) {
        if let Some(case) = self.cases.get_mut(case) {
            let place = case
                .attempts
                .partition_point(|it| it.number < attempt.number);
            case.attempts.insert(place, attempt);
            case.status = case.judged();
        }
        self.took_ms = whole_millis(took);
        self.count();
    }

    fn count(&mut self) {
        let mut totals = Totals {
            tokens_measured: true,
            cost_micro_usd: Some(0),
            ..Totals::default()
        };
        for case in &self.cases {
            *match case.status {
                CaseStatus::Passed => &mut totals.passed,
                CaseStatus::Failed => &mut totals.failed,
                CaseStatus::Error => &mut totals.errors,
                CaseStatus::NotRun => &mut totals.not_run,
            } += 1;
            for attempt in &case.attempts {
                if !case.stored {
                    totals.add(attempt.tokens, attempt.tokens_label, attempt.cost_micro_usd);
                }
                let judges = attempt.checks.iter().filter_map(|check| check.judge_usage);
                for used in judges {
                    totals.add(used.tokens, used.tokens_label, used.cost_micro_usd);
                }
            }
        }
        self.totals = totals;
    }

    /// Tells whether every case passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        let mut cases = self.cases.iter();
        cases.all(|case| case.status == CaseStatus::Passed)
    }

    /// Returns the report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // It is built of strings, numbers and lists: encoding one cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    ///
    /// A [`ReportFault`].
    pub fn from_json(text: &str) -> Result<Self, ReportFault> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let found = serde_json::from_str::<Head>(text)?.format;
        if found != REPORT_FORMAT {
            return Err(ReportFault::OtherFormat { found });
        }
        Ok(serde_json::from_str(text)?)
    }
}

impl Totals {
    fn add(&mut self, tokens: u64, label: CountLabel, cost: Option<u64>) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.tokens_measured &= label == CountLabel::Measured;
        let sum = self.cost_micro_usd.zip(cost);
        self.cost_micro_usd = sum.map(|(one, other)| one.saturating_add(other));
    }
}

impl CaseReport {
    /// Returns how many of its attempts passed.
    #[must_use]
    pub fn passes(&self) -> u32 {
        self.count(Verdict::Passed)
    }

    /// Returns the share of its planned attempts that passed, from 0 to 1.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.share(self.passes())
    }

    fn count(&self, verdict: Verdict) -> u32 {
        let attempts = self.attempts.iter();
        let such = attempts.filter(|attempt| attempt.verdict == verdict);
        u32::try_from(such.count()).unwrap_or(u32::MAX)
    }

    fn share(&self, attempts: u32) -> f64 {
        f64::from(attempts) / f64::from(self.planned.max(1))
    }

    fn judged(&self) -> CaseStatus {
        let is_whole = u32::try_from(self.attempts.len()).is_ok_and(|made| made >= self.planned);
        if !is_whole {
            return CaseStatus::NotRun;
        }
        if self.rate() >= self.pass_rate {
            return CaseStatus::Passed;
        }
        // As if all that nobody could tell of had passed.
        let at_best = self.share(self.passes().saturating_add(self.count(Verdict::Error)));
        if at_best >= self.pass_rate {
            CaseStatus::Error
        } else {
            CaseStatus::Failed
        }
    }
}

impl CaseStatus {
    /// Returns the word for it, as reports have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::NotRun => "not_run",
        }
    }
}

impl JudgeUsage {
    /// What the run that came to this used.
    pub(crate) fn of(result: &OrchestratorResult) -> Self {
        let TokenCount { tokens, label } = result.usage.total.total;
        Self {
            tokens,
            tokens_label: label,
            cost_micro_usd: result.cost.map(|MicroUsd(cost)| cost),
        }
    }
}

impl Attempt {
    /// An attempt that led to a run, before anything was looked at.
    pub(crate) fn of(number: u32, seen: &Seen) -> Self {
        let TokenCount { tokens, label } = seen.view.usage().total.total;
        Self {
            number,
            verdict: Verdict::Passed,
            error: None,
            run_id: seen.view.run_id(),
            answer: Some(seen.shown(seen.answer(), MAX_ANSWER_CHARS))
                .filter(|text| !text.is_empty()),
            finish_reason: seen.view.finish().map(|reason| reason.name().to_owned()),
            turns: seen.view.turns(),
            tool_calls: seen.calls.len() as u64,
            tokens,
            tokens_label: label,
            cost_micro_usd: seen.cost.map(|MicroUsd(cost)| cost),
            active_ms: whole_millis(seen.view.active()),
            checks: Vec::new(),
        }
    }

    /// An attempt that led to nothing.
    pub(crate) fn error(number: u32, error: impl Into<String>) -> Self {
        Self {
            number,
            verdict: Verdict::Error,
            error: Some(error.into()),
            run_id: None,
            answer: None,
            finish_reason: None,
            turns: 0,
            tool_calls: 0,
            tokens: 0,
            tokens_label: CountLabel::Measured,
            cost_micro_usd: Some(0),
            active_ms: 0,
            checks: Vec::new(),
        }
    }

    /// Takes in what a check found: whatever nobody can tell of another, one failure is enough.
    pub(crate) fn add(&mut self, found: CheckReport) {
        self.verdict = match (self.verdict, found.verdict) {
            (Verdict::Failed, _) | (_, Verdict::Failed) => Verdict::Failed,
            (Verdict::Error, _) | (_, Verdict::Error) => Verdict::Error,
            (Verdict::Passed, Verdict::Passed) => Verdict::Passed,
        };
        self.checks.push(found);
    }
}

const fn is_false(flag: &bool) -> bool {
    !*flag
}
