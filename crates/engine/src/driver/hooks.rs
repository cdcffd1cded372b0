//! Asks the program's hooks about tool calls, before they are checked and after they ran.
//!
//! A hook's advice before a call is recorded together with the policy's verdict, in one record. It is valid only with
//! this installation's authentication code: otherwise anyone who can write to the store could claim that a hook let a
//! call pass.

use std::sync::Arc;

use futures_util::future::join_all;
use neuraxis_core::{
    AdvisedCall, AgentId, CallAdvice, CallToVet, EffectId, Input, JsonText, Pending, PendingKind,
    Remember, RunId, ToolFailure, ToolFinished, ToolKind, ToolOutcome, ToolSpec, Vet, Vetting,
};
use neuraxis_ports::{AfterCall, BeforeCall, HookedCall, ToolHook};
use tokio::time::timeout;

use crate::driver::ask::MAX_ADVICE_TIME;
use crate::driver::under_way::Work;
use crate::driver::vet::CallsToJudge;
use crate::driver::{Driver, answered};
use crate::engine::Engine;

/// The reason for refusing a call whose hook gave no answer.
const FAILED_BEFORE: &str = "the program's own check of the call failed";
/// The reason for refusing a call that a hook would change and that is handed to the client as part of the model's
/// reply.
const AS_WRITTEN: &str = "the program's own check would change its arguments, but the call is handed over as it was written";
/// The reason for withholding a result whose hook gave no answer.
const FAILED_AFTER: &str = "the program's own check of the result failed";

impl Driver {
    /// Asks hooks about the calls for which there is no valid advice yet, all at the same time, and has all calls
    /// checked afterwards.
    pub(super) fn ask_hooks(&mut self, hooks: Vec<Arc<dyn ToolHook>>, mut calls: CallsToJudge) {
        let (run, engine) = (self.scope.run_id, Arc::clone(&self.engine));
        let mut to_ask = Vec::new();
        for call in &mut calls.vet.calls {
            let is_unproven =
                |advised: &AdvisedCall| !engine.approval_key.advises(run, call, advised);
            if call.advised.as_deref().is_some_and(is_unproven) {
                tracing::warn!(%run, call = %call.tool_call_id, "the recorded answer of a hook was not signed with the key of this installation; the hook is asked again");
                call.advised = None;
            }
        }
        for (place, call) in calls.vet.calls.iter().enumerate() {
            if call.advised.is_none()
                && let Some(subject) = self.hooked_call(&calls.vet, call)
            {
                to_ask.push((place, subject));
            }
        }
        if to_ask.is_empty() {
            return self.judge(calls);
        }
        let hands_over = self.tree.hands_over();
        self.work.push(Box::pin(async move {
            let hooks = &hooks;
            let answers = to_ask.into_iter().map(|(place, call)| async move {
                let is_handed_over = hands_over && call.tool.kind == ToolKind::Client;
                let written = call.arguments.clone();
                let answer = before(hooks, call).await;
                match is_handed_over {
                    true => (place, unchanged(&written, answer)),
                    false => (place, answer),
                }
            });
            for (place, (arguments, advice)) in join_all(answers).await {
                if let Some(call) = calls.vet.calls.get_mut(place) {
                    calls
                        .advised
                        .push(note(&engine, run, call, arguments, advice));
                }
            }
            Work::Advised(Box::new(calls))
        }));
    }

    /// Returns the hooks that inspect the calls of an agent.
    pub(super) fn tool_hooks(&self, agent: AgentId) -> Vec<Arc<dyn ToolHook>> {
        self.engine.tool_hooks_of(self.tree.agent_spec(agent))
    }

    /// Lets hooks inspect a client's result before it is accepted: `None` until they have. Any other input is returned
    /// unchanged.
    pub(super) fn inspect_result(&mut self, input: Input) -> Option<Input> {
        match input {
            Input::ToolFinished(finished) if self.engine.has_tool_hooks() => {
                match self.hooked_client_call(finished.effect_id) {
                    Some((hooks, call)) => {
                        self.work.push(Box::pin(async move {
                            let outcome = after(&hooks, &call, finished.outcome).await;
                            let finished = ToolFinished {
                                outcome,
                                ..finished
                            };
                            Work::Answer(Box::new(Input::ToolFinished(finished)))
                        }));
                        None
                    }
                    None => Some(Input::ToolFinished(finished)),
                }
            }
            other => Some(other),
        }
    }

    /// Describes the call whose result a client supplied, if hooks inspect that.
    fn hooked_client_call(&self, effect: EffectId) -> Option<(Vec<Arc<dyn ToolHook>>, HookedCall)> {
        let pending = self.tree.pending();
        let is_it = |it: &&Pending| it.effect_id == effect && it.kind == PendingKind::ClientTool;
        let id = &pending.iter().find(is_it)?.tool_call_id;
        let open = self.tree.open_calls();
        let call = open.into_iter().find(|call| call.tool_call_id == *id)?;
        let hooks = self.tool_hooks(call.agent);
        let tool = self.hooked_tool(call.agent, &call.name)?.clone();
        let turn = self.turn_context(call.agent, self.tree.turn_of(call.agent));
        let hooked = HookedCall::new(turn, id.clone(), tool, call.arguments);
        (!hooks.is_empty()).then_some((hooks, hooked))
    }

    /// Describes a call to hooks; `None` for a call of a tool that its agent was not offered, which does not run
    /// anyway, or of a tool of the loop itself.
    fn hooked_call(&self, vet: &Vet, call: &CallToVet) -> Option<HookedCall> {
        let tool = self.hooked_tool(vet.agent, &call.name)?.clone();
        let turn = self.turn_context(vet.agent, vet.turn);
        let (id, arguments) = (call.tool_call_id.clone(), call.arguments.clone());
        Some(HookedCall::new(turn, id, tool, arguments))
    }

    /// Returns the spec of a tool that an agent was offered and whose calls hooks inspect: a tool of the program, or
    /// one that the client supplied with its request.
    fn hooked_tool(&self, agent: AgentId, name: &str) -> Option<&ToolSpec> {
        let mut offered = self.tree.tools(agent).iter();
        let offered = offered.find(|tool| tool.name.as_str() == name)?;
        match self.is_client_tool(agent, name) {
            true => Some(offered),
            false => Some(self.catalog.tool(&offered.name)?.spec()),
        }
    }
}

/// Applies the advice of hooks to a call, and returns what to record of it.
fn note(
    engine: &Engine,
    run: RunId,
    call: &mut CallToVet,
    arguments: Option<JsonText>,
    advice: CallAdvice,
) -> AdvisedCall {
    let arguments = arguments.filter(|arguments| *arguments != call.arguments);
    if let Some(arguments) = &arguments {
        call.arguments = arguments.clone();
        // The approval was given for other arguments.
        call.approved = None;
    }
    let mut advised = AdvisedCall {
        tool_call_id: call.tool_call_id.clone(),
        arguments,
        advice,
        code: None,
    };
    engine
        .approval_key
        .sign_advice(run, &call.arguments, &mut advised);
    call.advised = Some(Box::new(advised.clone()));
    advised
}

/// Asks hooks about a call, one after the other, up to the first one that does not let it run.
async fn before(
    hooks: &[Arc<dyn ToolHook>],
    mut call: HookedCall,
) -> (Option<JsonText>, CallAdvice) {
    let (mut rewritten, mut advice) = (None, CallAdvice::Continue);
    for hook in hooks {
        let answer = answered(async { hook.before(&call).await });
        match timeout(MAX_ADVICE_TIME, answer).await {
            Ok(Some(BeforeCall::Continue)) => {}
            Ok(Some(BeforeCall::Rewrite { arguments })) => {
                call.arguments = arguments.clone();
                rewritten = Some(arguments);
            }
            Ok(Some(BeforeCall::Ask { reason })) => {
                // The first reason to ask is kept; a later hook may still refuse.
                if advice == CallAdvice::Continue {
                    advice = CallAdvice::Ask { reason };
                }
            }
            Ok(Some(BeforeCall::Refuse { reason })) => {
                return (rewritten, CallAdvice::Refuse { reason });
            }
            Ok(Some(BeforeCall::Stop { reason })) => {
                return (rewritten, CallAdvice::Stop { reason });
            }
            _ => {
                tracing::error!(call = %call.tool_call_id, tool = %call.tool.name, "a hook crashed or took too long; the call is refused");
                let reason = FAILED_BEFORE.to_owned();
                return (rewritten, CallAdvice::Refuse { reason });
            }
        }
    }
    (rewritten, advice)
}

/// Refuses a call whose arguments hooks would change although the client gets it as the model wrote it.
fn unchanged(
    written: &JsonText,
    (arguments, advice): (Option<JsonText>, CallAdvice),
) -> (Option<JsonText>, CallAdvice) {
    let is_changed = arguments.is_some_and(|arguments| arguments != *written);
    let advice = match advice {
        CallAdvice::Continue | CallAdvice::Ask { .. } if is_changed => CallAdvice::Refuse {
            reason: AS_WRITTEN.to_owned(),
        },
        advice => advice,
    };
    (None, advice)
}

/// Lets hooks inspect the outcome of a call, one after the other.
pub(super) async fn after(
    hooks: &[Arc<dyn ToolHook>],
    call: &HookedCall,
    mut outcome: ToolOutcome,
) -> ToolOutcome {
    for hook in hooks {
        let answer = answered(async { hook.after(call, &outcome).await });
        match timeout(MAX_ADVICE_TIME, answer).await {
            Ok(Some(AfterCall::Keep)) => {}
            Ok(Some(AfterCall::Rewrite { output })) => {
                outcome.output = output;
                outcome.output.rewritten = true;
            }
            Ok(Some(AfterCall::Withhold { reason })) => return withheld(&reason),
            _ => {
                tracing::error!(call = %call.tool_call_id, tool = %call.tool.name, "a hook crashed or took too long; the result is withheld");
                return withheld(FAILED_AFTER);
            }
        }
    }
    outcome
}

/// The result of a call that ran and whose result is withheld.
fn withheld(reason: &str) -> ToolOutcome {
    let message = format!("it ran, and its result is withheld: {reason}");
    // The same call would meet the same hook, so it is not repeated.
    let mut outcome = ToolOutcome::failed(ToolFailure::Permanent, &message);
    outcome.output.rewritten = true;
    outcome
}

/// Returns the stricter of the policy's and the hooks' verdicts on a call.
pub(super) fn narrowed(vetting: Vetting, advice: &CallAdvice) -> Vetting {
    match (advice, vetting) {
        (CallAdvice::Refuse { reason } | CallAdvice::Stop { reason }, _) => {
            Vetting::deny(reason.clone())
        }
        (
            CallAdvice::Ask { reason },
            Vetting::Run {
                class, untrusted, ..
            },
        ) => match (Vetting::ask(class, reason.clone()), untrusted) {
            (asks, true) => asks.bringing_untrusted(),
            (asks, false) => asks,
        },
        (CallAdvice::Ask { reason: why }, mut asks @ Vetting::Ask { .. }) => {
            if let Vetting::Ask {
                reason,
                remember,
                choices,
                ..
            } = &mut asks
            {
                *reason = format!("{reason} {why}");
                // A remembered answer would not help: the hook asks about the next call anyway.
                *remember = Remember::Never;
                choices.clear();
            }
            asks
        }
        (_, vetting) => vetting,
    }
}
