//! The tree of agents and its budgets, according to the records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis_core::{AgentId, Attempt, Effect, Purpose, Record, RecordBody, Step, Usage};

use crate::properties::world::World;

/// Returns the agent that started each agent.
pub(super) fn parents(records: &[Arc<Record>]) -> BTreeMap<AgentId, AgentId> {
    let mut parents = BTreeMap::new();
    for record in records {
        if let RecordBody::ToolCall(call) = &record.body {
            parents.extend(call.agents.iter().map(|agent| (*agent, record.agent)));
        }
    }
    parents
}

/// Returns an agent and all above it.
pub(super) fn path(parents: &BTreeMap<AgentId, AgentId>, agent: AgentId) -> Vec<AgentId> {
    let up = |agent: &AgentId| parents.get(agent).copied();
    std::iter::successors(Some(agent), up).collect()
}

/// Agents are started once, in order, by one that has not ended, and end before it; after that, no record mentions
/// them.
pub(super) fn are_a_tree(records: &[Arc<Record>]) {
    let parents = parents(records);
    let mut started = BTreeSet::from([AgentId::ROOT]);
    let mut ended = BTreeSet::new();
    for record in records {
        assert!(
            started.contains(&record.agent),
            "{} was never started",
            record.agent
        );
        assert!(
            !ended.contains(&record.agent),
            "{} goes on after its end",
            record.agent
        );
        match &record.body {
            RecordBody::ToolCall(call) => {
                for agent in &call.agents {
                    assert!(started.insert(*agent) && *agent > record.agent);
                }
            }
            RecordBody::Final(_) | RecordBody::RunFailed(_) => {
                ended.insert(record.agent);
                let is_open = |agent: &AgentId| !ended.contains(agent);
                let mut below = parents
                    .iter()
                    .filter(|(_, parent)| **parent == record.agent);
                let open = below.find(|(agent, _)| started.contains(agent) && is_open(agent));
                assert_eq!(open, None, "{} ends before its agents", record.agent);
            }
            _ => {}
        }
    }
}

/// After an agent has reached a limit, nothing (no approval, crash or message) lets it start a call again, except one
/// that delivers its answer.
pub(super) fn start_nothing_after_a_limit(world: &World) {
    let mut closed = BTreeSet::new();
    for record in &world.records {
        match &record.body {
            RecordBody::LimitReached(_) | RecordBody::MaxTurnsReached(_) => {
                closed.insert(record.agent);
            }
            RecordBody::ToolCall(call)
                if !world.spec_of(record.agent).is_delivered_by(&call.name) =>
            {
                assert!(!closed.contains(&record.agent), "{call:?} after a limit");
            }
            _ => {}
        }
    }
}

/// A turn begins only while the usage of all agents below leaves something of each budget above it, and time is not up.
pub(super) fn begin_no_turn_without_budget(world: &World, step: &Step) {
    let cause = step.records.first().map(|record| &record.body);
    let makes_room = matches!(cause, Some(RecordBody::LlmCall(call)) if call.purpose == Purpose::Compaction)
        || matches!(cause, Some(RecordBody::LlmFailed(_)));
    if makes_room {
        // A call that began earlier is made again in another way.
        return;
    }
    let parents = parents(&world.records);
    for effect in &step.effects {
        let Effect::CallModel(call) = effect else {
            continue;
        };
        if call.purpose != Purpose::Turn || call.attempt != Attempt(1) {
            continue;
        }
        for above in path(&parents, call.agent) {
            let limits = world.limits_of(above);
            let (tokens, cost) = spent(&world.records, &parents, above);
            assert!(
                limits.max_tokens.is_none_or(|most| tokens < most),
                "{tokens} tokens"
            );
            assert!(
                limits.max_cost.is_none_or(|most| cost < most.0),
                "{cost} spent"
            );
        }
    }
}

fn spent(
    records: &[Arc<Record>],
    parents: &BTreeMap<AgentId, AgentId>,
    above: AgentId,
) -> (u64, u64) {
    let (mut tokens, mut money) = (0, 0);
    let below = |record: &&Arc<Record>| path(parents, record.agent).contains(&above);
    for record in records.iter().filter(below) {
        match &record.body {
            RecordBody::LlmCall(call) => {
                tokens += used(&call.reply.usage);
                money += call.cost.unwrap_or_default().0;
            }
            RecordBody::LlmFailed(failed) => {
                tokens += failed.error.usage.as_deref().map_or(0, used);
            }
            _ => {}
        }
    }
    (tokens, money)
}

fn used(usage: &Usage) -> u64 {
    let parts = usage.prompt.tokens + usage.completion.tokens;
    usage.total.tokens.max(parts)
}
