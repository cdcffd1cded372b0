//! What a driver keeps track of: what a run is waiting for, and what it is no longer waiting for.

use std::sync::Arc;

use neuraxis_core::{
    AgentId, CancelModel, CancelTool, Effect, EffectId, NextAttempt, Record, RecordBody, Step,
    ToolCallId, ToolCallStarted, ToolKind,
};

use super::World;

impl World {
    /// Records the effects of a step.
    pub(super) fn take(&mut self, step: &Step) {
        self.steps += 1;
        self.records.extend(step.records.iter().cloned());
        for record in &step.records {
            self.take_record(record);
        }
        for effect in &step.effects {
            match effect {
                Effect::CancelTool(CancelTool { effect_id })
                | Effect::CancelModel(CancelModel { effect_id }) => {
                    self.close(|open| open.id() == Some(*effect_id));
                }
                Effect::Finish(_) => {
                    self.close(|_| true);
                    self.with_client.clear();
                }
                asked => {
                    self.close(|open| open.id() == asked.id());
                    if let Effect::RunTool(run) = asked {
                        assert_eq!(self.started(run.effect_id).attempt, run.attempt);
                    }
                    self.open.push(asked.clone());
                }
            }
        }
    }

    fn take_record(&mut self, record: &Record) {
        match &record.body {
            RecordBody::LlmCall(call) => self.close(|open| open.id() == Some(call.effect_id)),
            RecordBody::LlmFailed(failed) if failed.next == NextAttempt::None => {
                self.close(|open| open.id() == Some(failed.effect_id));
            }
            RecordBody::LlmFailed(failed) => {
                let open = self
                    .open
                    .iter_mut()
                    .find(|open| open.id() == Some(failed.effect_id));
                if let Some(Effect::CallModel(call)) = open {
                    call.attempt = failed.attempt.next();
                }
            }
            RecordBody::Verdict(vetted) => self.close(|open| open.id() == Some(vetted.effect_id)),
            RecordBody::ApprovalDecided(decided) => {
                self.close(|open| matches!(open, Effect::AskApproval(ask) if ask.tool_call_id == decided.tool_call_id));
            }
            RecordBody::ToolCall(call) => {
                self.alive.extend(call.agents.iter().copied());
                if call.kind == ToolKind::Client {
                    self.with_client.push((**call).clone());
                }
            }
            RecordBody::Advised(advised) => self.close(|open| open.id() == Some(advised.effect_id)),
            // A hook that is considering an agent whose time is up need not finish.
            RecordBody::LimitReached(_) => self.close_hook_of(record.agent),
            RecordBody::Final(_) | RecordBody::RunFailed(_) => {
                self.alive.retain(|agent| *agent != record.agent);
                self.close_hook_of(record.agent);
            }
            RecordBody::ToolResult(result) => self.take_result(&result.tool_call_id),
            _ => {}
        }
    }

    /// A call that has its result needs nothing more, even if it was being asked about.
    fn take_result(&mut self, call: &ToolCallId) {
        self.with_client.retain(|open| open.tool_call_id != *call);
        let has_result = |call: &ToolCallId, records: &[Arc<Record>]| {
            records.iter().any(|record| {
                matches!(&record.body, RecordBody::ToolResult(result) if result.tool_call_id == *call)
            })
        };
        let records = self.records.clone();
        self.close(|open| match open {
            Effect::RunTool(run) => run.tool_call_id == *call,
            Effect::AskApproval(ask) => ask.tool_call_id == *call,
            Effect::Vet(vet) => vet
                .calls
                .iter()
                .all(|call| has_result(&call.tool_call_id, &records)),
            _ => false,
        });
    }

    fn close_hook_of(&mut self, agent: AgentId) {
        self.close(|open| matches!(open, Effect::Consult(consult) if consult.agent == agent));
    }

    fn close(&mut self, is_closed: impl Fn(&Effect) -> bool) {
        let closed = self.open.extract_if(.., |open| is_closed(open));
        self.gone.extend(closed);
    }

    fn started(&self, effect: EffectId) -> &ToolCallStarted {
        let mut started = self
            .records
            .iter()
            .rev()
            .filter_map(|record| match &record.body {
                RecordBody::ToolCall(call) if call.effect_id == effect => Some(&**call),
                _ => None,
            });
        started.next().unwrap()
    }
}
