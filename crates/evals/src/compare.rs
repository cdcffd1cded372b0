//! What got worse and what got better since an earlier report.

use std::collections::BTreeSet;
use std::fmt;

use neuraxis_core::CountLabel;
use serde::Serialize;

use crate::report::{Attempt, CaseReport, CaseStatus, CheckOutcome, Report};

/// Two reports compared case by case. Cases are matched by name. If several cases share a name, as may happen when
/// secrets were removed from the names, they are matched in order: first with first, and so on.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Cases that passed and no longer do, or that did not pass before and now pass in fewer attempts.
    pub worse: Vec<CaseChange>,
    /// Cases that now pass and did not before, or that still do not pass but pass in more attempts.
    pub better: Vec<CaseChange>,
    /// Cases that passed and still do, but in a smaller share of their attempts: no regression by their `pass_rate`,
    /// and perhaps the beginning of one. They are among the [unchanged](Self::unchanged).
    pub less_often: Vec<CaseChange>,
    /// Cases that pass and are new, or were not run before.
    pub new: Vec<String>,
    /// Cases that do not pass and are new or were not run before, and cases that were an error before and now fail.
    pub new_failures: Vec<String>,
    /// Cases that did not pass and still do not, at the same rate.
    pub still_failing: Vec<String>,
    /// Cases that no longer exist.
    pub gone: Vec<String>,
    /// The number of cases that passed and still do.
    pub unchanged: u64,
    /// What the cases that ran both times used; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageChange>,
}

/// What the same cases used earlier and now.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct UsageChange {
    /// Earlier.
    pub was: ComparedUsage,
    /// Now.
    pub now: ComparedUsage,
}

/// What one attempt of each compared case used, without judges: the average of those that could be judged, added up.
/// So the number of attempts makes no difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ComparedUsage {
    /// The number of cases.
    pub cases: u64,
    /// Tokens of all model calls.
    pub tokens: u64,
    /// How reliable that number is.
    pub tokens_label: CountLabel,
    /// The cost; `None` if a model without a price answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// How reliable the cost is.
    pub cost_label: CountLabel,
    /// How long runs were active, in milliseconds.
    pub active_ms: u64,
    /// The models that answered; empty if the results do not say.
    pub models: BTreeSet<String>,
}

/// The earlier and the current result of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CaseChange {
    /// The case's name.
    pub name: String,
    /// The earlier status.
    pub was: CaseStatus,
    /// The share of attempts that passed earlier.
    pub was_rate: f64,
    /// The current status.
    pub now: CaseStatus,
    /// The share of attempts that pass now.
    pub now_rate: f64,
}

impl Report {
    /// Compares with an earlier report.
    #[must_use]
    pub fn compare(&self, earlier: &Self) -> Comparison {
        // In the order of the earlier report; each matched case is taken out.
        let mut before: Vec<Option<&CaseReport>> = earlier.cases.iter().map(Some).collect();
        let mut comparison = Comparison::default();
        let mut usage = UsageChange::default();
        for case in &self.cases {
            let passes = case.status == CaseStatus::Passed;
            let mut left = before.iter_mut();
            let same = left.find(|was| was.is_some_and(|was| was.name == case.name));
            let was = same.and_then(Option::take);
            // Nothing is known about a case that was not run.
            match was.filter(|was| was.status != CaseStatus::NotRun) {
                None if passes => comparison.new.push(case.name.clone()),
                None => comparison.new_failures.push(case.name.clone()),
                Some(was) => {
                    comparison.place(was, case);
                    usage.add(was, case);
                }
            }
        }
        let gone = before.into_iter().flatten();
        comparison.gone = gone.map(|case| case.name.clone()).collect();
        comparison.usage = Some(usage).filter(|usage| usage.now.cases > 0);
        comparison
    }
}

impl Comparison {
    fn place(&mut self, was: &CaseReport, now: &CaseReport) {
        let shift = || CaseChange {
            name: now.name.clone(),
            was: was.status,
            was_rate: was.rate(),
            now: now.status,
            now_rate: now.rate(),
        };
        let passes = |case: &CaseReport| case.status == CaseStatus::Passed;
        match (passes(was), passes(now)) {
            (true, true) => {
                self.unchanged += 1;
                if now.rate() < was.rate() {
                    self.less_often.push(shift());
                }
            }
            (true, false) => self.worse.push(shift()),
            (false, true) => self.better.push(shift()),
            (false, false) if now.rate() < was.rate() => self.worse.push(shift()),
            // The earlier attempts could not be judged: the case may have passed.
            (false, false)
                if was.status == CaseStatus::Error && now.status == CaseStatus::Failed =>
            {
                self.new_failures.push(now.name.clone());
            }
            (false, false) if now.rate() > was.rate() => self.better.push(shift()),
            (false, false) => self.still_failing.push(now.name.clone()),
        }
    }

    /// Returns whether nothing got worse and no new case fails.
    #[must_use]
    pub const fn is_fine(&self) -> bool {
        self.worse.is_empty() && self.new_failures.is_empty()
    }
}

impl UsageChange {
    /// Adds a case that was run earlier and now, unless one of the results says nothing about what it uses.
    fn add(&mut self, was: &CaseReport, now: &CaseReport) {
        let (earlier, current) = (judged(was), judged(now));
        if was.stored || now.stored || earlier.is_empty() || current.is_empty() {
            return;
        }
        self.was.add(&earlier);
        self.now.add(&current);
    }
}

impl Default for ComparedUsage {
    fn default() -> Self {
        Self {
            cases: 0,
            tokens: 0,
            tokens_label: CountLabel::Measured,
            cost_micro_usd: Some(0),
            cost_label: CountLabel::Measured,
            active_ms: 0,
            models: BTreeSet::new(),
        }
    }
}

impl ComparedUsage {
    /// Adds the average of a case's attempts.
    fn add(&mut self, attempts: &[&Attempt]) {
        let average = |of: fn(&Attempt) -> u64| {
            let count = attempts.len() as u64;
            let sum = attempts.iter().map(|attempt| of(attempt));
            let sum = sum.fold(0, u64::saturating_add);
            // Rounded to the nearest whole number.
            sum.saturating_add(count / 2) / count.max(1)
        };
        self.cases += 1;
        self.tokens = self.tokens.saturating_add(average(|it| it.tokens));
        self.active_ms = self.active_ms.saturating_add(average(|it| it.active_ms));
        let cost = average(|it| it.cost_micro_usd.unwrap_or(0));
        let are_priced = attempts.iter().all(|it| it.cost_micro_usd.is_some());
        let sum = self.cost_micro_usd.filter(|_| are_priced);
        self.cost_micro_usd = sum.map(|sum| sum.saturating_add(cost));
        for attempt in attempts {
            self.tokens_label = self.tokens_label.max(attempt.tokens_label);
            self.cost_label = self.cost_label.max(attempt.cost_label);
            self.models.extend(attempt.models.iter().cloned());
        }
    }
}

/// Returns the attempts of a case that could be judged: others may have ended halfway.
fn judged(case: &CaseReport) -> Vec<&Attempt> {
    let attempts = case.attempts.iter();
    attempts
        .filter(|it| it.verdict != CheckOutcome::Error)
        .collect()
}

impl fmt::Display for CaseChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |rate: f64| (rate * 100.0).round();
        let (was, now) = (percent(self.was_rate), percent(self.now_rate));
        write!(
            f,
            "{}: {} {was}% → {} {now}%",
            self.name,
            self.was.as_str(),
            self.now.as_str()
        )
    }
}
