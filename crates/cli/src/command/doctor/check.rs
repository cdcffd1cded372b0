//! A check and its result.

use serde_json::{Value, json};

use crate::glyphs::ARROW;
use crate::harmless::one_line;

/// The subject of checks of this machine.
const HERE: &str = "this machine";

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    /// The subject: this machine, or the model of a role.
    pub(super) subject: String,
    /// The name of the check.
    pub(super) name: &'static str,
    /// The result.
    pub(super) outcome: Outcome,
    /// The finding, such as a version, a path or an error.
    pub(super) detail: String,
    /// How to fix it.
    pub(super) fix: Option<String>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The subject works.
    Ok,
    /// The subject was not checked.
    Skipped,
    /// The subject works, but not as well as it could, or may not work.
    Warning,
    /// The subject does not work.
    Failed,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

impl Check {
    /// Creates a check of a subject.
    pub(super) fn new(
        subject: impl Into<String>,
        name: &'static str,
        outcome: Outcome,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            subject: subject.into(),
            name,
            outcome,
            detail: detail.into(),
            fix: None,
        }
    }

    /// Creates a check of this machine.
    pub(super) fn here(name: &'static str, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self::new(HERE, name, outcome, detail)
    }

    /// Sets how to fix it.
    #[must_use]
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    pub(super) fn in_json(&self) -> Value {
        json!({
            "subject": self.subject,
            "check": self.name,
            "outcome": self.outcome.as_str(),
            "detail": self.detail,
            "fix": self.fix,
        })
    }
}

/// Formats a table with a heading for each subject.
pub(super) fn table(checks: &[Check]) -> String {
    let mut text = String::new();
    let mut subject = "";
    for check in checks {
        if check.subject != subject {
            subject = &check.subject;
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{}\n", one_line(subject)));
        }
        let (outcome, name) = (check.outcome.as_str(), check.name);
        let detail = one_line(&check.detail);
        text.push_str(&format!("  {outcome:<8} {name:<11} {detail}\n"));
        if let Some(fix) = &check.fix {
            text.push_str(&format!(
                "  {:<8} {:<11} {ARROW} {}\n",
                "",
                "",
                one_line(fix)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_headings_subjects_and_a_line_with_the_fix() {
        let checks = [
            Check::here("store", Outcome::Ok, "memory:"),
            Check::new("coding", "key", Outcome::Failed, "no\nkey").fix("export it"),
        ];
        let expected = "this machine\n  ok       store       memory:\n\ncoding\n  failed   key         no key\n                       → export it\n";
        assert_eq!(table(&checks), expected);
    }
}
