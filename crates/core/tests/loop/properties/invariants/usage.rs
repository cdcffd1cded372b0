//! The usage that a run reports, compared with its records.

use std::collections::BTreeSet;
use std::sync::Arc;

use neuraxis_core::{AgentId, Purpose, Record, RecordBody, RunUsage, Usage, UsageScope};

use super::agents::{parents, path};
use crate::properties::world::World;

/// Every agent that has ended reports its own usage, and that of the agents below it if its profile says so.
pub(super) fn adds_up(world: &World) {
    let parents = parents(&world.records);
    for record in &world.records {
        let (RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)) = &record.body else {
            continue;
        };
        let with_agents = world.profile_of(record.agent).usage == UsageScope::WithAgents;
        let counts = |agent: AgentId| {
            agent == record.agent || (with_agents && path(&parents, agent).contains(&record.agent))
        };
        is_sum(&outcome.usage, &usage_of(&world.records, counts));
        let limits = world.limits_of(record.agent);
        assert!(outcome.turns <= limits.max_turns.unwrap());
        let most = limits.max_turns.unwrap() * neuraxis_core::Limits::MODEL_CALLS_PER_TURN;
        let calls = turns_asked_for(&world.records, record.agent);
        assert!(
            calls <= most,
            "{calls} model calls for turns, at most {most}"
        );
        let below = |agent: AgentId| path(&parents, agent).contains(&record.agent);
        let calls = tool_calls(world, below);
        assert!(limits.max_tool_calls.is_none_or(|most| calls <= most));
    }
}

/// The numbers are the sum of what is on record; the labels are no better, and worse if an attempt was lost.
fn is_sum(told: &RunUsage, recorded: &RunUsage) {
    let counts = |usage: &Usage| {
        [
            usage.prompt,
            usage.completion,
            usage.total,
            usage.reasoning,
            usage.cached,
            usage.action,
        ]
    };
    for (told, recorded) in counts(&told.total).iter().zip(counts(&recorded.total)) {
        assert_eq!(told.tokens, recorded.tokens);
        assert!(told.label >= recorded.label);
    }
    for (role, recorded) in &recorded.roles {
        let told = counts(&told.roles[role]).map(|count| count.tokens);
        assert_eq!(told, counts(recorded).map(|count| count.tokens));
    }
}

fn usage_of(records: &[Arc<Record>], is_counted: impl Fn(AgentId) -> bool) -> RunUsage {
    let mut usage = RunUsage::default();
    for record in records.iter().filter(|record| is_counted(record.agent)) {
        match &record.body {
            RecordBody::LlmCall(call) => usage.add(&call.served_by, call.reply.usage),
            RecordBody::LlmFailed(failed) => {
                if let Some(used) = &failed.error.usage {
                    usage.add(&failed.served_by, **used);
                }
            }
            _ => {}
        }
    }
    usage
}

/// Counts the turns of an agent for which a model was called, regardless of the number of calls.
fn turns_asked_for(records: &[Arc<Record>], agent: AgentId) -> u32 {
    let mut turns = BTreeSet::new();
    for record in records.iter().filter(|record| record.agent == agent) {
        let purpose = match &record.body {
            RecordBody::LlmCall(call) => call.purpose,
            RecordBody::LlmFailed(failed) => failed.purpose,
            _ => continue,
        };
        if purpose == Purpose::Turn {
            turns.insert(record.turn);
        }
    }
    u32::try_from(turns.len()).unwrap()
}

/// Counts the calls that count toward limits: all except those that deliver an answer.
fn tool_calls(world: &World, is_counted: impl Fn(AgentId) -> bool) -> u32 {
    let mut distinct = BTreeSet::new();
    for record in world.records.iter().filter(|it| is_counted(it.agent)) {
        if let RecordBody::ToolCall(call) = &record.body
            && !world.spec_of(record.agent).is_delivered_by(&call.name)
        {
            distinct.insert(call.effect_id);
        }
    }
    u32::try_from(distinct.len()).unwrap()
}
