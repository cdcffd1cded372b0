//! Aggregates many runs: in total, and by day, owner, model, role, tool and agent. It takes no more space for a
//! million runs than for a hundred.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};

use super::latencies::Latencies;
use super::summary::LogSummary;
use super::tally::{Named, Tallied, entry};
use crate::finish::RunStatus;
use crate::metrics::Cost;
use crate::usage::Usage;

/// Aggregated statistics of many runs. Each run counts entirely toward the day on which it began: in UTC, unless
/// [another time zone](Self::with_days_in) is set.
///
/// ```
/// use neuraxis_core::log::Stats;
///
/// let stats = Stats::default();
/// assert_eq!(stats.total().runs, 0);
/// assert!(stats.days().is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    zone: Option<TimeZone>,
    total: Sum,
    days: BTreeMap<Date, Sum>,
    owners: BTreeMap<String, Sum>,
    models: BTreeMap<String, Sum>,
    roles: BTreeMap<String, Sum>,
    tools: BTreeMap<String, Sum>,
    agents: BTreeMap<String, Sum>,
}

/// Totals for a day, owner, model, role, tool or agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Sum {
    runs: u64,
    did: Tallied,
}

/// Totals for a day, owner, model, role, tool or agent, or for everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StatsRow {
    /// The name: a day as `2026-11-24`, a model as `provider/model`; empty for the total.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The number of runs that began on that day, belong to that owner or involved the item.
    pub runs: u64,
    /// Model calls that returned a reply; for a tool, calls with a result; for an agent, how often it ended.
    pub calls: u64,
    /// For a day, an owner and the total, runs that failed; for a model or role, failed attempts of calls; for a tool, calls
    /// whose result is an error; for an agent, how often it failed.
    pub failures: u64,
    /// The tokens of its model calls; zero for a tool.
    pub usage: Usage,
    /// The cost of those tokens, and how certain it is.
    #[serde(flatten)]
    pub cost: Cost,
    /// For runs that ended, how long they were active; for a model or role, how long calls took that returned a reply;
    /// for a tool, how long calls took that ran; for an agent, how long it worked.
    pub latency: Latency,
}

/// Latency percentiles, within 4 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Latency {
    /// The median, in milliseconds; null in JSON if nothing was measured.
    pub p50_ms: Option<u64>,
    /// The 95th percentile, in milliseconds; null in JSON if nothing was measured.
    pub p95_ms: Option<u64>,
}

impl Stats {
    /// Assigns runs to days of a time zone. Call this before adding any run.
    #[must_use]
    pub fn with_days_in(mut self, zone: TimeZone) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Adds a run of a session without an owner by its summary. A run without records adds nothing.
    pub fn add(&mut self, run: &LogSummary) {
        self.add_of(None, run);
    }

    /// Adds a run by its summary and the owner of its session. A run without records adds nothing.
    pub fn add_of(&mut self, owner: Option<&str>, run: &LogSummary) {
        let Some(started) = run.started_at else {
            return;
        };
        let whole = whole(run);
        self.total.add(&whole);
        let zone = self.zone.clone().unwrap_or(TimeZone::UTC);
        let day = started.to_zoned(zone).date();
        self.days.entry(day).or_default().add(&whole);
        if let Some(owner) = owner {
            entry(&mut self.owners, owner).add(&whole);
        }
        let kinds = [
            (&mut self.models, &run.tally.models),
            (&mut self.roles, &run.tally.roles),
            (&mut self.tools, &run.tally.tools),
            (&mut self.agents, &run.tally.agents),
        ];
        for (sums, named) in kinds {
            add_named(sums, named);
        }
    }

    /// Returns the total over all runs.
    #[must_use]
    pub fn total(&self) -> StatsRow {
        self.total.row(String::new())
    }

    /// Returns the days on which runs began, oldest first.
    #[must_use]
    pub fn days(&self) -> Vec<StatsRow> {
        let days = self.days.iter();
        days.map(|(day, sum)| sum.row(day.to_string())).collect()
    }

    /// Returns the owners of the runs' sessions, most expensive first. Runs of sessions without an owner are in none.
    #[must_use]
    pub fn owners(&self) -> Vec<StatsRow> {
        rows(&self.owners)
    }

    /// Returns the models that were called, most expensive first.
    #[must_use]
    pub fn models(&self) -> Vec<StatsRow> {
        rows(&self.models)
    }

    /// Returns the roles that served, most expensive first.
    #[must_use]
    pub fn roles(&self) -> Vec<StatsRow> {
        rows(&self.roles)
    }

    /// Returns the tools that were called, most frequent first.
    #[must_use]
    pub fn tools(&self) -> Vec<StatsRow> {
        rows(&self.tools)
    }

    /// Returns the agents that worked, most expensive first.
    #[must_use]
    pub fn agents(&self) -> Vec<StatsRow> {
        rows(&self.agents)
    }
}

/// Statistics as they are serialized.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Stats"))]
struct Shown {
    /// All runs together, regardless of the day.
    total: StatsRow,
    /// By day, oldest first; days without runs are omitted.
    days: Vec<StatsRow>,
    /// By the owner of the session, most expensive first; runs of sessions without an owner are in none.
    owners: Vec<StatsRow>,
    /// By model, most expensive first.
    models: Vec<StatsRow>,
    /// By the role that served, most expensive first.
    roles: Vec<StatsRow>,
    /// By tool, most frequent first.
    tools: Vec<StatsRow>,
    /// By agent, most expensive first: the answering agent by its profile, others by the tools that start them.
    agents: Vec<StatsRow>,
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Shown {
            total: self.total(),
            days: self.days(),
            owners: self.owners(),
            models: self.models(),
            roles: self.roles(),
            tools: self.tools(),
            agents: self.agents(),
        }
        .serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Stats {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Stats".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Shown::json_schema(generator)
    }
}

impl Sum {
    fn add(&mut self, did: &Tallied) {
        self.runs = self.runs.saturating_add(1);
        self.did.merge(did);
    }

    fn row(&self, name: String) -> StatsRow {
        let did = &self.did;
        let millis = |percent| {
            let took = did.latencies.percentile(percent)?;
            u64::try_from(took.as_millis()).ok()
        };
        StatsRow {
            name,
            runs: self.runs,
            calls: did.calls,
            failures: did.failures,
            usage: did.usage,
            cost: did.cost,
            latency: Latency {
                p50_ms: millis(50),
                p95_ms: millis(95),
            },
        }
    }
}

/// Returns the tally of a whole run.
fn whole(run: &LogSummary) -> Tallied {
    let used = run.metrics();
    let mut latencies = Latencies::default();
    if run.ended_at.is_some() {
        latencies.add(used.worked);
    }
    Tallied {
        calls: used.llm_calls,
        failures: u64::from(run.status == RunStatus::Failed),
        usage: used.usage.total,
        cost: used.paid(),
        latencies,
    }
}

fn add_named(sums: &mut BTreeMap<String, Sum>, named: &Named) {
    for (name, did) in named {
        entry(sums, name).add(did);
    }
}

fn rows(sums: &BTreeMap<String, Sum>) -> Vec<StatsRow> {
    let mut rows: Vec<_> = sums
        .iter()
        .map(|(name, sum)| sum.row(name.clone()))
        .collect();
    // Equal rows stay in the order of their names.
    rows.sort_by_key(|row| std::cmp::Reverse((row.cost.amount, row.calls)));
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::Record;

    fn golden(log: &str) -> LogSummary {
        let records = log.lines().map(|line| Record::from_json(line).unwrap());
        let records: Vec<_> = records.map(Arc::new).collect();
        LogSummary::of(&records)
    }

    #[test]
    fn the_sums_of_owners_are_those_of_their_runs_and_leave_out_runs_of_nobody() {
        let run = golden(include_str!("../../tests/golden/parallel_agents.jsonl"));
        let mut stats = Stats::default();
        for owner in [Some("ann"), None, Some("bob"), Some("ann")] {
            stats.add_of(owner, &run);
        }
        stats.add_of(Some("cid"), &LogSummary::default());
        let owners = stats.owners();
        let named = |row: &StatsRow| (row.name.clone(), row.runs, row.calls);
        let calls = run.metrics().llm_calls;
        let found: Vec<_> = owners.iter().map(named).collect();
        let row = |name: &str, runs| (name.to_owned(), runs, runs * calls);
        assert_eq!(found, [row("ann", 2), row("bob", 1)]);
        assert_eq!(stats.total().runs, 4);
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["owners"][0]["name"], "ann");
    }

    #[test]
    fn a_run_counts_once_per_part_and_for_the_day_it_started() {
        let run = golden(include_str!("../../tests/golden/parallel_agents.jsonl"));
        let mut later = run.clone();
        later.started_at = "2031-02-03T23:59:59Z".parse().ok();
        let mut stats = Stats::default();
        for run in [&run, &later, &run, &LogSummary::default()] {
            stats.add(run);
        }
        let (total, days) = (stats.total(), stats.days());
        assert_eq!(total.runs, 3);
        let named = |row: &StatsRow| (row.name.clone(), row.runs);
        let days: Vec<_> = days.iter().map(named).collect();
        let first = run.started_at.unwrap().strftime("%F").to_string();
        assert_eq!(days, [(first, 2), ("2031-02-03".to_owned(), 1)]);
        for rows in [stats.models(), stats.roles(), stats.tools(), stats.agents()] {
            assert!(rows.iter().all(|row| row.runs == 3), "{rows:?}");
        }
        let sum = |rows: Vec<StatsRow>| rows.iter().map(|row| row.calls).sum::<u64>();
        assert_eq!(sum(stats.models()), total.calls);
        assert_eq!(total.calls, 3 * run.metrics().llm_calls);
        let tokens = |row: &StatsRow| row.usage.total.tokens;
        let of_agents: u64 = stats.agents().iter().map(tokens).sum();
        assert_eq!(of_agents, tokens(&total));
    }
}
