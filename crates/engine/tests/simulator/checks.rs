//! What must hold in every case.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis_core::{AgentId, CallIndex, Record, RecordBody, RunId, Seq, ToolCallId, run_messages};
use neuraxis_engine::{read_log, replay, write_log};
use neuraxis_ports::{RunLog as _, SessionIndex as _};
use neuraxis_testkit::assert_paired;

use crate::process;
use crate::world::World;

/// What was observed over all seeds.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<String, usize>);

impl Seen {
    pub(crate) fn assert_varied(&self) {
        for kind in [
            "final",
            "run_failed",
            "resumed",
            "steered",
            "cancelled",
            "waiting",
            "approval_decided",
            "llm_failed",
            "limit_reached",
            "outcome_unknown",
            "payment",
            "agent",
        ] {
            assert!(
                self.0.contains_key(kind),
                "never seen: {kind}; seen: {:?}",
                self.0
            );
        }
    }

    fn add(&mut self, what: &str) {
        *self.0.entry(what.to_owned()).or_default() += 1;
    }
}

pub(crate) fn has_ended(records: &[Arc<Record>]) -> bool {
    records.last().is_some_and(|record| is_end(record))
}

fn is_end(record: &Record) -> bool {
    record.agent == AgentId::ROOT
        && matches!(record.body, RecordBody::Final(_) | RecordBody::RunFailed(_))
}

/// Checks an ended run.
pub(crate) fn run(world: &World, run: RunId, seen: &mut Seen) {
    let (records, before) = process().block_on(async {
        let records = world.store.records(run, Seq(0)).await.unwrap();
        (records, world.store.history_before(run).await.unwrap())
    });
    for (record, seq) in records.iter().zip(1..) {
        assert_eq!(record.seq, Seq(seq), "a gap");
        seen.add(record.body.kind());
    }
    assert_eq!(
        records.iter().filter(|record| is_end(record)).count(),
        1,
        "not one end"
    );
    assert!(has_ended(&records), "something came after the end");
    let read = read_log(&write_log(&records)).unwrap();
    replay(&before, &read).unwrap();
    results(&records, seen);
    usage(&records);
    assert_paired(&run_messages(&records));
    for (effect, times) in world.payments.lock().unwrap().iter() {
        seen.add("payment");
        assert_eq!(*times, 1, "{effect} was paid {times} times");
    }
    journal(world, run, &records);
}

/// Every call that a reply requests has exactly one result, for every agent.
fn results(records: &[Arc<Record>], seen: &mut Seen) {
    let mut answered: BTreeMap<ToolCallId, u32> = BTreeMap::new();
    let mut asked = BTreeSet::new();
    for record in records {
        match &record.body {
            RecordBody::ToolResult(result) => {
                *answered.entry(result.tool_call_id.clone()).or_default() += 1;
                if result.failure == Some(neuraxis_core::ToolFailure::OutcomeUnknown) {
                    seen.add("outcome_unknown");
                }
            }
            RecordBody::LlmCall(call) if call.purpose == neuraxis_core::Purpose::Turn => {
                let place = record.content_index.unwrap();
                for (_, index) in call.reply.calls().zip(0..) {
                    asked.insert(ToolCallId::new(
                        record.run_id,
                        record.agent,
                        place,
                        CallIndex(index),
                    ));
                }
            }
            RecordBody::ToolCall(call) if !call.agents.is_empty() => seen.add("agent"),
            _ => {}
        }
    }
    assert!(
        answered.values().all(|times| *times == 1),
        "answered twice: {answered:?}"
    );
    let answered: BTreeSet<_> = answered.into_keys().collect();
    assert!(answered.is_subset(&asked), "results of nothing");
    // Calls of a reply that was cut off are dropped with it.
    let missing: Vec<_> = asked.difference(&answered).collect();
    let messages = run_messages(records);
    let in_history = messages.iter().flat_map(|message| message.tool_calls());
    let in_history: BTreeSet<_> = in_history.map(|call| call.id.clone()).collect();
    assert!(
        missing.iter().all(|id| !in_history.contains(*id)),
        "unanswered: {missing:?}"
    );
}

/// The usage that the run reports is the sum of its calls' usage.
fn usage(records: &[Arc<Record>]) {
    let mut sum = 0;
    let mut told = None;
    for record in records {
        match &record.body {
            RecordBody::LlmCall(call) => sum += call.reply.usage.total.tokens,
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)
                if record.agent == AgentId::ROOT =>
            {
                told = Some(outcome.usage.total.total.tokens);
            }
            _ => {}
        }
    }
    assert_eq!(told, Some(sum));
}

/// Every payment is in the journal: nothing irreversible ran without a prior record.
fn journal(world: &World, run: RunId, records: &[Arc<Record>]) {
    let journal: BTreeSet<_> = records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::ToolCall(call) if &*call.name == "pay" => Some(call.effect_id),
            _ => None,
        })
        .collect();
    let payments = world.payments.lock().unwrap();
    let of_run = payments.keys().filter(|effect| effect.run == run);
    let unrecorded: Vec<_> = of_run.filter(|effect| !journal.contains(effect)).collect();
    assert!(unrecorded.is_empty(), "not in the journal: {unrecorded:?}");
}

/// Checks the session after its runs.
pub(crate) fn session(world: &World, asked: &[String]) {
    let history = process().block_on(world.store.history(&world.session));
    let Ok(history) = history else {
        assert!(asked.is_empty());
        return;
    };
    assert_paired(history.messages());
    let is_question = |text: &String| text.starts_with("question");
    let said = history.messages().iter().map(|message| message.text());
    let said: Vec<_> = said.filter(is_question).collect();
    let trimmed = asked.len() - said.len();
    assert_eq!(said, asked[trimmed..], "a message that was taken is gone");
}
