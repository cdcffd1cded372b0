//! `neuraxis stats`.

mod table;

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::jiff::civil::Date;
use neuraxis::core::jiff::tz::TimeZone;
use neuraxis::core::jiff::{Span, Timestamp};
use neuraxis::core::log::describe::counted;
use neuraxis::core::log::{Stats as Figures, StatsRow};
use neuraxis::engine::SystemClock;
use neuraxis::ports::{Clock, StatsFilter};
use serde_json::json;

use crate::command::sessions::age;
use crate::error::CommandError;
use crate::glyphs::DOT;
use crate::listing::Format;
use crate::output::Output;
use crate::progress;
use crate::quantities::{brief_millis, moment, money, tokens};
use crate::setup::{Setup, with_store};
use crate::tree::Branches;
use crate::wrap::broken;
use table::Unit;

/// The default period, in days.
const USUAL: i64 = 30;

const EXAMPLES: &str = "\
Examples:
  neuraxis stats
  neuraxis stats --since 7d
  neuraxis stats --since 2026-11-01 --before 2026-12-01
  neuraxis stats --since 2026-11-01 --format json | jq '.models[] | {name, cost_micro_usd, cost_label}'";

/// Show what runs used: by day, owner, model, role, tool and agent
///
/// Runs, failures, tokens, cost, and durations: half of them (P50) and 95% of them (P95) took at most that long,
/// within 4%. Days are in this machine's time zone, and a run counts for the day on which it began. Next to a number,
/// ~ means an estimate, and + means at least that much.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stats {
    /// Only runs that began since then: an age such as 12h, 7d or 4w, a local date such as 2026-11-01, or `all`;
    /// default: 30d, or `all` with --before
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,

    /// Only runs that began before then: an age, or a local date, which is the first day that is left out
    #[arg(long, value_name = "WHEN", value_parser = before)]
    before: Option<Since>,

    /// Only runs of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// What to print: tables, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The beginning of the period, or its end.
#[derive(Debug, Clone, Copy)]
enum Since {
    Ever,
    Age(Span),
    Day(Timestamp),
}

fn since(text: &str) -> Result<Since, String> {
    if text == "all" {
        return Ok(Since::Ever);
    }
    if let Ok(day) = text.parse::<Date>() {
        let begins = day.to_zoned(TimeZone::system());
        return begins
            .map(|begins| Since::Day(begins.timestamp()))
            .map_err(|_| "that day does not exist".to_owned());
    }
    let expected = "it must be an age such as 7d or 52w, a day such as 2026-11-01, or all";
    age(text).map(Since::Age).map_err(|_| expected.to_owned())
}

fn before(text: &str) -> Result<Since, String> {
    let expected = "it must be an age such as 7d or 52w, or a day such as 2026-12-01";
    match since(text) {
        Ok(Since::Ever) => Err(expected.to_owned()),
        // A day that does not exist is named as such.
        Err(_) if text.parse::<Date>().is_err() => Err(expected.to_owned()),
        found => found,
    }
}

impl Stats {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let (since, before) = self.period()?;
        let mut filter = StatsFilter::default();
        (filter.since, filter.before) = (since, before);
        filter.owner.clone_from(&self.owner);
        filter.zone = Some(TimeZone::system());
        let open = setup.load()?.store().await?;
        let figures = with_store(open, async |sessions| sessions.stats(&filter).await).await?;
        let mut output = Output::new();
        if self.format == Format::Json {
            let mut value = json!(figures);
            if let Some(object) = value.as_object_mut() {
                object.insert("since".to_owned(), json!(since));
                object.insert("before".to_owned(), json!(before));
            }
            return Ok(output.line(&format!("{value:#}"))?);
        }
        if figures.total().runs == 0 {
            let of_owner = self.owner.as_ref().map_or("", |_| " of that owner");
            progress::notice(&format!(
                "no runs{of_owner} in that period; --since all includes every run"
            ));
            return Ok(());
        }
        let columns = output.columns();
        let drawn_with = Branches::of(&output);
        let period = period(since, before);
        // The only owner that was asked for needs no table.
        let owners = match self.owner {
            Some(_) => Vec::new(),
            None => figures.owners(),
        };
        output.painted(&in_text(&figures, &period, owners, drawn_with, columns))?;
        Ok(())
    }

    /// Returns when the period begins and ends.
    fn period(&self) -> Result<(Option<Timestamp>, Option<Timestamp>), CommandError> {
        let usual = match self.before {
            Some(_) => Since::Ever,
            None => Since::Age(Span::new().days(USUAL)),
        };
        let since = self.since.unwrap_or(usual).timestamp();
        let before = self.before.and_then(Since::timestamp);
        match since.zip(before) {
            Some((since, before)) if since >= before => {
                let error = anyhow!("the period ends before it begins");
                Err(CommandError::usage(error).hint("--before must be later than --since"))
            }
            _ => Ok((since, before)),
        }
    }
}

/// Formats when the period begins and ends; empty if it does neither.
fn period(since: Option<Timestamp>, before: Option<Timestamp>) -> String {
    let since = since.map(|since| format!("since {}", moment(since)));
    let before = before.map(|before| format!("before {}", moment(before)));
    let parts: Vec<String> = since.into_iter().chain(before).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("{}: ", parts.join(", ")),
    }
}

impl Since {
    fn timestamp(self) -> Option<Timestamp> {
        match self {
            Self::Ever => None,
            Self::Day(begins) => Some(begins),
            Self::Age(span) => {
                let now = SystemClock.now().to_zoned(TimeZone::UTC);
                // A period that reaches back beyond the earliest time includes everything.
                now.checked_sub(span).ok().map(|since| since.timestamp())
            }
        }
    }
}

fn in_text(
    figures: &Figures,
    period: &str,
    owners: Vec<StatsRow>,
    drawn_with: Branches,
    columns: Option<usize>,
) -> String {
    let total = figures.total();
    let mut parts = vec![counted(total.runs, "run")];
    if total.failures > 0 {
        parts.push(format!("{} failed", total.failures));
    }
    parts.push(counted(total.calls, "model call"));
    parts.push(format!("{} tokens", tokens(total.usage.total)));
    parts.extend(money(total.cost));
    let latency = total.latency;
    if let (Some(half), Some(most)) = (latency.p50_ms, latency.p95_ms) {
        let (half, most) = (brief_millis(half), brief_millis(most));
        parts.push(format!("50% within {half}, 95% within {most}"));
    }
    let line = format!("{period}{}", parts.join(DOT.as_str()));
    let line = broken(&line, columns.unwrap_or(usize::MAX), "  ");
    let mut text = format!("{line}\n");
    let tables = [
        ("DAY", figures.days(), Unit::Runs),
        ("OWNER", owners, Unit::Runs),
        ("MODEL", figures.models(), Unit::Calls),
        ("ROLE", figures.roles(), Unit::Calls),
        ("TOOL", figures.tools(), Unit::ToolCalls),
        ("AGENT", figures.agents(), Unit::Calls),
    ];
    for (heading, rows, unit) in tables {
        if !rows.is_empty() {
            text.push('\n');
            text.push_str(&table::draw(heading, &rows, unit, drawn_with, columns));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuraxis::core::log::LogSummary;
    use neuraxis::core::{MicroUsd, Record, RecordBody};
    use neuraxis::engine::read_log;

    use super::*;

    macro_rules! golden {
        ($name:literal) => {
            include_str!(concat!("../../../core/tests/golden/", $name, ".jsonl"))
        };
    }

    const OWNERS: [Option<&str>; 4] = [Some("ann"), None, Some("bob"), Some("ann")];

    fn figures() -> Figures {
        let mut figures = Figures::default();
        let logs = [
            (golden!("parallel_agents"), "2026-11-20T09:00:00Z"),
            (golden!("parallel_agents"), "2026-11-22T09:00:00Z"),
            (golden!("edited_approval_and_crash"), "2026-11-22T10:00:00Z"),
            (golden!("gather"), "2026-11-23T10:00:00Z"),
        ];
        for ((number, (log, began)), owner) in (1..).zip(logs).zip(OWNERS) {
            let records = read_log(log).unwrap().into_iter();
            let records: Vec<_> = records.map(|record| priced(record, number)).collect();
            let mut summary = LogSummary::of(&records);
            summary.started_at = began.parse().ok();
            figures.add_of(owner, &summary);
        }
        figures
    }

    fn priced(record: Arc<Record>, number: u64) -> Arc<Record> {
        let mut record = Arc::unwrap_or_clone(record);
        if let RecordBody::LlmCall(call) = &mut record.body {
            call.cost = Some(MicroUsd(number * 12_345));
        }
        Arc::new(record)
    }

    fn drawn(columns: Option<usize>, drawn_with: Branches) -> String {
        let since = "2026-11-01T00:00:00Z".parse().ok();
        let text = in_text(
            &figures(),
            &period(since, None),
            Vec::new(),
            drawn_with,
            columns,
        );
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn figures_fit_into_sixty_columns() {
        insta::assert_snapshot!(drawn(Some(60), Branches::Lines));
    }

    #[test]
    fn figures_fit_into_eighty_columns() {
        insta::assert_snapshot!(drawn(Some(80), Branches::Lines));
    }

    #[test]
    fn figures_fit_into_a_hundred_and_forty_columns() {
        insta::assert_snapshot!(drawn(Some(140), Branches::Ascii));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in 24..200 {
            for line in drawn(Some(columns), Branches::Lines).lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn owners_have_a_table_with_their_runs_and_costs() {
        let figures = figures();
        let owners = figures.owners();
        let text = in_text(&figures, "", owners, Branches::Lines, Some(80));
        let text = anstream::adapter::strip_str(&text).to_string();
        let mut lines = text.lines().skip_while(|line| !line.starts_with("OWNER"));
        let (_, first, second) = (lines.next(), lines.next(), lines.next());
        assert!(first.unwrap().starts_with("ann"), "{text}");
        assert!(second.unwrap().starts_with("bob"), "{text}");
        assert_eq!(lines.next(), Some(""), "{text}");
    }

    #[test]
    fn the_period_says_when_it_begins_and_ends() {
        let Ok(Since::Day(begins)) = since("2026-11-01") else {
            panic!("a day")
        };
        let Ok(Since::Day(ends)) = before("2026-12-01") else {
            panic!("a day")
        };
        for (since, before, expected) in [
            (None, None, ""),
            (Some(begins), None, "since 2026-11-01 00:00:00: "),
            (None, Some(ends), "before 2026-12-01 00:00:00: "),
            (
                Some(begins),
                Some(ends),
                "since 2026-11-01 00:00:00, before 2026-12-01 00:00:00: ",
            ),
        ] {
            assert_eq!(period(since, before), expected);
        }
        for wrong in ["all", "", "tomorrow", "2026-13-01"] {
            let error = before(wrong).unwrap_err();
            assert!(error.contains("such as 7d or 52w"), "{wrong}: {error}");
        }
    }

    #[test]
    fn since_accepts_an_age_a_day_or_all() {
        assert!(matches!(since("52w"), Ok(Since::Age(_))));
        assert!(matches!(since("all"), Ok(Since::Ever)));
        assert!(matches!(since("7d"), Ok(Since::Age(_))));
        let Ok(Since::Day(day)) = since("2026-11-01") else {
            panic!("a day")
        };
        assert_eq!(moment(day), "2026-11-01 00:00:00", "the reader's own day");
        for wrong in ["", "yesterday", "2026-13-01", "-3d", "7", "1y"] {
            let error = since(wrong).unwrap_err();
            assert!(error.contains("such as 7d or 52w"), "{wrong}: {error}");
        }
    }
}
