//! What one run did by model, role, tool and agent: small enough to store beside its records, and mergeable across
//! runs.
//!
//! For the total usage of a run, see its [`RunMeter`](crate::RunMeter).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latencies::Latencies;
use crate::finish::RunStatus;
use crate::ids::AgentId;
use crate::json::is_default;
use crate::metrics::Cost;
use crate::outcome::ToolFailure;
use crate::record::{Record, RecordBody, RunStarted, ToolResult};
use crate::usage::Usage;

/// Maximum number of distinct names of one kind, in a run and in the aggregate of many runs.
pub(super) const MAX_NAMES: usize = 200;

/// The name for all others.
pub(super) const OTHERS: &str = "(others)";

/// The name for calls of nonexistent tools, whose names the model made up.
const UNKNOWN_TOOL: &str = "(unknown tools)";

/// Tallies by the name of the model, tool or agent.
pub(super) type Named = BTreeMap<String, Tallied>;

/// What a run did by model, role, tool and agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Tally {
    /// By `provider/model`.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub models: Named,
    /// By the role that served.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub roles: Named,
    /// By the tool's name.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub tools: Named,
    /// By the profile of the answering agent, and by the tools that start the other agents.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub agents: Named,
    /// The agents that have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    at_work: Vec<AtWork>,
    /// How long the run had been active at its last step, in milliseconds.
    active_ms: u64,
}

/// What one model, role, tool or agent did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Tallied {
    /// Model calls that returned a reply, tool calls with a result, or agents that ended.
    pub calls: u64,
    /// Attempts of model calls that failed, tool calls whose result is an error, or agents that failed.
    pub failures: u64,
    /// The tokens of its model calls, including failed attempts as far as known; zero for tools.
    #[serde(skip_serializing_if = "is_default")]
    pub usage: Usage,
    /// The cost of those tokens, and how certain it is.
    #[serde(skip_serializing_if = "is_default")]
    pub cost: Cost,
    /// How long model calls that returned a reply, tool calls that ran, or agents that ended took.
    #[serde(skip_serializing_if = "Latencies::is_empty")]
    pub latencies: Latencies,
}

/// An agent that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AtWork {
    agent: AgentId,
    name: String,
    /// How long the run had been active when it began, in milliseconds.
    since_ms: u64,
}

impl Tally {
    /// Returns whether nothing was counted and nothing is about to be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the run's next record.
    pub fn read(&mut self, record: &Record) {
        if let Some(active) = record.active_ms {
            self.active_ms = self.active_ms.max(active);
        }
        match &record.body {
            RecordBody::RunStarted(started) => self.begin_root(started),
            RecordBody::LlmCall(call) => {
                let cost = Cost::of(&record.body).unwrap_or_default();
                let model = call.reply.model.to_string();
                let served = [
                    entry(&mut self.models, &model),
                    entry(&mut self.roles, call.served_by.as_str()),
                ];
                for row in served {
                    row.calls += 1;
                    row.latencies.add(call.duration);
                    row.pay(call.reply.usage, cost);
                }
                self.pay(record.agent, call.reply.usage, cost);
            }
            RecordBody::LlmFailed(failed) => {
                let cost = Cost::of(&record.body).unwrap_or_default();
                let usage = failed.error.used().unwrap_or_default();
                let model = failed.model.as_ref().map(ToString::to_string);
                let model = model.map(|model| entry(&mut self.models, &model));
                let role = entry(&mut self.roles, failed.served_by.as_str());
                for row in model.into_iter().chain([role]) {
                    row.failures += 1;
                    row.pay(usage, cost);
                }
                self.pay(record.agent, usage, cost);
            }
            RecordBody::ToolCall(call) => {
                let since_ms = self.active_ms;
                let began = call.agents.iter().map(|agent| AtWork {
                    agent: *agent,
                    name: call.name.to_string(),
                    since_ms,
                });
                self.at_work.extend(began);
            }
            RecordBody::ToolResult(result) => self.count_result(result),
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => {
                self.end(record.agent, outcome.status());
            }
            _ => {}
        }
    }

    fn begin_root(&mut self, started: &RunStarted) {
        self.at_work.push(AtWork {
            agent: AgentId::ROOT,
            name: started.spec.root.profile.name.clone(),
            since_ms: 0,
        });
    }

    fn count_result(&mut self, result: &ToolResult) {
        let name = match result.failure {
            Some(ToolFailure::UnknownTool) => UNKNOWN_TOOL,
            _ => &result.name,
        };
        let row = entry(&mut self.tools, name);
        row.calls += 1;
        row.failures += u64::from(result.failure.is_some());
        if let Some(took) = result.duration {
            row.latencies.add(took);
        }
    }

    fn pay(&mut self, agent: AgentId, usage: Usage, cost: Cost) {
        let at_work = self.at_work.iter().find(|it| it.agent == agent);
        if let Some(AtWork { name, .. }) = at_work {
            entry(&mut self.agents, name).pay(usage, cost);
        }
    }

    fn end(&mut self, agent: AgentId, status: RunStatus) {
        let place = self.at_work.iter().position(|it| it.agent == agent);
        if let Some(ended) = place.map(|place| self.at_work.swap_remove(place)) {
            let row = entry(&mut self.agents, &ended.name);
            row.calls += 1;
            row.failures += u64::from(status == RunStatus::Failed);
            let took = self.active_ms.saturating_sub(ended.since_ms);
            row.latencies.add(Duration::from_millis(took));
        }
    }
}

impl Tallied {
    fn pay(&mut self, usage: Usage, cost: Cost) {
        self.usage += usage;
        self.cost += cost;
    }

    /// Adds the tally of another run.
    pub(super) fn merge(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failures = self.failures.saturating_add(other.failures);
        self.pay(other.usage, other.cost);
        self.latencies.merge(&other.latencies);
    }
}

/// Returns the entry for a name, or the shared entry if there is no room for another name.
pub(super) fn entry<'a, T: Default>(named: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let has_room = named.len() < MAX_NAMES || named.contains_key(name);
    let name = if has_room { name } else { OTHERS };
    named.entry(name.to_owned()).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_count_as_one() {
        let mut named = BTreeMap::<String, u64>::new();
        for number in 0..MAX_NAMES + 50 {
            *entry(&mut named, &number.to_string()) += 1;
        }
        *entry(&mut named, "7") += 1;
        assert_eq!(named.len(), MAX_NAMES + 1);
        assert_eq!((named.get(OTHERS), named.get("7")), (Some(&50), Some(&2)));
    }

    #[test]
    fn a_stored_tally_continues_where_it_stopped() {
        let log = include_str!("../../tests/golden/parallel_agents.jsonl");
        let records = log.lines().map(|line| Record::from_json(line).unwrap());
        let records: Vec<Record> = records.collect();
        let mut whole = Tally::default();
        let mut kept = Tally::default();
        for record in &records {
            whole.read(record);
            kept.read(record);
            let text = serde_json::to_string(&kept).unwrap();
            kept = serde_json::from_str(&text).unwrap();
        }
        assert_eq!(kept, whole);
        assert!(whole.at_work.is_empty(), "{:?}", whole.at_work);
        let agents: Vec<_> = whole.agents.iter().collect();
        assert!(agents.len() > 1, "{agents:?}");
        let calls = |named: &Named| named.values().map(|row| row.calls).sum::<u64>();
        let of_kind = |kind| records.iter().filter(|it| it.body.kind() == kind).count() as u64;
        assert_eq!(calls(&whole.models), of_kind("llm_call"));
        assert_eq!(calls(&whole.tools), of_kind("tool_result"));
    }
}
