//! Results as text: a line for each case, and under it why it did not pass.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use neuraxis::core::log::describe::counted;
use neuraxis::core::{Cost, CountLabel, MicroUsd, RunId, TokenCount};
use neuraxis::evals::{
    CaseChange, CaseReport, CaseStatus, CheckOutcome, ComparedUsage, Comparison, Report,
    UsageChange,
};

use crate::glyphs::{ARROW, DOT};
use crate::harmless::one_line;
use crate::invocation::neuraxis;
use crate::quantities::{brief, brief_millis, money, tokens};
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
    format!("{done} of {planned}{DOT}{passed} passed, {bad} did not{DOT}last: {name}")
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
        parts.extend(cost(attempt.cost_micro_usd, attempt.cost_label));
    }
    let line = format!(
        "{style}{word:<7}{style:#} {name}{room}  {}",
        parts.join(DOT.as_str())
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
    text.push_str(&shifts(
        "fewer",
        style_of(CaseStatus::NotRun),
        &comparison.less_often,
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
    let fewer = match comparison.less_often.len() {
        0 => String::new(),
        count => format!(", {count} of them in fewer attempts"),
    };
    text.push_str(&format!(
        "{worse} worse, {better} better, {unchanged} pass as before{fewer}\n"
    ));
    if let Some(change) = &comparison.usage {
        text.push_str(&usage(change));
    }
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
    parts.extend(cost(totals.cost_micro_usd, totals.cost_label));
    parts.join(DOT.as_str())
}

/// Formats a cost with how reliable it is, if it is known and not zero.
fn cost(micro_usd: Option<u64>, label: CountLabel) -> Option<String> {
    let amount = MicroUsd(micro_usd?);
    money(Cost { amount, label })
}

/// Formats what one attempt of each compared case used earlier and now, and the models if others answered.
fn usage(change: &UsageChange) -> String {
    let UsageChange { was, now, .. } = change;
    let mut parts = Vec::new();
    if was.tokens > 0 || now.tokens > 0 {
        let count = |used: &ComparedUsage| {
            tokens(TokenCount {
                tokens: used.tokens,
                label: used.tokens_label,
            })
        };
        let by = percent(was.tokens, now.tokens);
        parts.push(format!("{} {ARROW} {} tokens{by}", count(was), count(now)));
    }
    let paid = |used: &ComparedUsage| cost(used.cost_micro_usd, used.cost_label);
    if let (Some(before), Some(after)) = (paid(was), paid(now)) {
        let amounts = was.cost_micro_usd.zip(now.cost_micro_usd);
        let by = amounts.map_or_else(String::new, |(was, now)| percent(was, now));
        parts.push(format!("{before} {ARROW} {after}{by}"));
    }
    let took = [was, now].map(|used| brief_millis(used.active_ms));
    parts.push(took.join(&format!(" {ARROW} ")));
    let mut text = format!(
        "used    {} for one attempt of each case\n",
        parts.join(DOT.as_str())
    );
    let are_known = !was.models.is_empty() && !now.models.is_empty();
    if are_known && was.models != now.models {
        let names = [was, now].map(|used| {
            let names = used.models.iter().map(|name| one_line(name));
            names.collect::<Vec<String>>().join(", ")
        });
        text.push_str(&format!("models  {}\n", names.join(&format!(" {ARROW} "))));
    }
    text
}

/// Formats by how many percent an amount changed; empty if by less than half a percent, or if there is nothing to
/// compare with.
fn percent(was: u64, now: u64) -> String {
    let (was, now) = (i128::from(was), i128::from(now));
    if was == 0 || was == now {
        return String::new();
    }
    // Rounded to the nearest whole number.
    let share = (now * 200 + was) / (was * 2) - 100;
    match share {
        0 => String::new(),
        share => format!(" ({share:+}%)"),
    }
}

const fn style_of(status: CaseStatus) -> Style {
    match status {
        CaseStatus::Passed => AnsiColor::Green.on_default(),
        CaseStatus::Failed | CaseStatus::Error => AnsiColor::Red.on_default().bold(),
        _ => AnsiColor::Yellow.on_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_rounded_to_a_whole_percentage() {
        for (was, now, expected) in [
            (100, 100, ""),
            (0, 100, ""),
            (100, 130, " (+30%)"),
            (300, 299, ""),
            (300, 302, " (+1%)"),
            (3, 2, " (-33%)"),
            (2, 0, " (-100%)"),
            (1, u64::MAX, " (+1844674407370955161400%)"),
        ] {
            assert_eq!(percent(was, now), expected, "{was} {now}");
        }
    }

    #[test]
    fn a_change_of_usage_names_other_models_and_says_how_reliable_it_is() {
        let mut change = UsageChange::default();
        (change.was.tokens, change.now.tokens) = (1_000, 1_250);
        change.was.models.insert("openai/big".to_owned());
        change.now.models.insert("openai/small".to_owned());
        change.now.cost_label = CountLabel::Estimated;
        (change.was.cost_micro_usd, change.now.cost_micro_usd) = (Some(400), Some(100));
        (change.was.active_ms, change.now.active_ms) = (1_500, 900);
        assert_eq!(
            usage(&change),
            "used    1,000 → 1,250 tokens (+25%) · $0.000400 → ~$0.000100 (-75%) · 1.5 s → 900 ms for one attempt of each case\n\
             models  openai/big → openai/small\n"
        );
        let mut unpriced = UsageChange::default();
        unpriced.now.cost_micro_usd = None;
        assert_eq!(
            usage(&unpriced),
            "used    0 ms → 0 ms for one attempt of each case\n"
        );
    }
}
