//! From the records of a run to the exchanges it had with its models.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    CallModel, Compaction, Effect, EffectId, Input, ModelRef, Record, RecordBody, RestoreError,
    Role, RunSpec, RunTree, Stamp, Transcript,
};

use crate::error::CassetteError;
use crate::exchange::{Ended, Event, Exchange, Header, Mode};

/// What the records of a run do not hold.
const NOT_CAPTURED: [&str; 5] = [
    "pieces: each reply comes whole, at the time of its end",
    "what a failed attempt had given before it failed",
    "calls that were open when the records ended",
    "the model that a failed attempt asked, where no call of its role succeeded",
    "what went over the wire: HTTP status, headers and bytes",
];

/// Follows a run from its records and returns every exchange that came to an end.
pub(super) fn exchanges(
    history: Transcript,
    records: &[Arc<Record>],
) -> Result<(Header, Vec<Exchange>), CassetteError> {
    // First the check that these records follow from each other, then the same way again with open eyes.
    let checked = RunTree::restore(history.clone(), records);
    checked.map_err(|source| CassetteError::Run { source })?;
    let exchanges = follow(history, records).map_err(|source| CassetteError::Run { source })?;
    let began = records.first();
    let header = Header {
        recorded_at: began.map_or(Timestamp::UNIX_EPOCH, |record| record.at),
        recorded_by: began.map_or_else(String::new, |record| {
            format!("the records of run {}", record.run_id)
        }),
        not_captured: NOT_CAPTURED.map(str::to_owned).into(),
    };
    Ok((header, exchanges))
}

fn follow(history: Transcript, records: &[Arc<Record>]) -> Result<Vec<Exchange>, RestoreError> {
    let first = records.first();
    let Some((first, started)) = first.and_then(|first| Some((first, first.run_started()?))) else {
        return Err(RestoreError::NoStart);
    };
    let mut spec = (*started.spec).clone();
    if let Some(RecordBody::Decision(decision)) = records.get(1).map(|record| &record.body) {
        spec.decision = Some(Arc::clone(decision));
    }
    let contexts = contexts(&spec);
    let (mut run, step) = RunTree::start(spec, history, stamp(first));
    let mut asked = Asked {
        open: BTreeMap::new(),
        began: first.at,
        models: models(records),
        contexts,
        exchanges: Vec::new(),
    };
    asked.note(step.effects);
    for record in records.iter().skip(1) {
        let Some(cause) = record.cause() else {
            continue;
        };
        asked.answered(record, &cause);
        let seq = record.seq;
        let step = run.advance(stamp(record), cause);
        let step = step.map_err(|source| RestoreError::Refused { seq, source })?;
        asked.note(step.effects);
    }
    Ok(asked.exchanges)
}

fn stamp(record: &Record) -> Stamp {
    let active = Duration::from_millis(record.active_ms.unwrap_or_default());
    Stamp::new(record.at, active)
}

/// Returns the model that answered for each role, as far as one did.
fn models(records: &[Arc<Record>]) -> BTreeMap<Role, ModelRef> {
    let calls = records.iter().filter_map(|record| match &record.body {
        RecordBody::LlmCall(call) => Some((call.served_by.clone(), call.reply.model.clone())),
        _ => None,
    });
    calls.collect()
}

/// Returns how much context the model of each role has, as far as the agents of a run say: what each was given is the least of
/// the models that may serve it.
fn contexts(spec: &RunSpec) -> BTreeMap<Role, u64> {
    let decision = spec.decision.as_deref();
    let routed = decision.and_then(|decision| decision.routing.as_ref());
    let larger = decision.and_then(|decision| decision.escalation.as_ref());
    let routed = routed.into_iter().flat_map(|routing| &routing.choices);
    let larger = larger.and_then(|escalation| escalation.role.as_ref());
    let besides = routed.chain(larger);
    let mut known: Vec<(&Role, Option<u64>)> = besides
        .map(|role| (role, spec.root.context_tokens))
        .collect();
    for agent in spec.all_agents() {
        known.extend(agent.turn_roles().map(|role| (role, agent.context_tokens)));
        if let Compaction::Summarize { role } = &agent.profile.compaction {
            known.push((role, agent.summary_context_tokens));
        }
    }
    let mut contexts = BTreeMap::new();
    for (role, tokens) in known {
        if let Some(tokens) = tokens {
            // An agent may have been given less than its model has, and never more.
            let most = contexts.entry(role.clone()).or_insert(tokens);
            *most = tokens.max(*most);
        }
    }
    contexts
}

/// What the run has asked of its models.
struct Asked {
    open: BTreeMap<EffectId, CallModel>,
    began: Timestamp,
    models: BTreeMap<Role, ModelRef>,
    contexts: BTreeMap<Role, u64>,
    exchanges: Vec<Exchange>,
}

impl Asked {
    fn note(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::CallModel(call) = effect {
                self.open.insert(call.effect_id, call);
            }
        }
    }

    fn answered(&mut self, record: &Record, cause: &Input) {
        let (effect, role, took, event) = match cause {
            Input::ModelReplied(replied) => (
                replied.effect_id,
                &replied.served_by,
                replied.duration,
                Event::Reply((*replied.reply).clone()),
            ),
            Input::ModelFailed(failed) => (
                failed.effect_id,
                &failed.served_by,
                failed.duration,
                Event::Error(failed.error.clone()),
            ),
            _ => return,
        };
        let Some(call) = self.open.get(&effect) else {
            return;
        };
        let ms = whole_millis(took);
        let ended = record.at.duration_since(self.began).as_millis();
        let model = match &event {
            Event::Reply(reply) => Some(&reply.model),
            _ => self.models.get(role),
        };
        // Where no model has the role that was asked, that of another serves it.
        let context = self
            .contexts
            .get(role)
            .or_else(|| self.contexts.get(&call.role));
        self.exchanges.push(Exchange {
            number: u32::try_from(self.exchanges.len() + 1).unwrap_or(u32::MAX),
            line: 0,
            role: role.clone(),
            model: model
                .cloned()
                .unwrap_or_else(|| ModelRef::new("unknown", "unknown")),
            context_tokens: context.copied(),
            mode: Mode::Whole,
            started_ms: u64::try_from(ended).unwrap_or_default().saturating_sub(ms),
            request: call.request.clone(),
            events: vec![(ms, event)],
            ended_ms: ms,
            ended: Ended::Ended,
        });
    }
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
