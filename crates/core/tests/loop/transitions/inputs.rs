//! One input of each kind, addressed to an agent in any phase.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    Advice, Advised, ApprovalDecided, Attempt, Cancelled, ContentHash, Effect, EffectId, Input,
    InputId, LlmError, LlmErrorKind, Message, ModelFailed, ModelReplied, NextAttempt, RecordBody,
    Reply, Resumed, Role, Steered, ToolCallId, ToolFinished, Vetted,
};

use super::states::State;
use crate::support::*;

pub(super) type Make = fn(&mut Script, &State) -> Input;

pub(super) struct Sent {
    pub(super) name: &'static str,
    pub(super) make: Make,
}

pub(super) const INPUTS: [Sent; 20] = [
    sent("model replied with text", |run, state| {
        replied(run, state, says("Blue."))
    }),
    sent("model replied with a call", |run, state| {
        replied(run, state, calls_to(&[READ]))
    }),
    sent("model failed, another attempt follows", |run, state| {
        model_failed(run, state, LlmErrorKind::Connection, NextAttempt::Follows)
    }),
    sent("model failed permanently", |run, state| {
        model_failed(run, state, LlmErrorKind::Connection, NextAttempt::None)
    }),
    sent("model reply could not be read", |run, state| {
        model_failed(run, state, LlmErrorKind::InvalidResponse, NextAttempt::None)
    }),
    sent("vetted: may run", |run, state| {
        let effect_id = open_effect(run, state);
        let calls = vec![reads()];
        Input::Vetted(Vetted::new(effect_id, calls))
    }),
    sent("tool finished", |run, state| {
        Input::ToolFinished(ToolFinished {
            effect_id: open_effect(run, state),
            attempt: Attempt(1),
            outcome: done("1"),
            duration: Duration::ZERO,
            by: None,
        })
    }),
    sent("approved", |run, _| decided(run, approve())),
    sent("denied", |run, _| {
        decided(run, neuraxis_core::ApprovalDecision::Deny { reason: None })
    }),
    sent("advised: continue", |run, state| {
        advised(run, state, Advice::Continue)
    }),
    sent("advised: turn the answer down", |run, state| {
        let message = "Which blue?".to_owned();
        advised(run, state, Advice::TurnDown { message })
    }),
    sent("advised: change the request", |run, state| {
        let (text, notes) = (Some("Red?".to_owned()), vec!["Be kind.".to_owned()]);
        advised(run, state, Advice::Amend { text, notes })
    }),
    sent("advised: refuse the request", |run, state| {
        let (reply, reason) = ("No.".to_owned(), "a rule".to_owned());
        advised(run, state, Advice::Refuse { reply, reason })
    }),
    sent("advised: stop", |run, state| {
        advised(
            run,
            state,
            Advice::Stop {
                reason: "enough".to_owned(),
            },
        )
    }),
    sent("steered", |_, state| {
        let message = Arc::new(Message::user("Quick."));
        let mut steered = Steered::new(InputId::new("s"), message);
        steered.agent = state.agent;
        Input::Steered(steered)
    }),
    sent("cancelled", |_, state| {
        let mut cancelled = Cancelled::new(InputId::new("c"), "enough");
        cancelled.agent = state.agent;
        Input::Cancelled(cancelled)
    }),
    sent("resumed after a crash", |_, _| {
        let (id, reason) = (InputId::new("r"), "it died".to_owned());
        Input::Resumed(Resumed::new(id, reason))
    }),
    sent("resumed, with its calls checked again", |_, _| {
        let (id, reason) = (InputId::new("r"), "it died".to_owned());
        Input::Resumed(Resumed::new(id, reason).checking_calls())
    }),
    sent("time is nearly up", |run, _| {
        run.at(8_000);
        Input::TimePassed
    }),
    sent("time is up", |run, _| {
        run.at(10_000);
        Input::TimePassed
    }),
];

const fn sent(name: &'static str, make: Make) -> Sent {
    Sent { name, make }
}

/// Returns the effect that the agent is waiting for, or the last one that it waited for.
fn open_effect(run: &Script, state: &State) -> EffectId {
    let is_its = |effect: &&Effect| match effect {
        Effect::CallModel(call) => call.agent == state.agent,
        Effect::Vet(vet) => vet.agent == state.agent,
        Effect::RunTool(tool) => tool.agent == state.agent,
        Effect::AskApproval(ask) => ask.agent == state.agent,
        Effect::Consult(consult) => consult.agent == state.agent,
        _ => false,
    };
    let asked = run.effects.iter().filter(is_its).filter_map(Effect::id);
    let journaled = run.records.iter().filter_map(|record| match &record.body {
        RecordBody::ToolCall(call) if record.agent == state.agent => Some(call.effect_id),
        _ => None,
    });
    // A queued agent has requested nothing yet, so its parent's effect serves as a wrong one.
    let last = asked.chain(journaled).max();
    last.unwrap_or_else(|| run.started(0).effect_id)
}

fn replied(run: &Script, state: &State, reply: Reply) -> Input {
    Input::ModelReplied(ModelReplied {
        effect_id: open_effect(run, state),
        attempt: Attempt(1),
        reply: Arc::new(reply),
        served_by: Role::REASONING,
        downgraded: None,
        cost: None,
        cost_label: Default::default(),
        duration: Duration::ZERO,
        first_delta: None,
    })
}

fn model_failed(run: &Script, state: &State, kind: LlmErrorKind, next: NextAttempt) -> Input {
    Input::ModelFailed(ModelFailed {
        cost: None,
        cost_label: Default::default(),
        model: None,
        effect_id: open_effect(run, state),
        attempt: Attempt(1),
        error: LlmError::new(kind, "no"),
        next,
        served_by: Role::REASONING,
        downgraded: None,
        degraded: None,
        duration: Duration::ZERO,
    })
}

fn decided(run: &Script, decision: neuraxis_core::ApprovalDecision) -> Input {
    let asked = run.effects.iter().rev().find_map(|effect| match effect {
        Effect::AskApproval(ask) => Some((ask.tool_call_id.clone(), ask.arguments_hash)),
        _ => None,
    });
    let nobody = || (ToolCallId::from_text("call"), ContentHash::EMPTY);
    let (tool_call_id, arguments_hash) = asked.unwrap_or_else(nobody);
    Input::ApprovalDecided(ApprovalDecided {
        id: InputId::new("a"),
        tool_call_id,
        arguments_hash,
        decision,
        by: None,
        code: None,
        given_before: None,
    })
}

fn advised(run: &Script, state: &State, advice: Advice) -> Input {
    let effect_id = open_effect(run, state);
    Input::Advised(Advised { effect_id, advice })
}
