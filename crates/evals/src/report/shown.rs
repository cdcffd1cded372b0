//! A short form of a report, for test messages and logs.

use std::fmt;

use super::{Attempt, CaseReport, CaseStatus, CheckOutcome, Report, Totals};

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.errors {
            0 => {}
            1 => f.write_str(", 1 error")?,
            errors => write!(f, ", {errors} errors")?,
        }
        match self.not_run {
            0 => Ok(()),
            count => write!(f, ", {count} not run"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.totals)?;
        let bad = self.cases.iter();
        for case in bad.filter(|case| case.status != CaseStatus::Passed) {
            writeln!(f, "{}: {}", case.name, case.status.as_str())?;
            for attempt in case
                .attempts
                .iter()
                .filter(|it| it.verdict != CheckOutcome::Passed)
            {
                for line in attempt.reasons() {
                    writeln!(f, "  {line}")?;
                }
            }
        }
        Ok(())
    }
}

impl CaseReport {
    /// Returns why the case did not pass, one reason per line, from the attempt that [`why`](Self::why) returns.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        self.why().map(Attempt::reasons).unwrap_or_default()
    }

    /// Returns the attempt that explains why the case did not pass: if the case failed, the first that failed.
    #[must_use]
    pub fn why(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| match self.status {
            CaseStatus::Failed => attempt.verdict == CheckOutcome::Failed,
            _ => attempt.verdict != CheckOutcome::Passed,
        })
    }
}

impl Attempt {
    /// Returns why the attempt did not pass, one reason per line.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let bad = self.checks.iter();
        let bad = bad.filter(|check| check.verdict != CheckOutcome::Passed);
        let checks = bad.map(|check| match &check.message {
            Some(message) => format!("{}: {message}", check.check),
            None => check.check.clone(),
        });
        self.error.iter().cloned().chain(checks).collect()
    }
}
