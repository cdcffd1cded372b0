//! Asks the program's hooks about model calls: before a request is sent, alongside the first one, and before a reply is
//! accepted.
//!
//! Their decision about a request is advice that the machine records. Their changes to a reply go into the reply
//! itself, so nothing else is recorded, shown or acted upon.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use neuraxis_core::{
    Advice, Advised, BlockIndex, CallModel, Consult, Hook, Input, JsonText, LlmError, ModelRef,
    Purpose, Reply, ReplyAdvice, ReplyFinish, ReplyPart, ToolName, Usage,
};
use neuraxis_ports::{
    AfterModel, BeforeModel, CancellationToken, HookTiming, HookedReply, HookedRequest, LlmClient,
    ModelHook, TurnContext,
};
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use crate::driver::ask::{MAX_ADVICE_TIME, advised};
use crate::driver::under_way::Work;
use crate::driver::{Driver, answered};
use crate::feed::{CallBuffer, Feed, LiveText};

/// Why an agent ends whose hook gave no usable answer.
const FAILED: &str = "the program's own check failed";
/// The reply in that case.
const FAILED_REPLY: &str = "This cannot be answered: a required check failed.";

/// A reply, or why there is none, with the time until its first delta.
type Attempted = (Result<Reply, LlmError>, Option<Duration>);

/// The machine's description of a request.
#[derive(Deserialize)]
struct Subject {
    purpose: Purpose,
    is_first: bool,
}

/// Why an agent ends, and with which reply.
struct Refusal {
    reason: String,
    reply: String,
}

impl Refusal {
    fn of_failure() -> Self {
        tracing::error!(
            "a hook crashed, took too long or gave an unusable answer; this is treated as a refusal"
        );
        Self {
            reason: FAILED.to_owned(),
            reply: FAILED_REPLY.to_owned(),
        }
    }

    fn advice(self) -> Advice {
        let Self { reason, reply } = self;
        Advice::Refuse { reply, reason }
    }
}

impl Driver {
    /// Asks the advisor about a request, if it is to be asked, and then hooks about the result.
    pub(super) fn ask_about_request(&mut self, question: Consult, turn: TurnContext) {
        let engine = &self.engine;
        let mut hooks = engine.model_hooks_of(self.tree.agent_spec(question.agent));
        hooks.retain(|hook| hook.timing() == HookTiming::Before);
        let advisor = engine.advisor.clone();
        let advisor = advisor.filter(|_| engine.hooks.contains(&Hook::Request));
        let messages = self.tree.transcript_of(question.agent);
        let subject = question.subject.decode::<Subject>().ok();
        self.work.push(Box::pin(async move {
            let mut advice = match advisor {
                Some(advisor) => advised(advisor.as_ref(), &question, &turn).await,
                None => Advice::Continue,
            };
            let ends = matches!(advice, Advice::Stop { .. } | Advice::Refuse { .. });
            if !ends && !hooks.is_empty() {
                advice = match subject {
                    Some(Subject { purpose, is_first }) => {
                        let request = HookedRequest::new(turn, purpose, is_first, messages);
                        before(&hooks, request, advice).await
                    }
                    None => Refusal::of_failure().advice(),
                };
            }
            let effect_id = question.effect_id;
            Work::Answer(Box::new(Input::Advised(Advised { effect_id, advice })))
        }));
    }

    /// Collects the hooks that inspect an attempt of a model call; `None` if there are none.
    pub(super) fn attempt_hooks(
        &self,
        call: &CallModel,
        client: &dyn LlmClient,
    ) -> Option<Box<AttemptHooks>> {
        let spec = self.tree.agent_spec(call.agent);
        let hooks = self.engine.model_hooks_of(spec);
        if hooks.is_empty() {
            return None;
        }
        let turn = self.turn_context(call.agent, call.turn);
        let looks = |hook: &Arc<dyn ModelHook>| hook.timing() == HookTiming::Alongside;
        let alongside = (call.is_first && hooks.iter().any(looks)).then(|| {
            let messages = self.tree.transcript_of(call.agent);
            HookedRequest::new(turn.clone(), call.purpose, true, messages)
        });
        Some(Box::new(AttemptHooks {
            hooks,
            turn,
            purpose: call.purpose,
            alongside,
            delivers: spec.delivering_tool().map(|tool| tool.name.clone()),
            model: client.info().model,
        }))
    }
}

/// Asks hooks about a request, one after the other, each about what the previous one left, up to the first one that
/// refuses.
async fn before(
    hooks: &[Arc<dyn ModelHook>],
    mut request: HookedRequest,
    advice: Advice,
) -> Advice {
    let (mut text, mut notes) = match advice {
        Advice::Amend { text, notes } => (text, notes),
        _ => (None, Vec::new()),
    };
    amend(&mut request, text.as_deref(), &notes);
    for hook in hooks {
        let answer = answered(async { hook.before(&request).await });
        match timeout(MAX_ADVICE_TIME, answer).await {
            Ok(Some(BeforeModel::Continue)) => {}
            Ok(Some(BeforeModel::Amend { text: other, note }))
                if other.as_ref().is_none_or(|text| !text.trim().is_empty()) =>
            {
                amend(&mut request, other.as_deref(), note.as_slice());
                text = other.or(text);
                notes.extend(note);
            }
            Ok(Some(BeforeModel::Refuse { reason, reply })) => {
                return Advice::Refuse { reply, reason };
            }
            Ok(Some(BeforeModel::Stop { reason })) => return Advice::Stop { reason },
            _ => return Refusal::of_failure().advice(),
        }
    }
    if text.is_none() && notes.is_empty() {
        return Advice::Continue;
    }
    Advice::Amend { text, notes }
}

fn amend(request: &mut HookedRequest, text: Option<&str>, notes: &[String]) {
    if let Some(text) = text {
        request.messages.replace_user_text(text);
        request.text = text.to_owned();
    }
    for note in notes {
        request.messages.push(neuraxis_core::Message::system(note));
    }
}

/// The hooks that inspect one attempt of a model call.
pub(super) struct AttemptHooks {
    hooks: Vec<Arc<dyn ModelHook>>,
    turn: TurnContext,
    purpose: Purpose,
    /// The request, if hooks inspect it while the model works.
    alongside: Option<HookedRequest>,
    /// The tool whose arguments are the answer.
    delivers: Option<ToolName>,
    /// The model that is called.
    model: ModelRef,
}

impl AttemptHooks {
    /// Returns whether text may be shown before hooks have inspected it.
    pub(super) fn allows_text_streaming(&self) -> bool {
        self.hooks.iter().all(|hook| hook.allows_text_streaming())
    }

    /// Makes an attempt, with hooks inspecting the request meanwhile and the reply afterwards.
    pub(super) async fn around(
        self: Box<Self>,
        cancellation: &CancellationToken,
        attempt: impl Future<Output = Attempted>,
    ) -> Attempted {
        let began = Instant::now();
        let Some(request) = &self.alongside else {
            let (result, first_delta) = attempt.await;
            return match result {
                Ok(reply) => (Ok(self.inspect_reply(reply).await), first_delta),
                failed => (failed, first_delta),
            };
        };
        let refused = pin!(self.refused(request));
        let (result, first_delta) = match select(refused, pin!(attempt)).await {
            Either::Left((Some(refusal), _)) => {
                // The attempt is dropped here, and its client is notified like that of any cancelled call.
                cancellation.cancel();
                let reply = self.instead(refusal, None);
                return (Ok(reply), Some(began.elapsed()));
            }
            Either::Left((None, attempt)) => attempt.await,
            Either::Right(((result, first_delta), refused)) => match refused.await {
                Some(refusal) => {
                    let reply = self.instead(refusal, result.ok());
                    return (Ok(reply), first_delta);
                }
                None => (result, first_delta),
            },
        };
        match result {
            Ok(reply) => (Ok(self.inspect_reply(reply).await), first_delta),
            failed => (failed, first_delta),
        }
    }

    /// Asks the hooks that inspect a request while the model works on it. A change to the request comes too late.
    async fn refused(&self, request: &HookedRequest) -> Option<Refusal> {
        let mut hooks = self.hooks.iter();
        let alongside = hooks
            .by_ref()
            .filter(|it| it.timing() == HookTiming::Alongside);
        for hook in alongside {
            let answer = answered(async { hook.before(request).await });
            match timeout(MAX_ADVICE_TIME, answer).await {
                Ok(Some(BeforeModel::Continue)) => {}
                Ok(Some(BeforeModel::Refuse { reason, reply })) => {
                    return Some(Refusal { reason, reply });
                }
                _ => return Some(Refusal::of_failure()),
            }
        }
        None
    }

    /// Returns what is accepted of a reply.
    async fn inspect_reply(&self, mut reply: Reply) -> Reply {
        let counts = matches!(
            self.purpose,
            Purpose::Turn | Purpose::LastAnswer | Purpose::SelfCheck
        );
        if !counts {
            return reply;
        }
        for hook in &self.hooks {
            let mut hooked = HookedReply::new(self.turn.clone(), self.purpose, reply);
            hooked.delivered = self.delivered_by(&hooked.reply);
            let answer = answered(async { hook.after(&hooked).await });
            let answer = timeout(MAX_ADVICE_TIME, answer).await;
            reply = hooked.reply;
            match answer {
                Ok(Some(AfterModel::Keep)) => {}
                Ok(Some(AfterModel::Rewrite { text })) => self.rewrite(&mut reply, &text),
                Ok(Some(AfterModel::AskAgain { reason })) => {
                    reply.advice = Some(Box::new(ReplyAdvice::AskAgain { reason }));
                    return reply;
                }
                Ok(Some(AfterModel::Refuse {
                    reason,
                    reply: substitute,
                })) => {
                    let refusal = Refusal {
                        reason,
                        reply: substitute,
                    };
                    return self.instead(refusal, Some(reply));
                }
                _ => return self.instead(Refusal::of_failure(), Some(reply)),
            }
        }
        reply
    }

    /// Replaces the text of a reply, or the answer that it delivers.
    fn rewrite(&self, reply: &mut Reply, text: &str) {
        let calls_something = reply.calls().next().is_some();
        let delivers = reply.calls().any(|call| self.is_delivery(&call.name));
        let mut new_text = Some(text).filter(|text| !delivers && !text.is_empty());
        let mut parts = Vec::new();
        for part in std::mem::take(&mut reply.parts) {
            match part {
                ReplyPart::Text(_) => parts.extend(new_text.take().map(ReplyPart::text)),
                // Providers require the reasoning again together with the calls that it led to.
                ReplyPart::Reasoning(_) if !calls_something => {}
                ReplyPart::ToolCall(mut call) => {
                    parts.extend(new_text.take().map(ReplyPart::text));
                    if self.is_delivery(&call.name) {
                        call.arguments = JsonText::from_text(text);
                    }
                    parts.push(ReplyPart::ToolCall(call));
                }
                other => parts.push(other),
            }
        }
        parts.extend(new_text.map(ReplyPart::text));
        reply.parts = parts;
        reply.advice = Some(Box::new(ReplyAdvice::Rewritten));
    }

    fn delivered_by(&self, reply: &Reply) -> Option<String> {
        let mut calls = reply.calls();
        let delivery = calls.find(|call| self.is_delivery(&call.name))?;
        Some(delivery.arguments.as_str().to_owned())
    }

    fn is_delivery(&self, tool: &str) -> bool {
        let delivers = self.delivers.as_ref();
        delivers.is_some_and(|name| name.as_str() == tool)
    }

    /// Creates the reply that replaces a refused one. If the call was cancelled, its usage is unknown.
    fn instead(&self, refusal: Refusal, reply: Option<Reply>) -> Reply {
        let Refusal {
            reason,
            reply: text,
        } = refusal;
        let (usage, model) = reply.map_or_else(
            || (Usage::UNKNOWN, self.model.clone()),
            |reply| (reply.usage, reply.model),
        );
        Reply {
            parts: vec![ReplyPart::text(text)],
            finish: ReplyFinish::Stop,
            usage,
            model,
            advice: Some(Box::new(ReplyAdvice::Refused { reason })),
        }
    }
}

/// Retracts what was shown of a reply that was changed, and shows the replacement.
pub(super) fn show_replacement(call: &CallModel, reply: &Reply, feed: &Feed, buffer: &CallBuffer) {
    if reply.advice.is_none() {
        return;
    }
    buffer.retract(call.attempt);
    let text = reply.text();
    if reply.turned_down().is_none() && !text.is_empty() {
        // After everything that the model wrote itself.
        let block = BlockIndex(u32::MAX);
        buffer.text(call.attempt, block, LiveText::Text, &text);
    }
    feed.grown();
}
