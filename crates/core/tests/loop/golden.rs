//! Complete logs, as data in `tests/golden`: what the types must be able to express, and how the machine must handle
//! it.
//!
//! A log is JSON Lines, one record per line; the history that a run continued is stored beside it. The logs of a
//! release never change: a change that makes one fail is a change of the loop's version. Logs of earlier versions stay:
//! those of version 3 have it in their name, the others are of version 1 or of the current one.

mod conversation;
mod scripts;

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::{
    AgentId, Message, Record, RecordBody, RunOutcome, RunStarted, RunTree, RunUsage, Transcript,
    run_messages,
};

use crate::support::{assert_valid, read_line, to_lines};
use conversation::Conversations;

/// A log and the history its run continued.
struct Golden {
    name: &'static str,
    log: &'static str,
    history: &'static str,
}

/// Creates a golden log from the file with this name, and from the history beside it if there is one.
macro_rules! golden {
    ($name:literal) => {
        golden!($name, "[]")
    };
    ($name:literal, with history) => {
        golden!(
            $name,
            include_str!(concat!("../golden/", $name, ".history.json"))
        )
    };
    ($name:literal, $history:expr) => {
        Golden {
            name: $name,
            log: include_str!(concat!("../golden/", $name, ".jsonl")),
            history: $history,
        }
    };
}

/// The logs that the machine must reproduce.
const LOGS: [Golden; 17] = [
    golden!("edited_approval_and_crash", with history),
    golden!("last_answer_retry"),
    golden!("gather"),
    golden!("client_tool"),
    golden!("fork", with history),
    PARALLEL_AGENTS,
    golden!("compaction", with history),
    golden!("budget_end"),
    golden!("hook_stop"),
    golden!("nested_approval"),
    golden!("checked_and_escalated"),
    golden!("giving_way", with history),
    golden!("version_3_compaction", with history),
    golden!("version_3_budget_end"),
    golden!("version_3_hook_stop"),
    golden!("version_3_nested_approval"),
    golden!("version_3_checked_and_escalated"),
];

/// The log of agents that work concurrently.
const PARALLEL_AGENTS: Golden = golden!("parallel_agents");

impl Golden {
    fn records(&self) -> Vec<Arc<Record>> {
        self.log.lines().map(read_line).collect()
    }

    fn history(&self) -> Transcript {
        let messages: Vec<Message> = serde_json::from_str(self.history).unwrap();
        messages.into_iter().collect()
    }
}

fn started(records: &[Arc<Record>]) -> &RunStarted {
    match &records[0].body {
        RecordBody::RunStarted(started) => started,
        other => panic!("a log begins with {}", other.kind()),
    }
}

fn end(record: &Record) -> Option<&RunOutcome> {
    match &record.body {
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => Some(outcome),
        _ => None,
    }
}

#[test]
fn every_line_is_a_record_that_round_trips_to_the_same_bytes() {
    for golden in LOGS {
        let lines: Vec<_> = golden.log.lines().collect();
        assert_eq!(to_lines(&golden.records()), lines, "{}", golden.name);
        assert!(golden.log.ends_with("}\n"), "{}", golden.name);
    }
}

#[test]
fn records_are_numbered_without_gaps_and_belong_to_one_run() {
    for golden in LOGS {
        let records = golden.records();
        for (record, seq) in records.iter().zip(1..) {
            assert_eq!(record.seq.0, seq, "{}", golden.name);
            assert_eq!(
                record.run_id,
                started(&records).spec.run_id,
                "{}",
                golden.name
            );
        }
    }
}

#[test]
fn every_agent_ends_once_and_the_root_agent_last() {
    for golden in LOGS {
        let records = golden.records();
        let mut ends = BTreeMap::new();
        for record in records.iter().filter(|record| end(record).is_some()) {
            assert_eq!(
                ends.insert(record.agent, record.seq),
                None,
                "{}",
                golden.name
            );
        }
        let agents: Vec<_> = records.iter().map(|record| record.agent).collect();
        assert!(
            agents.iter().all(|agent| ends.contains_key(agent)),
            "{}",
            golden.name
        );
        assert_eq!(
            ends[&AgentId::ROOT],
            records.last().unwrap().seq,
            "{}",
            golden.name
        );
    }
}

#[test]
fn only_the_first_record_of_a_step_has_an_active_time_and_times_never_decrease() {
    for golden in LOGS {
        let records = golden.records();
        let times: Vec<_> = records
            .iter()
            .filter_map(|record| record.active_ms)
            .collect();
        assert!(times.is_sorted(), "{}", golden.name);
        for record in &records[1..] {
            assert_eq!(
                record.active_ms.is_some(),
                record.cause().is_some(),
                "{}",
                golden.name
            );
        }
    }
}

#[test]
fn the_messages_a_model_call_records_match_the_log_before_it() {
    for golden in LOGS {
        let records = golden.records();
        let mut conversations = Conversations::new(started(&records), &golden.history());
        for record in &records {
            conversations.read(record);
        }
        for messages in conversations.into_messages() {
            let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
            assert_valid(&messages);
        }
    }
}

#[test]
fn the_usage_of_a_run_is_the_sum_of_all_its_attempts_and_agents() {
    for golden in LOGS {
        let records = golden.records();
        let mut by_agent: BTreeMap<AgentId, RunUsage> = BTreeMap::new();
        let mut parents = BTreeMap::new();
        for record in &records {
            let (role, used) = match &record.body {
                RecordBody::ToolCall(call) => {
                    parents.extend(call.agents.iter().map(|agent| (*agent, record.agent)));
                    continue;
                }
                RecordBody::LlmCall(call) => (&call.served_by, call.reply.usage),
                RecordBody::LlmFailed(failed) => (
                    &failed.served_by,
                    *failed.error.usage.clone().unwrap_or_default(),
                ),
                _ => continue,
            };
            let up = |agent: &AgentId| parents.get(agent).copied();
            for agent in std::iter::successors(Some(record.agent), up) {
                by_agent.entry(agent).or_default().add(role, used);
            }
        }
        for record in &records {
            if let Some(outcome) = end(record) {
                assert_eq!(outcome.usage, by_agent[&record.agent], "{}", golden.name);
            }
        }
    }
}

/// Returns how many of a run's own messages gave way, unlike those of the conversation before it.
fn own_removed(records: &[Arc<Record>]) -> usize {
    let start = started(records).history.count;
    let removed = records.iter().flat_map(|record| match &record.body {
        RecordBody::ContextTrimmed(trimmed) => trimmed.removed.as_slice(),
        _ => &[],
    });
    let own = removed.filter(|span| span.start >= start);
    let counts = own.map(|span| usize::try_from(span.end - span.start).unwrap());
    counts.sum()
}

#[test]
fn every_log_replays_record_by_record() {
    for golden in LOGS {
        let records = golden.records();
        let (run, unanswered) = RunTree::restore(golden.history(), &records)
            .unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        assert!(unanswered.is_empty(), "{}: {unanswered:?}", golden.name);
        assert_eq!(
            Some(run.status()),
            end(records.last().unwrap()).map(RunOutcome::status)
        );
        let mut own = run_messages(&records);
        let removed = own_removed(&records);
        own.retain(|message| removed == 0 || run.messages().contains(message));
        assert_eq!(own.len() + removed, run_messages(&records).len());
        assert!(run.messages().ends_with(&own), "{}", golden.name);
        assert_valid(run.messages());
    }
}

#[test]
fn the_history_of_a_log_is_the_one_its_run_started_with() {
    for golden in LOGS {
        let records = golden.records();
        assert_eq!(
            golden.history().digest(),
            started(&records).history,
            "{}",
            golden.name
        );
    }
}

#[test]
fn parallel_agents_share_one_numbering_and_return_one_array_in_request_order() {
    let records = PARALLEL_AGENTS.records();
    let call = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolCall(call) if !call.agents.is_empty() => Some(call),
        _ => None,
    });
    let agents = &call.unwrap().agents;
    let answers = agents.iter().map(|agent| {
        let own = records.iter().filter(|record| record.agent == *agent);
        own.filter_map(|record| end(record))
            .next()
            .unwrap()
            .content
            .clone()
    });
    let answers: Vec<_> = answers.collect();
    let result = records.iter().rev().find_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some(result),
        _ => None,
    });
    let value: Vec<String> = result.unwrap().value.decode().unwrap();
    assert_eq!(value, answers);
    let mut indexes: Vec<_> = records
        .iter()
        .filter_map(|record| record.content_index)
        .collect();
    indexes.sort();
    indexes.dedup();
    let all: Vec<_> = (0..9).map(neuraxis_core::ContentIndex).collect();
    assert_eq!(indexes, all);
}
