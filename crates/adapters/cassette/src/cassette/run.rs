//! Converts the records of a run to the exchanges it had with its models.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    CallModel, Compaction, Effect, EffectId, Input, ModelRef, Record, RecordBody, Role, RunTree,
    Transcript, whole_millis,
};

use crate::error::CassetteError;
use crate::exchange::{Ended, Event, Exchange, Header, Mode};

/// What the records of a run lack.
const NOT_CAPTURED: [&str; 5] = [
    "stream pieces: each reply is complete and has the time of its end",
    "the partial output of failed attempts",
    "calls that were in progress when the records ended",
    "the model of a failed attempt, if no call of its role succeeded",
    "the HTTP exchange: status, headers and bytes",
];

/// Replays a run from its records and returns every completed exchange.
pub(super) fn exchanges(
    history: Transcript,
    records: &[Arc<Record>],
) -> Result<(Header, Vec<Exchange>), CassetteError> {
    let mut requests = RunRequests {
        open: BTreeMap::new(),
        began: records
            .first()
            .map_or(Timestamp::UNIX_EPOCH, |record| record.at),
        models: models(records),
        contexts: contexts(records),
        exchanges: Vec::new(),
    };
    let followed = RunTree::restore_seeing(history, records, |run, record, effects| {
        requests.note_answer(record);
        requests.note_calls(run, effects);
    });
    followed.map_err(|source| CassetteError::Run { source })?;
    let header = Header {
        recorded_at: requests.began,
        recorded_by: records.first().map_or_else(String::new, |record| {
            format!("the records of run {}", record.run_id)
        }),
        not_captured: NOT_CAPTURED.map(str::to_owned).into(),
    };
    Ok((header, requests.exchanges))
}

/// Returns the model that answered for each role, if one did.
fn models(records: &[Arc<Record>]) -> BTreeMap<Role, ModelRef> {
    let calls = records.iter().filter_map(|record| match &record.body {
        RecordBody::LlmCall(call) => Some((call.served_by.clone(), call.reply.model.clone())),
        _ => None,
    });
    calls.collect()
}

/// Returns the context size of each role's model, as far as the run's agents state it: each agent got the smallest size
/// among the models that may serve it.
fn contexts(records: &[Arc<Record>]) -> BTreeMap<Role, u64> {
    let Some(started) = records.first().and_then(|first| first.run_started()) else {
        return BTreeMap::new();
    };
    let spec = &started.spec;
    let decision = match records.get(1).map(|record| &record.body) {
        Some(RecordBody::Decision(decision)) => Some(decision),
        _ => spec.decision.as_ref(),
    };
    let routed = decision.and_then(|decision| decision.routing.as_ref());
    let larger = decision.and_then(|decision| decision.escalation.as_ref());
    let routed = routed.into_iter().flat_map(|routing| &routing.choices);
    let larger = larger.and_then(|escalation| escalation.role.as_ref());
    let others = routed.chain(larger);
    let mut known: Vec<(&Role, Option<u64>)> = others
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
            // An agent may have got a smaller size than its model has, never a larger one.
            let most = contexts.entry(role.clone()).or_insert(tokens);
            *most = tokens.max(*most);
        }
    }
    contexts
}

/// The requests of the run to its models.
struct RunRequests {
    open: BTreeMap<EffectId, CallModel>,
    began: Timestamp,
    models: BTreeMap<Role, ModelRef>,
    contexts: BTreeMap<Role, u64>,
    exchanges: Vec<Exchange>,
}

impl RunRequests {
    /// Records the calls as a player of the recording makes them: with replies limited to what the context leaves.
    fn note_calls(&mut self, run: &RunTree, effects: &[Effect]) {
        for effect in effects {
            if let Effect::CallModel(call) = effect {
                let mut call = CallModel::clone(call);
                let context = self.contexts.get(&call.role);
                let fitted = context.and_then(|context| run.with_shorter_reply(&call, *context));
                if let Some(fitted) = fitted {
                    call.request = fitted.request;
                }
                self.open.insert(call.effect_id, call);
            }
        }
    }

    fn note_answer(&mut self, record: &Record) {
        let cause = record.cause();
        let (effect, role, took, event) = match &cause {
            Some(Input::ModelReplied(replied)) => (
                replied.effect_id,
                &replied.served_by,
                replied.duration,
                Event::Reply((*replied.reply).clone()),
            ),
            Some(Input::ModelFailed(failed)) => (
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
        // If no model has the requested role, another role's model serves the call.
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
