//! The port to language models.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use neuraxis_core::{
    Attempt, EffectId, LlmError, LlmErrorKind, MediaTypes, ModelRef, ModelRequest, Reply,
    ReplyDelta, TraceContext,
};
use tokio_util::sync::CancellationToken;

use crate::request_context::RequestContext;

/// A reply as it streams in: deltas, then [`ReplyDelta::End`]. An error, or an end of the stream without `End`, means
/// that the reply was cut off.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<ReplyDelta, LlmError>> + Send>>;

/// A client for one language model.
///
/// **One attempt.** An implementation never retries a request; the engine does, according to
/// [`LlmError::is_retryable`]. If a server rejects a request before its model sees it, the client may immediately
/// resend it in a form that the server accepts: that is not another attempt. **Cancel safety.** Dropping the future or
/// the stream, or cancelling [`CallContext::cancellation`], abandons the call and closes its connection immediately.
/// **Order.** Calls are independent; any number may run at the same time.
#[async_trait]
pub trait LlmClient: Debug + Send + Sync + 'static {
    /// Returns the whole reply to a request, for a reader that is another part of the system.
    ///
    /// Every part of the request must be honored: [`tool_choice`](ModelRequest::tool_choice), which keeps a last answer
    /// from calling tools, [`max_output_tokens`](ModelRequest::max_output_tokens),
    /// [`temperature`](ModelRequest::temperature), and [`reply_format`](ModelRequest::reply_format). Nothing else tells
    /// the model about the reply format: if a server has no field for it, put its schema into a message.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that says what went wrong, whether retrying can help, and which tokens were used anyway.
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError>;

    /// Returns the reply to a request piece by piece, for a reader who follows along. Assembled, the pieces are the
    /// reply that [`respond`](Self::respond) would return.
    ///
    /// The default implementation waits for that reply and returns each of its parts whole. It suits a server that does
    /// not stream, and a wrapping client that must see a whole reply before it is read. Any other wrapping client must
    /// forward this call, or replies are no longer streamed.
    ///
    /// # Errors
    ///
    /// Same as `respond` for errors before the first piece; later errors are items of the stream.
    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let deltas = self.respond(request, ctx).await?.into_deltas();
        Ok(whole_reply(deltas, ctx.cancellation.clone()))
    }

    /// Describes the model from what is known without asking its server.
    fn info(&self) -> ModelInfo;

    /// Asks the server for the model's context size, if [`info`](Self::info) does not have it; afterwards `info` does,
    /// if the server answered. Called before a run begins and before an attempt by a fallback model, so it must
    /// complete within a second or two whatever the server does, and must not keep asking a server that does not tell.
    /// The engine waits for five seconds and then proceeds as if the server had not answered; it does the same if this
    /// panics. Called again before a message is refused because it does not fit the known size, since the server may
    /// have been restarted. By default there is nothing to ask.
    async fn learn_context(&self) {}

    /// Asks the server which images, sounds and files the model accepts, if [`info`](Self::info) does not have it;
    /// afterwards `info` does, if the server answered. Called before a run whose messages contain such media; the rules
    /// are those of [`learn_context`](Self::learn_context). By default there is nothing to ask.
    async fn learn_media(&self) {}
}

/// Returns the deltas of a complete reply one by one. If the call is cancelled meanwhile, the last item is the error
/// that says so.
pub fn whole_reply(deltas: Vec<ReplyDelta>, cancellation: CancellationToken) -> ReplyStream {
    Box::pin(WholeReply {
        deltas: deltas.into_iter(),
        cancellation,
    })
}

/// A complete reply, as a stream of its parts.
struct WholeReply {
    deltas: std::vec::IntoIter<ReplyDelta>,
    cancellation: CancellationToken,
}

impl Stream for WholeReply {
    type Item = Result<ReplyDelta, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(delta) = self.deltas.next() else {
            return Poll::Ready(None);
        };
        if self.cancellation.is_cancelled() {
            self.deltas = Vec::new().into_iter();
            let given_up = LlmError::new(LlmErrorKind::Cancelled, "given up by its caller");
            return Poll::Ready(Some(Err(given_up)));
        }
        Poll::Ready(Some(Ok(delta)))
    }
}

/// The circumstances of a model call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallContext {
    /// The effect that asked for the call.
    pub effect_id: EffectId,
    /// The number of attempts so far, including this one.
    pub attempt: Attempt,
    /// The trace that the call belongs to and its span, for the `traceparent` header of the request; `None` if no trace
    /// is recorded.
    pub trace: Option<TraceContext>,
    /// Tells the call to stop.
    pub cancellation: CancellationToken,
    /// Who asks, and the values that the program passed with the request: for a program's own wrapping clients, which
    /// check or change what is sent and received.
    pub request: RequestContext,
    wait: Arc<Wait>,
}

/// How long a call waited in its client.
#[derive(Debug, Default)]
struct Wait {
    is_waiting: AtomicBool,
    milliseconds: AtomicU64,
}

impl CallContext {
    /// Creates the context of a first attempt, with nothing that cancels it yet.
    #[must_use]
    pub fn new(effect_id: EffectId, trace: impl Into<Option<TraceContext>>) -> Self {
        Self {
            effect_id,
            attempt: Attempt(1),
            trace: trace.into(),
            cancellation: CancellationToken::new(),
            request: RequestContext::default(),
            wait: Arc::default(),
        }
    }

    /// Reports that the call waits in its client before it is sent, such as for a free slot at its server. The model
    /// has not received the call yet, so that time is not counted against it.
    pub fn begin_wait(&self) {
        self.wait.is_waiting.store(true, Ordering::Relaxed);
    }

    /// Reports that the call is sent now, after waiting this long.
    pub fn end_wait(&self, waited: Duration) {
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let wait = &self.wait;
        wait.milliseconds.fetch_add(waited, Ordering::Relaxed);
        wait.is_waiting.store(false, Ordering::Release);
    }

    /// Returns how long the call waited in its client; `None` while it waits.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        let is_waiting = self.wait.is_waiting.load(Ordering::Acquire);
        let waited = || Duration::from_millis(self.wait.milliseconds.load(Ordering::Relaxed));
        (!is_waiting).then(waited)
    }
}

/// What is known of a model without asking its server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// Provider and model.
    pub model: ModelRef,
    /// The context size in tokens, if known.
    pub context_tokens: Option<u64>,
    /// Which images, sounds and files it accepts in messages, if known.
    pub media: MediaTypes,
    /// Whether its reasoning from before the last user message is sent to it again and so counts as part of the
    /// conversation. `false` unless its client says otherwise.
    pub resends_reasoning: bool,
    /// What a user should know before trusting its answers, such as "not a language model".
    pub notice: Option<String>,
    /// How long its server may take to load it before a call fails; the engine's setting applies if `None`.
    pub loads_within: Option<Duration>,
}

impl ModelInfo {
    /// Describes a model of which only the name is known.
    #[must_use]
    pub const fn new(model: ModelRef) -> Self {
        Self {
            model,
            context_tokens: None,
            media: MediaTypes::Unknown,
            resends_reasoning: false,
            notice: None,
            loads_within: None,
        }
    }
}
