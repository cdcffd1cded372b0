//! What got worse and what got better since an earlier report.

use std::fmt;

use serde::Serialize;

use crate::report::{CaseReport, CaseStatus, Report};

/// Two reports beside each other, case by case. Cases are the same if they have the same name; of several that have one, as where
/// secrets were taken out of them, the first are the same, and so on.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Cases that passed and do not pass any more, or pass less often than they did without passing before.
    pub worse: Vec<Shift>,
    /// Cases that pass and did not, or pass more often than they did without passing yet.
    pub better: Vec<Shift>,
    /// Cases that pass and are new, or were not run before.
    pub new: Vec<String>,
    /// Cases that do not pass and are new, or were not run before, or were an error before and are none now.
    pub new_failures: Vec<String>,
    /// Cases that did not pass and do not, as often as before.
    pub still_failing: Vec<String>,
    /// Cases that there are no more.
    pub gone: Vec<String>,
    /// How many cases passed and still do.
    pub unchanged: u64,
}

/// How a case was and how it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Shift {
    /// What it is called.
    pub name: String,
    /// What came of it then.
    pub was: CaseStatus,
    /// The share of its attempts that passed then.
    pub was_rate: f64,
    /// What comes of it now.
    pub now: CaseStatus,
    /// The share of its attempts that passes now.
    pub now_rate: f64,
}

impl Report {
    /// Compares with an earlier report.
    #[must_use]
    pub fn compare(&self, earlier: &Self) -> Comparison {
        // In the order of the earlier report; what was compared is taken out.
        let mut before: Vec<Option<&CaseReport>> = earlier.cases.iter().map(Some).collect();
        let mut comparison = Comparison::default();
        for case in &self.cases {
            let passes = case.status == CaseStatus::Passed;
            let mut left = before.iter_mut();
            let same = left.find(|was| was.is_some_and(|was| was.name == case.name));
            let was = same.and_then(Option::take);
            // Of one that was not run nothing is known.
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
        let shift = || Shift {
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
            // Nobody could tell then: it may have passed.
            (false, false)
                if was.status == CaseStatus::Error && now.status == CaseStatus::Failed =>
            {
                self.new_failures.push(now.name.clone());
            }
            (false, false) if now.rate() > was.rate() => self.better.push(shift()),
            (false, false) => self.still_failing.push(now.name.clone()),
        }
    }

    /// Tells whether nothing got worse, and no new case fails.
    #[must_use]
    pub const fn is_fine(&self) -> bool {
        self.worse.is_empty() && self.new_failures.is_empty()
    }
}

impl fmt::Display for Shift {
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
