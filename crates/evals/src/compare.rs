//! What got worse and what got better since an earlier report.

use std::fmt;

use serde::Serialize;

use crate::report::{CaseReport, CaseStatus, Report};

/// Two reports compared case by case. Cases are matched by name. If several cases share a name, as may happen when
/// secrets were removed from the names, they are matched in order: first with first, and so on.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Cases that passed and no longer do, or that did not pass before and now pass in fewer attempts.
    pub worse: Vec<CaseChange>,
    /// Cases that now pass and did not before, or that still do not pass but pass in more attempts.
    pub better: Vec<CaseChange>,
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
        for case in &self.cases {
            let passes = case.status == CaseStatus::Passed;
            let mut left = before.iter_mut();
            let same = left.find(|was| was.is_some_and(|was| was.name == case.name));
            let was = same.and_then(Option::take);
            // Nothing is known about a case that was not run.
            match was.filter(|was| was.status != CaseStatus::NotRun) {
                None if passes => comparison.new.push(case.name.clone()),
                None => comparison.new_failures.push(case.name.clone()),
                Some(was) => comparison.place(was, case),
            }
        }
        let gone = before.into_iter().flatten();
        comparison.gone = gone.map(|case| case.name.clone()).collect();
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
            (true, true) => self.unchanged += 1,
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
