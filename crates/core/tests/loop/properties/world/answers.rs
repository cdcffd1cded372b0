//! The answer to whatever a run asked for.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    Advice, Advised, ApprovalDecided, Attempt, CallModel, Effect, EffectId, Hook, Input, LlmError,
    LlmErrorKind, ModelFailed, ModelReplied, NextAttempt, Role, RoleDowngraded, ToolFinished,
    Usage, Vetted,
};

use super::{Open, World};
use crate::properties::plan::Answer;

impl World {
    pub(super) fn pick(&self, answer: &Answer) -> Option<Open> {
        let open = self.open.iter().cloned().map(Open::Effect);
        let clients = self.with_client.iter().cloned().map(Open::Client);
        let all: Vec<_> = open.chain(clients).collect();
        (!all.is_empty()).then(|| answer.which.get(&all).clone())
    }

    pub(super) fn answer(&mut self, open: &Open, answer: &Answer) -> Input {
        match open {
            Open::Effect(Effect::CallModel(call)) => match &answer.failure {
                Some(failure) => Input::ModelFailed(ModelFailed {
                    cost: None,
                    cost_label: Default::default(),
                    model: None,
                    error: failed(failure.kind.clone(), failure.usage),
                    next: if failure.follows {
                        NextAttempt::Follows
                    } else {
                        NextAttempt::None
                    },
                    served_by: served_by(call, answer),
                    downgraded: downgraded(call, answer),
                    degraded: answer.downgraded.then(|| "it fails".to_owned()),
                    ..model_failed(call.effect_id, call.attempt)
                }),
                None => Input::ModelReplied(ModelReplied {
                    effect_id: call.effect_id,
                    attempt: call.attempt,
                    reply: Arc::new(answer.reply.clone()),
                    served_by: served_by(call, answer),
                    downgraded: downgraded(call, answer),
                    cost: answer.cost,
                    cost_label: Default::default(),
                    duration: answer.took,
                    first_delta: answer.cost.map(|_| answer.took),
                }),
            },
            Open::Effect(Effect::Vet(vet)) => Input::Vetted(Vetted {
                effect_id: vet.effect_id,
                calls: answer
                    .verdicts
                    .iter()
                    .cycle()
                    .take(vet.calls.len())
                    .cloned()
                    .collect(),
                granted: Vec::new(),
                advised: Vec::new(),
            }),
            Open::Effect(Effect::RunTool(run)) => tool_finished(run.effect_id, run.attempt, answer),
            Open::Client(call) => tool_finished(call.effect_id, call.attempt, answer),
            Open::Effect(Effect::AskApproval(ask)) => Input::ApprovalDecided(ApprovalDecided {
                id: self.new_id(),
                tool_call_id: ask.tool_call_id.clone(),
                arguments_hash: ask.arguments_hash,
                decision: answer.decision.clone(),
                by: None,
                code: None,
                given_before: None,
            }),
            Open::Effect(Effect::Consult(consult)) => Input::Advised(Advised {
                effect_id: consult.effect_id,
                advice: match (&answer.advice, consult.hook) {
                    (Advice::Offer { .. }, hook) if hook != Hook::ToolsSelected => Advice::Continue,
                    (Advice::TurnDown { .. }, hook) if hook != Hook::Answer => Advice::Continue,
                    (Advice::Amend { .. } | Advice::Refuse { .. }, hook)
                        if hook != Hook::Request =>
                    {
                        Advice::Continue
                    }
                    (advice, _) => advice.clone(),
                },
            }),
            Open::Effect(other) => panic!("{other:?} is not asked for yet"),
        }
    }
}

fn served_by(call: &CallModel, answer: &Answer) -> Role {
    downgraded(call, answer).map_or_else(|| call.role.clone(), |downgraded| downgraded.to)
}

fn downgraded(call: &CallModel, answer: &Answer) -> Option<Box<RoleDowngraded>> {
    let is_other = answer.downgraded && call.role != Role::ROUTER;
    is_other.then(|| {
        Box::new(RoleDowngraded {
            from: call.role.clone(),
            to: Role::ROUTER,
            reason: "it fails".to_owned(),
            left_out: 0,
        })
    })
}

fn tool_finished(effect_id: EffectId, attempt: Attempt, answer: &Answer) -> Input {
    Input::ToolFinished(ToolFinished {
        effect_id,
        attempt,
        outcome: answer.outcome.clone(),
        duration: answer.took,
        by: None,
    })
}

pub(super) fn model_failed(effect_id: EffectId, attempt: Attempt) -> ModelFailed {
    ModelFailed {
        cost: None,
        cost_label: Default::default(),
        model: None,
        effect_id,
        attempt,
        error: failed(LlmErrorKind::Connection, None),
        next: NextAttempt::None,
        served_by: Role::REASONING,
        downgraded: None,
        degraded: None,
        duration: Duration::ZERO,
    }
}

fn failed(kind: LlmErrorKind, usage: Option<Usage>) -> LlmError {
    let error = LlmError::new(kind, "it went wrong");
    match usage {
        Some(usage) => error.with_usage(usage),
        None => error,
    }
}
