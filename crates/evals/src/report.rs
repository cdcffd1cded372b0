//! The results of cases, to be shown, written, read and compared.

mod shown;

use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{CountLabel, MicroUsd, RunId, TokenCount, whole_millis};
use neuraxis_engine::OrchestratorResult;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::observed::ObservedRun;

/// The version of the report format. Reports of another version are not read.
pub const REPORT_FORMAT: u32 = 1;

/// The maximum number of characters of an answer that a report keeps; the run keeps all of it.
const MAX_ANSWER_CHARS: usize = 4_000;

/// The results of cases.
///
/// Its `Display` is meant for test messages: it lists the cases that did not pass, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    /// When the first case began.
    pub started_at: Timestamp,
    /// The total duration, in milliseconds.
    pub took_ms: u64,
    /// The number of cases per status, and what they used.
    pub totals: Totals,
    /// The cases, in the order in which they were given.
    pub cases: Vec<CaseReport>,
}

/// The number of cases per status, and the usage of all runs started for them, including the judge's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// Cases that passed.
    pub passed: u64,
    /// Cases that failed.
    pub failed: u64,
    /// Cases that could not be judged.
    pub errors: u64,
    /// Cases with missing attempts, because the eval was stopped.
    pub not_run: u64,
    /// The total number of tokens.
    pub tokens: u64,
    /// Whether every provider reported the number of tokens; otherwise the count is too low or estimated.
    pub tokens_measured: bool,
    /// The cost; `None` if a model without a price answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// How reliable the cost is. Unknown: it is a lower bound, or there is none.
    #[serde(default = "unknown")]
    pub cost_label: CountLabel,
}

/// The result of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// The case's name.
    pub name: String,
    /// The case's status.
    pub status: CaseStatus,
    /// The share of attempts that had to pass.
    pub pass_rate: f64,
    /// The number of planned attempts.
    pub planned: u32,
    /// Whether the case is about a run that already existed. The totals leave out that run's usage.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stored: bool,
    /// The attempts made, in the order in which they began.
    pub attempts: Vec<Attempt>,
}

/// The status of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CaseStatus {
    /// Enough attempts passed.
    Passed,
    /// Too many attempts failed.
    Failed,
    /// Too few attempts could be judged: a model, a store or the judge failed.
    Error,
    /// The eval was stopped before the case was complete.
    NotRun,
}

/// One attempt of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// Its verdict.
    pub verdict: CheckOutcome,
    /// Why the attempt could not be judged, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The run, if one was found or started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The answer, or the beginning of a long one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The number of turns that counted.
    pub turns: u32,
    /// The number of tool calls, including those of sub-agents.
    pub tool_calls: u64,
    /// Tokens of all model calls.
    pub tokens: u64,
    /// How reliable that number is.
    pub tokens_label: CountLabel,
    /// The cost of the models; `None` if one has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// How reliable the cost is. Unknown: it is a lower bound, or there is none.
    #[serde(default = "unknown")]
    pub cost_label: CountLabel,
    /// The models that answered, as `provider/model` by the names under which they answered, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// How long the run was active, in milliseconds.
    pub active_ms: u64,
    /// The result of each check, in the order of the case.
    pub checks: Vec<CheckReport>,
}

/// Whether an attempt or one of its checks passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// The run meets the condition.
    Passed,
    /// The run does not meet the condition; the message says why.
    Failed,
    /// The run could not be judged.
    Error,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// What the check examined.
    pub check: String,
    /// Whether the run meets the check.
    pub verdict: CheckOutcome,
    /// What was found instead, or why the check could not be judged. If a judge passed the run, its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The judge's run, if one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_run: Option<RunId>,
    /// What the judge's run used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<JudgeUsage>,
}

/// What a run of the judge used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JudgeUsage {
    /// Tokens of all its model calls.
    pub tokens: u64,
    /// How reliable that number is.
    pub tokens_label: CountLabel,
    /// Its cost; `None` if a model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// How reliable the cost is. Unknown: it is a lower bound, or there is none.
    #[serde(default = "unknown")]
    pub cost_label: CountLabel,
}

/// Why a text cannot be read as a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportFault {
    /// The text is not JSON, or lacks parts of a report.
    #[error("it is not the result of an eval")]
    Json(#[from] serde_json::Error),
    /// The report was written in another version of the format.
    #[error("it is written in format {found}, but this program reads format {REPORT_FORMAT}")]
    OtherFormat {
        /// The format of the report.
        found: u32,
    },
}

impl Report {
    /// Creates a report in which no case has been run yet.
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

    /// Takes over the results of the cases that an earlier report has a verdict on, made in as many attempts. A verdict
    /// counts by the share of attempts that must pass now.
    pub(crate) fn keep(&mut self, earlier: &Self) {
        // In the order of the earlier report, as in a comparison; each matched case is taken out.
        let mut before: Vec<Option<&CaseReport>> = earlier.cases.iter().map(Some).collect();
        for case in &mut self.cases {
            let mut left = before.iter_mut();
            let same = left.find(|was| was.is_some_and(|was| was.name == case.name));
            let Some(was) = same.and_then(Option::take) else {
                continue;
            };
            let is_same_kind = (was.planned, was.stored) == (case.planned, case.stored);
            let mut kept = CaseReport {
                pass_rate: case.pass_rate,
                ..was.clone()
            };
            kept.status = kept.overall_status();
            if is_same_kind && kept.has_verdict() {
                *case = kept;
            }
        }
        self.count();
    }

    /// Adds an attempt of a case.
    pub(crate) fn add(&mut self, case: usize, attempt: Attempt, took: Duration) {
        if let Some(case) = self.cases.get_mut(case) {
            let place = case
                .attempts
                .partition_point(|it| it.number < attempt.number);
            case.attempts.insert(place, attempt);
            case.status = case.overall_status();
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
                    totals.add_tokens(attempt.tokens, attempt.tokens_label);
                    totals.add_cost(attempt.cost_micro_usd, attempt.cost_label);
                }
                let judges = attempt.checks.iter().filter_map(|check| check.judge_usage);
                for used in judges {
                    totals.add_tokens(used.tokens, used.tokens_label);
                    totals.add_cost(used.cost_micro_usd, used.cost_label);
                }
            }
        }
        self.totals = totals;
    }

    /// Returns whether every case passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        let mut cases = self.cases.iter();
        cases.all(|case| case.status == CaseStatus::Passed)
    }

    /// Returns the report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // The report consists of strings, numbers and lists, so encoding it cannot fail.
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
    fn add_tokens(&mut self, tokens: u64, label: CountLabel) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.tokens_measured &= label == CountLabel::Measured;
    }

    fn add_cost(&mut self, cost: Option<u64>, label: CountLabel) {
        let sum = self.cost_micro_usd.zip(cost);
        self.cost_micro_usd = sum.map(|(one, other)| one.saturating_add(other));
        self.cost_label = self.cost_label.max(label);
    }
}

impl CaseReport {
    /// Returns the number of attempts that passed.
    #[must_use]
    pub fn passes(&self) -> u32 {
        self.count(CheckOutcome::Passed)
    }

    /// Returns the share of the planned attempts that passed, from 0 to 1.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.share(self.passes())
    }

    /// Returns whether the case passed or failed: neither an error, nor stopped before it was complete.
    pub(crate) const fn has_verdict(&self) -> bool {
        matches!(self.status, CaseStatus::Passed | CaseStatus::Failed)
    }

    fn count(&self, verdict: CheckOutcome) -> u32 {
        let attempts = self.attempts.iter();
        let such = attempts.filter(|attempt| attempt.verdict == verdict);
        u32::try_from(such.count()).unwrap_or(u32::MAX)
    }

    fn share(&self, attempts: u32) -> f64 {
        f64::from(attempts) / f64::from(self.planned.max(1))
    }

    fn overall_status(&self) -> CaseStatus {
        let is_complete = u32::try_from(self.attempts.len()).is_ok_and(|made| made >= self.planned);
        if !is_complete {
            return CaseStatus::NotRun;
        }
        if self.rate() >= self.pass_rate {
            return CaseStatus::Passed;
        }
        // The share if every attempt that could not be judged had passed.
        let at_best = self.share(
            self.passes()
                .saturating_add(self.count(CheckOutcome::Error)),
        );
        if at_best >= self.pass_rate {
            CaseStatus::Error
        } else {
            CaseStatus::Failed
        }
    }
}

impl CaseStatus {
    /// Returns the word for this status in reports.
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
    /// Returns what the run with this result used.
    pub(crate) fn of(result: &OrchestratorResult) -> Self {
        let TokenCount { tokens, label } = result.usage.total.total;
        Self {
            tokens,
            tokens_label: label,
            cost_micro_usd: result.cost.map(|MicroUsd(cost)| cost),
            cost_label: result.cost_label,
        }
    }
}

impl Attempt {
    /// Creates an attempt that led to a run, before any check.
    pub(crate) fn of(number: u32, observed: &ObservedRun) -> Self {
        let TokenCount { tokens, label } = observed.view.usage().total.total;
        Self {
            number,
            verdict: CheckOutcome::Passed,
            error: None,
            run_id: observed.view.run_id(),
            answer: Some(observed.shown(observed.answer(), MAX_ANSWER_CHARS))
                .filter(|text| !text.is_empty()),
            finish_reason: observed
                .view
                .finish()
                .map(|reason| reason.name().to_owned()),
            turns: observed.view.turns(),
            tool_calls: observed.calls.len() as u64,
            tokens,
            tokens_label: label,
            cost_micro_usd: observed.cost.map(|MicroUsd(cost)| cost),
            cost_label: observed.cost_label,
            models: observed.models.iter().cloned().collect(),
            active_ms: whole_millis(observed.view.active()),
            checks: Vec::new(),
        }
    }

    /// Creates an attempt that did not lead to a run.
    pub(crate) fn error(number: u32, error: impl Into<String>) -> Self {
        Self {
            number,
            verdict: CheckOutcome::Error,
            error: Some(error.into()),
            run_id: None,
            answer: None,
            finish_reason: None,
            turns: 0,
            tool_calls: 0,
            tokens: 0,
            tokens_label: CountLabel::Measured,
            cost_micro_usd: Some(0),
            cost_label: CountLabel::Measured,
            models: Vec::new(),
            active_ms: 0,
            checks: Vec::new(),
        }
    }

    /// Adds the result of a check. One failure fails the attempt, even if another check could not be judged.
    pub(crate) fn add(&mut self, found: CheckReport) {
        self.verdict = match (self.verdict, found.verdict) {
            (CheckOutcome::Failed, _) | (_, CheckOutcome::Failed) => CheckOutcome::Failed,
            (CheckOutcome::Error, _) | (_, CheckOutcome::Error) => CheckOutcome::Error,
            (CheckOutcome::Passed, CheckOutcome::Passed) => CheckOutcome::Passed,
        };
        self.checks.push(found);
    }
}

/// The label of a cost in a report of an earlier version, which did not say how reliable it was.
const fn unknown() -> CountLabel {
    CountLabel::Unknown
}

const fn is_false(flag: &bool) -> bool {
    !*flag
}
