//! Results as text: a line for each case, and under it why it did not pass.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use neuraxis::core::log::describe::counted;
use neuraxis::core::{MicroUsd, RunId};
use neuraxis::evals::{CaseChange, CaseReport, CaseStatus, CheckOutcome, Comparison, Report};

use crate::harmless::one_line;
use crate::invocation::neuraxis;
use crate::quantities::{brief, dollars};
use crate::wrap::usual_width;

/// The maximum number of columns of a case's name before the next column begins.
const MAX_NAME: usize = 40;

/// Which runs of a case are in the store after the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredRuns {
    /// None: the store ends with the command.
    None,
    /// The judges' runs: the run of the case came from elsewhere.
    Judges,
    /// The runs of cases and of judges.
    All,
}

/// Describes the progress.
pub(super) fn progress(report: &Report, case: usize) -> String {
    let planned: u64 = report
        .cases
        .iter()
        .map(|case| u64::from(case.planned))
        .sum();
    let done: usize = report.cases.iter().map(|case| case.attempts.len()).sum();
    let name = report.cases.get(case).map(|case| case.name.as_str());
    let (passed, bad) = (
        report.totals.passed,
        report.totals.failed + report.totals.errors,
    );
    let name = name.unwrap_or_default();
    format!("{done} of {planned} · {passed} passed, {bad} did not · last: {name}")
}

/// Formats results. A case's runs are named if `kept` says that they are stored.
pub(super) fn in_text(
    report: &Report,
    comparison: Option<&Comparison>,
    kept: impl Fn(usize) -> StoredRuns,
) -> String {
    let names = report.cases.iter();
    let names = names.map(|case| usual_width(&one_line(&case.name)));
    let width = names.max().unwrap_or_default().min(MAX_NAME);
    let mut text = String::new();
    for (number, case) in report.cases.iter().enumerate() {
        text.push_str(&line(case, width));
        for reason in case.reasons() {
            text.push_str(&format!("        {}\n", one_line(&reason)));
        }
        if case.status != CaseStatus::Passed
            && let Some(run) = worth_a_look(case, kept(number))
        {
            text.push_str(&format!("        {} runs show {run}\n", neuraxis()));
        }
    }
    if let Some(comparison) = comparison {
        text.push_str(&compared(comparison));
    }
    text.push_str(&format!("{}\n", summary(report)));
    text
}

/// Returns the run that shows why a case did not pass, if it is stored: the judge's run, if its check failed.
fn worth_a_look(case: &CaseReport, kept: StoredRuns) -> Option<RunId> {
    let bad = case.why()?;
    let mut checks = bad.checks.iter();
    let unjudged = checks.find(|check| check.verdict == CheckOutcome::Error);
    let is_failed = bad
        .checks
        .iter()
        .any(|check| check.verdict == CheckOutcome::Failed);
    let judge = unjudged.and_then(|check| check.judge_run);
    match kept {
        StoredRuns::None => None,
        StoredRuns::Judges => judge,
        StoredRuns::All if is_failed => bad.run_id,
        StoredRuns::All => judge.or(bad.run_id),
    }
}

fn line(case: &CaseReport, width: usize) -> String {
    let style = style_of(case.status);
    let word = match case.status {
        CaseStatus::Passed => "passed",
        CaseStatus::Failed => "FAILED",
        CaseStatus::Error => "ERROR",
        _ => "not run",
    };
    let name = one_line(&case.name);
    let room = " ".repeat(width.saturating_sub(usual_width(&name)));
    let mut parts = Vec::new();
    if case.planned > 1 {
        parts.push(format!("{} of {}", case.passes(), case.planned));
    }
    if let Some(attempt) = case.attempts.iter().max_by_key(|attempt| attempt.active_ms)
        && attempt.run_id.is_some()
    {
        parts.push(counted(attempt.turns.into(), "turn"));
        parts.push(brief(Duration::from_millis(attempt.active_ms)));
        parts.extend(cost(attempt.cost_micro_usd));
    }
    let line = format!(
        "{style}{word:<7}{style:#} {name}{room}  {}",
        parts.join(" · ")
    );
    format!("{}\n", line.trim_end())
}

fn compared(comparison: &Comparison) -> String {
    let mut text = String::from("\n");
    let shifts = |title: &str, style: Style, shifts: &[CaseChange]| {
        let lines = shifts.iter().map(|shift| {
            let shift = one_line(&shift.to_string());
            format!("{style}{title:<7}{style:#} {shift}\n")
        });
        lines.collect::<String>()
    };
    text.push_str(&shifts(
        "worse",
        style_of(CaseStatus::Failed),
        &comparison.worse,
    ));
    text.push_str(&shifts(
        "better",
        style_of(CaseStatus::Passed),
        &comparison.better,
    ));
    for (title, names, note) in [
        ("new", &comparison.new, ""),
        ("new", &comparison.new_failures, ": does not pass"),
        ("as bad", &comparison.still_failing, " as before"),
        ("gone", &comparison.gone, ""),
    ] {
        for name in names {
            text.push_str(&format!("{title:<7} {}{note}\n", one_line(name)));
        }
    }
    let (worse, better) = (comparison.worse.len(), comparison.better.len());
    let unchanged = comparison.unchanged;
    text.push_str(&format!(
        "{worse} worse, {better} better, {unchanged} pass as before\n"
    ));
    text
}

fn summary(report: &Report) -> String {
    let totals = &report.totals;
    let took = brief(Duration::from_millis(report.took_ms));
    let mut parts = vec![format!("{totals} in {took}")];
    if totals.tokens > 0 {
        let at_least = if totals.tokens_measured { "" } else { "about " };
        parts.push(format!("{at_least}{}", counted(totals.tokens, "token")));
    }
    parts.extend(cost(totals.cost_micro_usd));
    parts.join(" · ")
}

/// Formats a cost, if it is known and not zero.
fn cost(micro_usd: Option<u64>) -> Option<String> {
    let cost = micro_usd.filter(|cost| *cost > 0)?;
    Some(dollars(MicroUsd(cost)))
}

const fn style_of(status: CaseStatus) -> Style {
    match status {
        CaseStatus::Passed => AnsiColor::Green.on_default(),
        CaseStatus::Failed | CaseStatus::Error => AnsiColor::Red.on_default().bold(),
        _ => AnsiColor::Yellow.on_default(),
    }
}
