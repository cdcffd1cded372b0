//! Performs model calls: attempt by attempt, streamed if the user reads along.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use neuraxis_core::{
    Attempt, Audience, CallModel, Cost, CountLabel, Input, LlmError, LlmErrorKind, ModelFailed,
    ModelRef, ModelReplied, ModelRequest, NextAttempt, Purpose, Reply, ReplyAssembler, ReplyDelta,
    Role, RoleDowngraded, Usage, is_last_answer,
};
use neuraxis_ports::{CallContext, LlmClient, ReplyStream};
use tokio::time::Instant;

use crate::driver::loading::Wait;
use crate::driver::model_hooks::{AttemptHooks, show_replacement};
use crate::driver::serving::{Fallback, Probe, Served};
use crate::driver::silent_calls::AttemptUnderWay;
use crate::driver::under_way::Work;
use crate::driver::{Driver, answered};
use crate::feed::{CallBuffer, Feed, LiveCall, LiveText};
use crate::request::Delivery;

/// The longest wait that is accepted at a server's request while another role may serve.
const MAX_WAIT_BEFORE_FALLBACK: Duration = Duration::from_secs(5);

/// The maximum number of deltas that are processed together.
const MAX_DELTAS_AT_ONCE: usize = 256;

/// The result of one attempt of a model call.
pub(super) struct ModelAttempt {
    result: Result<Reply, LlmError>,
    served_by: Role,
    downgraded: Option<Box<RoleDowngraded>>,
    /// The role that the failure policy chose for this call, if it did.
    fallback: Option<Box<Fallback>>,
    /// The estimated number of tokens that were sent, if the request of the call was changed.
    sent: Option<u64>,
    /// Ends once the outcome has been noted.
    probe: Option<Box<Probe>>,
    duration: Duration,
    first_delta: Option<Duration>,
}

/// What follows a failed attempt.
enum Following {
    /// Another attempt: by which role, and after which delay.
    Attempt(Option<Box<Fallback>>, Duration),
    /// A pause for a model that cannot serve yet, followed by another attempt.
    Pause(Option<Box<Fallback>>),
    /// The failure is that of the call.
    Nothing,
}

impl Driver {
    /// Begins an attempt of a model call, after a delay if it is not the first.
    pub(super) fn call_model(
        &mut self,
        call: Box<CallModel>,
        fallback: Option<Box<Fallback>>,
        delay: Duration,
    ) {
        let Some(served) = self.served(&call, fallback.as_deref()) else {
            return self.nobody_serves(call, fallback, delay);
        };
        let Served {
            role: served_by,
            client,
            mut downgraded,
            probe,
        } = served;
        let ctx = self.context_of(&call);
        let under_way = Arc::new(AttemptUnderWay::new(ctx.clone(), served_by.clone()));
        self.attempts.push(Arc::clone(&under_way));
        let hooks = self.attempt_hooks(&call, client.as_ref());
        let may_stream = hooks
            .as_deref()
            .is_none_or(AttemptHooks::allows_text_streaming);
        let reads_along = call.audience == Audience::Person
            && self.scope.delivery == Delivery::Streamed
            && may_stream;
        let live = reads_along.then(|| self.live_call(&call));
        let journal = Arc::clone(&self.journal);
        let other = downgraded.as_deref();
        let fitting = self.fitting(&call, client.as_ref(), other, fallback.as_deref());
        self.work.push(Box::pin(async move {
            if !delay.is_zero() {
                let wait = tokio::time::sleep(delay);
                if ctx.cancellation.run_until_cancelled(wait).await.is_none() {
                    return Work::Later;
                }
            }
            if let Err(error) = journal.hold().await {
                return Work::Lost(error);
            }
            let fitted = fitting.fit(&call, client.as_ref(), &ctx.cancellation).await;
            if let (Some(fitted), Some(downgraded)) = (&fitted, &mut downgraded) {
                downgraded.left_out = fitted.left_out;
            }
            let started = Instant::now();
            under_way.begin(started, downgraded.as_deref());
            let (result, first_delta) = {
                let fitted = fitted.as_deref().map(|fitted| &fitted.request);
                let request = fitted.unwrap_or(&call.request);
                let attempt = attempted(client.as_ref(), request, &ctx, live.as_ref(), &under_way);
                match hooks {
                    // Boxed, so that calls without hooks reserve no space for it.
                    Some(hooks) => Box::pin(hooks.around(&ctx.cancellation, attempt)).await,
                    None => attempt.await,
                }
            };
            if let Some((feed, buffer)) = &live {
                match &result {
                    Ok(reply) if is_part_of_answer(call.purpose, reply) => {
                        show_replacement(&call, reply, feed, buffer);
                    }
                    _ => {
                        buffer.retract(call.attempt);
                        feed.grown();
                    }
                }
            }
            let attempt = ModelAttempt {
                result,
                served_by,
                downgraded,
                fallback,
                sent: fitted.map(|fitted| fitted.tokens),
                probe,
                duration: started.elapsed(),
                first_delta,
            };
            Work::Model(Box::new((call, attempt)))
        }));
    }

    /// Creates the context of an attempt, and stores the token that stops it.
    fn context_of(&mut self, call: &CallModel) -> CallContext {
        let trace = self.scope.trace.as_ref();
        let trace = trace.map(|trace| trace.at(call.effect_id.span_id()));
        let mut ctx = CallContext::new(call.effect_id, trace);
        ctx.attempt = call.attempt;
        ctx.request = self.scope.request.clone();
        self.running
            .push((call.effect_id, ctx.cancellation.clone()));
        ctx
    }

    /// Fails a call for which no role that may serve has a model.
    fn nobody_serves(
        &mut self,
        call: Box<CallModel>,
        fallback: Option<Box<Fallback>>,
        delay: Duration,
    ) {
        let error = LlmError::new(
            LlmErrorKind::ModelNotFound,
            "no model is configured for a role that may serve this request",
        );
        let attempt = ModelAttempt {
            result: Err(error),
            served_by: call.role.clone(),
            downgraded: None,
            fallback,
            sent: None,
            probe: None,
            duration: delay,
            first_delta: None,
        };
        let answer = self.attempt_over(call, attempt);
        self.ready.extend(answer);
    }

    /// Notes a reply for the model's health, and returns its cost. A call that a hook cut short says nothing about its
    /// model.
    fn note_reply(&self, served_by: &Role, reply: &Reply) -> Option<Cost> {
        if reply.is_refusal() && reply.usage == Usage::UNKNOWN {
            return None;
        }
        let engine = &self.engine;
        let clock = engine.clock.as_ref();
        engine.health.replied(&engine.policy, served_by, clock);
        let configured = engine.model(served_by, None);
        let configured =
            configured.map_or_else(|| reply.model.clone(), |(_, client)| client.info().model);
        engine.policy.cost(&reply.usage, &reply.model, &configured)
    }

    /// Returns the model of a role.
    pub(super) fn model_of(&self, role: &Role) -> Option<Box<ModelRef>> {
        let (_, client) = self.engine.model(role, None)?;
        Some(Box::new(client.info().model))
    }

    fn live_call(&self, call: &CallModel) -> (Arc<Feed>, Arc<CallBuffer>) {
        let live = LiveCall {
            effect_id: call.effect_id,
            content_index: call.content_index,
            run_id: self.scope.run_id,
            agent: call.agent,
        };
        let feed = Arc::clone(&self.journal.feed);
        feed.begin(call.effect_id);
        let buffer = feed.buffer(live);
        (feed, buffer)
    }

    /// Turns the result of an attempt into an input, and begins the next attempt if that may help; `None` while a
    /// server continues loading its model.
    pub(super) fn attempt_over(
        &mut self,
        mut call: Box<CallModel>,
        attempt: ModelAttempt,
    ) -> Option<Input> {
        let ModelAttempt {
            result,
            served_by,
            downgraded,
            fallback,
            sent,
            probe,
            duration,
            first_delta,
        } = attempt;
        let (effect_id, number) = (call.effect_id, call.attempt);
        let wait = match &result {
            Ok(_) => Wait::IsOver,
            Err(error) => self.wait_for_loading(effect_id, &served_by, &error.kind),
        };
        if matches!(wait, Wait::Continues) {
            self.pause_for_loading(call, fallback);
            return None;
        }
        self.loading.forget(effect_id);
        let (engine, health) = (&self.engine, &self.engine.health);
        let clock = engine.clock.as_ref();
        let error = match result {
            Ok(reply) => {
                let cost = self.note_reply(&served_by, &reply);
                return Some(Input::ModelReplied(ModelReplied {
                    effect_id,
                    attempt: number,
                    cost: cost.map(|cost| cost.amount),
                    cost_label: label_of(cost),
                    reply: Arc::new(reply),
                    served_by,
                    downgraded,
                    duration,
                    first_delta,
                }));
            }
            Err(error) => error,
        };
        let degraded = health.failed(&engine.policy, &served_by, &error.kind, duration, clock);
        drop(probe);
        let model = self.model_of(&served_by);
        let usage = error.usage.as_deref().zip(model.as_deref());
        let cost = usage.and_then(|(usage, model)| engine.policy.cost(usage, model, model));
        let other = downgraded.as_deref();
        let again = self.fitted_again(&call, other, fallback.as_deref(), &error, sent);
        let following = match again.filter(|_| self.tree.waits_for(effect_id)) {
            Some(again) => Following::Attempt(Some(again), Duration::ZERO),
            None => self.following(&call, &served_by, fallback, &error, &wait),
        };
        let next = match following {
            Following::Attempt(..) | Following::Pause(_) => NextAttempt::Follows,
            Following::Nothing => NextAttempt::None,
        };
        tracing::warn!(run = %self.scope.run_id, role = %served_by, attempt = number.0, error = %error.withheld(self.journal.policy), "a model call failed");
        call.attempt = number.next();
        match following {
            Following::Attempt(fallback, delay) => self.call_model(call, fallback, delay),
            Following::Pause(fallback) => self.pause_for_loading(call, fallback),
            Following::Nothing => {}
        }
        Some(Input::ModelFailed(ModelFailed {
            effect_id,
            attempt: number,
            error,
            next,
            served_by,
            downgraded,
            degraded,
            cost: cost.map(|cost| cost.amount),
            cost_label: label_of(cost),
            model,
            duration,
        }))
    }

    /// Returns by which role and when a failed call is attempted again, if that may help. A call that was cancelled
    /// meanwhile is not repeated: its answer is not awaited, and it would cost as much as any other.
    fn following(
        &self,
        call: &CallModel,
        served_by: &Role,
        fallback: Option<Box<Fallback>>,
        error: &LlmError,
        wait: &Wait,
    ) -> Following {
        if !self.tree.waits_for(call.effect_id) {
            return Following::Nothing;
        }
        let attempts = Fallback::attempts(fallback.as_deref(), call.attempt);
        let delay = self.engine.retry.delay(error, attempts);
        let is_long = error.retry_after() > Some(MAX_WAIT_BEFORE_FALLBACK);
        if let Some(delay) = delay.filter(|_| !is_long) {
            return Following::Attempt(fallback, delay);
        }
        let waits = matches!(wait, Wait::Begins);
        if fallback.is_none()
            && let Some(other) = self.fallback(served_by, call.attempt, error)
        {
            // A model that is available answers sooner than one that must be waited for. If this one also fails, the
            // loop asks the first for an unreadable reply again in another way.
            let comes_back =
                waits || delay.is_some() || error.kind == LlmErrorKind::InvalidResponse;
            let other = match comes_back {
                true => other.for_a_while(delay),
                false => other,
            };
            return Following::Attempt(Some(other), Duration::ZERO);
        }
        if let Some(delay) = delay {
            return Following::Attempt(fallback, delay);
        }
        if waits {
            return Following::Pause(fallback);
        }
        // A request that does not fit, or whose reply cannot be read, is made again by the loop in another way.
        let is_changed = matches!(
            error.kind,
            LlmErrorKind::ContextOverflow { .. } | LlmErrorKind::InvalidResponse
        );
        let fallback = fallback.filter(|_| !is_changed);
        match fallback.and_then(|fallback| fallback.given_back(call.attempt)) {
            Some(fallback) => match fallback.wait_left() {
                Some(left) => Following::Attempt(Some(fallback), left),
                None => Following::Pause(Some(fallback)),
            },
            None => Following::Nothing,
        }
    }
}

/// Returns how an amount was determined. If there is no amount, the label does not matter.
fn label_of(cost: Option<Cost>) -> CountLabel {
    cost.map_or(CountLabel::Measured, |cost| cost.label)
}

/// Makes an attempt, whose deltas are shown if the user reads along.
async fn attempted(
    client: &dyn LlmClient,
    request: &ModelRequest,
    ctx: &CallContext,
    live: Option<&(Arc<Feed>, Arc<CallBuffer>)>,
    under_way: &AttemptUnderWay,
) -> (Result<Reply, LlmError>, Option<Duration>) {
    let attempted = match live {
        // Boxed, so that calls that are not streamed reserve no space for it.
        Some((feed, buffer)) => {
            Box::pin(streamed(client, request, ctx, feed, buffer, under_way)).await
        }
        None => {
            let reply = answered(async { client.respond(request, ctx).await });
            (reply.await.unwrap_or_else(|| Err(crashed())), None)
        }
    };
    // Hooks inspect the reply next.
    under_way.note_response();
    attempted
}

/// Makes an attempt whose deltas are shown as they arrive.
async fn streamed(
    client: &dyn LlmClient,
    request: &ModelRequest,
    ctx: &CallContext,
    feed: &Feed,
    buffer: &CallBuffer,
    under_way: &AttemptUnderWay,
) -> (Result<Reply, LlmError>, Option<Duration>) {
    let (started, attempt) = (Instant::now(), ctx.attempt);
    let mut first_delta = None;
    let assembled = async {
        let mut stream = client.stream_respond(request, ctx).await?;
        let mut assembler = ReplyAssembler::default();
        let mut take = |delta: Result<ReplyDelta, LlmError>| {
            first_delta.get_or_insert_with(|| started.elapsed());
            under_way.note_response();
            let delta = delta?;
            show(buffer, attempt, &delta);
            // The text is stored only once, in the listeners' buffer.
            assembler.push_without_text(delta)
        };
        while let More::Follows = poll_fn(|cx| take_ready(&mut stream, &mut take, feed, cx)).await?
        {
            tokio::task::yield_now().await;
        }
        assembler.finish_with(|block| buffer.whole(attempt, block))
    };
    let result = answered(assembled).await.unwrap_or_else(|| Err(crashed()));
    (result, first_delta)
}

/// Returns whether what was shown of a reply is part of the answer.
pub(crate) fn is_part_of_answer(purpose: Purpose, reply: &Reply) -> bool {
    reply.turned_down().is_none() && (purpose != Purpose::LastAnswer || is_last_answer(reply))
}

/// The error for a client that panicked: nothing is known about its server, and another attempt may succeed.
fn crashed() -> LlmError {
    LlmError::new(LlmErrorKind::server(None), "the model's adapter crashed")
}

/// Whether a stream may have more deltas.
enum More {
    Follows,
    No,
}

/// Takes the deltas that are available, up to the first error. Listeners are woken once for all of them.
fn take_ready(
    stream: &mut ReplyStream,
    mut take: impl FnMut(Result<ReplyDelta, LlmError>) -> Result<(), LlmError>,
    feed: &Feed,
    cx: &mut Context<'_>,
) -> Poll<Result<More, LlmError>> {
    let mut taken = 0;
    let end = loop {
        match stream.as_mut().poll_next(cx) {
            Poll::Pending => break Poll::Pending,
            Poll::Ready(None) => break Poll::Ready(Ok(More::No)),
            Poll::Ready(Some(delta)) => {
                taken += 1;
                if let Err(error) = take(delta) {
                    break Poll::Ready(Err(error));
                }
            }
        }
        if taken == MAX_DELTAS_AT_ONCE {
            break Poll::Ready(Ok(More::Follows));
        }
    };
    if taken > 0 {
        feed.grown();
    }
    end
}

fn show(buffer: &CallBuffer, attempt: Attempt, delta: &ReplyDelta) {
    match delta {
        ReplyDelta::Text { block, text } => buffer.text(attempt, *block, LiveText::Text, text),
        ReplyDelta::Reasoning { block, text } => {
            buffer.text(attempt, *block, LiveText::Reasoning, text);
        }
        ReplyDelta::ToolCall {
            block,
            name,
            arguments,
            ..
        } => {
            buffer.text(
                attempt,
                *block,
                LiveText::ToolCall { name: name.clone() },
                arguments,
            );
        }
        ReplyDelta::State { .. } | ReplyDelta::End(_) => {}
    }
}
