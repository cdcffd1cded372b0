//! Combines the sections into a report.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Section;

/// The findings of a section.
pub(super) trait Findings: Serialize {
    /// Returns a one-line summary without the section's title.
    fn summary(&self) -> String;

    /// Returns what needs attention, one sentence per item.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The report of all sections.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// One line per section.
    summary: Vec<String>,
    /// What needs attention in any section, one sentence per item.
    warnings: Vec<String>,
    #[serde(flatten)]
    sections: Map<String, Value>,
}

impl Report {
    /// Adds a section's findings, or why there are none. Other sections are not affected.
    pub(super) fn add<Found: Findings>(&mut self, section: Section, found: Result<Found, String>) {
        let encoded = found.and_then(|found| match serde_json::to_value(&found) {
            Ok(value) => Ok((found, value)),
            Err(error) => Err(error.to_string()),
        });
        let (value, summary) = match encoded {
            Ok((found, value)) => {
                self.warnings.extend(found.warnings());
                (value, found.summary())
            }
            Err(why) => (
                json!({ "unavailable": why }),
                format!("not available ({why})"),
            ),
        };
        self.summary.push(format!("{}: {summary}", section.title()));
        self.sections.insert(section.key().to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sections::{Memory, Uptime};
    use super::*;

    #[test]
    fn a_failing_section_gives_its_reason_and_does_not_affect_the_others() {
        let mut report = Report::default();
        report.add::<Memory>(Section::Memory, Err("no such counter".to_owned()));
        report.add(
            Section::Uptime,
            Ok(Uptime {
                seconds: 7_260,
                booted_at_unix_seconds: 1,
            }),
        );
        let value = serde_json::to_value(&report).unwrap();
        let expected = json!({
            "summary": ["Memory: not available (no such counter)", "Uptime: 2 hours 1 minute"],
            "warnings": [],
            "memory": { "unavailable": "no such counter" },
            "uptime": { "seconds": 7_260, "booted_at_unix_seconds": 1 },
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn the_warnings_of_all_sections_are_collected() {
        let mut report = Report::default();
        report.add(Section::Memory, Ok(Memory::new(100, 95, 5, 0, 0)));
        assert_eq!(report.warnings, ["Memory is 95 % full."]);
    }
}
