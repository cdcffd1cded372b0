//! The tool `system_health`: the state of this machine.
//!
//! [`probe`] takes the measurements, the types in [`sections`] hold and interpret them, and [`report`] combines them.
//! Only `probe` and [`error_log`] access the machine; the rest is the same on every system. Nothing here reads command
//! lines or environments of processes: they may contain secrets.

mod error_log;
mod probe;
mod report;
mod sections;
mod units;

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{ProgressSteps, ToolClass};
use neuraxis_ports::{Tool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use self::error_log::ErrorLog;
use self::probe::Sample;
use self::report::Report;
use crate::blocking::Cancelled;
use crate::function::{DefinitionError, FunctionTool};

const DESCRIPTION: &str = "Measures the current state of this machine: CPU use, memory, disks, temperatures, load, \
    uptime, the busiest processes and recent error log lines. Use it for any question about how this computer is \
    doing, why it is slow, or whether something is filling up or running hot. `warnings` in the result lists what \
    needs attention. Changes nothing.";

/// The time limit for reading one section. A disk that does not respond must not delay the rest.
const SECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Creates `system_health`: the state of this machine. Supports Linux, macOS and Windows.
///
/// # Errors
///
/// The errors of [`FunctionTool::new`], which the current definition never causes.
pub fn system_health() -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = FunctionTool::new(
        "system_health",
        DESCRIPTION,
        async |arguments: Arguments, ctx: ToolContext| {
            let sections = requested_sections(arguments.sections.as_deref().unwrap_or_default());
            let report = ctx
                .cancellation
                .run_until_cancelled(examine(&sections, &ctx))
                .await;
            report.ok_or_else(|| ToolError::from(Cancelled))
        },
    )?;
    Ok(tool.class(ToolClass::ReadOnly).build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The sections to measure; request only those that the question needs. Default: all.
    sections: Option<Vec<Section>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Section {
    Cpu,
    Memory,
    Disks,
    Temperatures,
    Load,
    Uptime,
    Processes,
    Errors,
}

impl Section {
    const ALL: [Self; 8] = [
        Self::Cpu,
        Self::Memory,
        Self::Disks,
        Self::Temperatures,
        Self::Load,
        Self::Uptime,
        Self::Processes,
        Self::Errors,
    ];

    /// Returns the section's name in the report.
    const fn key(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disks => "disks",
            Self::Temperatures => "temperatures",
            Self::Load => "load",
            Self::Uptime => "uptime",
            Self::Processes => "processes",
            Self::Errors => "errors",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "Memory",
            Self::Disks => "Disks",
            Self::Temperatures => "Temperatures",
            Self::Load => "Load",
            Self::Uptime => "Uptime",
            Self::Processes => "Processes",
            Self::Errors => "Error log",
        }
    }
}

/// Returns each requested section once, in the order of the report; all sections if none is requested.
fn requested_sections(requested: &[Section]) -> Vec<Section> {
    Section::ALL
        .into_iter()
        .filter(|section| requested.is_empty() || requested.contains(section))
        .collect()
}

async fn examine(sections: &[Section], ctx: &ToolContext) -> Report {
    let total = sections.len() as u64;
    let mut report = Report::default();
    let mut sample = None;
    for (done, &section) in (0..).zip(sections) {
        ctx.progress.report(
            section.title(),
            None,
            Some(ProgressSteps {
                done,
                total: Some(total),
            }),
        );
        match section {
            Section::Cpu => report.add(section, Sample::once(&mut sample, sections).await.cpu()),
            Section::Processes => report.add(
                section,
                Sample::once(&mut sample, sections).await.processes(),
            ),
            Section::Memory => report.add(section, probe::blocking(probe::memory).await),
            Section::Disks => report.add(section, probe::blocking(probe::disks).await),
            Section::Temperatures => {
                report.add(section, probe::blocking(probe::temperatures).await);
            }
            Section::Load => report.add(section, probe::blocking(probe::load).await),
            Section::Uptime => report.add(section, probe::blocking(probe::uptime).await),
            Section::Errors => report.add(section, ErrorLog::default().read().await),
        }
    }
    let steps = ProgressSteps {
        done: total,
        total: Some(total),
    };
    ctx.progress.report("Done", None, Some(steps));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_deduplicated_and_in_report_order() {
        assert_eq!(
            requested_sections(&[Section::Load, Section::Cpu, Section::Load]),
            [Section::Cpu, Section::Load]
        );
    }

    #[test]
    fn all_sections_are_included_when_none_is_named() {
        assert_eq!(requested_sections(&[]), Section::ALL);
    }
}
