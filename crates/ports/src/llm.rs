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

/// A reply as it streams in: deltas, then [`ReplyDelta::End`]. An error, or an end without it, means the reply was cut.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<ReplyDelta, LlmError>> + Send>>;

/// A model that can be asked.
///
/// **One attempt.** An implementation never repeats a request; the engine does, by [`LlmError::is_retryable`]. What a
/// server refuses before its model is asked may be said at once in a form that it takes: that is no attempt of the model.
/// **Cancel safety.** Dropping the future or the stream, or cancelling [`CallContext::cancellation`], gives the call up
/// and closes its connection at once. **Order.** Calls are independent; any number may run at the same time.
#[async_trait]
pub trait LlmClient: Debug + Send + Sync + 'static {
    /// Answers a request whole, for a reader that is another part of the system.
    ///
    /// All of the request counts: [`tool_choice`](ModelRequest::tool_choice), by which a last answer calls nothing,
    /// [`max_output_tokens`](ModelRequest::max_output_tokens), [`temperature`](ModelRequest::temperature), and
    /// [`reply_format`](ModelRequest::reply_format), which nothing else tells the model: where a server has no field for it,
    /// its schema is said in a message.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that says what went wrong, whether repeating can help, and which tokens were used all the same.
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError>;

    /// Answers a request piece by piece, for a person who reads along. Assembled, the pieces are the same reply that
    /// [`respond`](Self::respond) would give.
    ///
    /// As provided, it waits for that reply and gives each of its parts whole: for a server that does not stream, and for a
    /// client around another that has to see a reply whole before anybody reads it. Any other client around another hands
    /// this call on, or nobody reads along any more.
    ///
    /// # Errors
    ///
    /// As `respond` for all that goes wrong before the first piece; what goes wrong later is an item of the stream.
    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let deltas = self.respond(request, ctx).await?.into_deltas();
        Ok(whole_reply(deltas, ctx.cancellation.clone()))
    }

    /// Describes the model, from what is known without asking it.
    fn info(&self) -> ModelInfo;

    /// Asks the server how much context the model has, where [`info`](Self::info) does not tell: from then on it does, if
    /// the server said so. Called before a run begins, and before an attempt by a model that stands in, so it has to be over
    /// within a second or two, whatever the server does, and a server that does not tell is not asked each time. The engine
    /// waits for five seconds, and goes on as if the server had not told; so it does where this panics. Called once more before a
    /// message is refused that does not fit what it told: it may have been started anew. As provided, there is nothing to ask.
    async fn learn_context(&self) {}

    /// Asks the server which images, sounds and files the model takes, where [`info`](Self::info) does not tell: from then on
    /// it does, if the server said so. Called before a run whose messages hold such; the rules are those of
    /// [`learn_context`](Self::learn_context). As provided, there is nothing to ask.
    async fn learn_media(&self) {}
}

/// Gives the deltas of a reply that came whole one by one. Where the call is given up meanwhile, the error that says so is the
/// last item.
pub fn whole_reply(deltas: Vec<ReplyDelta>, cancellation: CancellationToken) -> ReplyStream {
    Box::pin(WholeReply {
        deltas: deltas.into_iter(),
        cancellation,
    })
}

/// A reply that came whole, as a stream of its parts.
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
    /// How often it was tried, this time included.
    pub attempt: Attempt,
    /// The trace that the call belongs to and its span, for the header `traceparent` of what is sent; `None` where nobody
    /// records one.
    pub trace: Option<TraceContext>,
    /// Tells the call to give up.
    pub cancellation: CancellationToken,
    /// Who asks, and what the program gave with the request: for clients of a program's own around another, which check or
    /// change what is sent and said.
    pub request: RequestContext,
    wait: Arc<Wait>,
}

/// What a call waited for in its client.
#[derive(Debug, Default)]
struct Wait {
    goes_on: AtomicBool,
    milliseconds: AtomicU64,
}

impl CallContext {
    /// Makes the context of a first attempt that nobody cancels yet.
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

    /// Says that the call waits in its client before it is sent, as for its place among those at the same server: its model,
    /// which has not heard of it yet, is not to blame for that time.
    pub fn begin_wait(&self) {
        self.wait.goes_on.store(true, Ordering::Relaxed);
    }

    /// Says that the call is sent now, after it waited for so long.
    pub fn end_wait(&self, waited: Duration) {
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let wait = &self.wait;
        wait.milliseconds.fetch_add(waited, Ordering::Relaxed);
        wait.goes_on.store(false, Ordering::Release);
    }

    /// Returns for how long the call waited in its client; `None` while it does.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        let goes_on = self.wait.goes_on.load(Ordering::Acquire);
        let waited = || Duration::from_millis(self.wait.milliseconds.load(Ordering::Relaxed));
        (!goes_on).then(waited)
    }
}

/// What is known of a model without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// Provider and model.
    pub model: ModelRef,
    /// The context size in tokens, where known.
    pub context_tokens: Option<u64>,
    /// Which images, sounds and files it takes in messages, where known.
    pub media: MediaTypes,
    /// Whether it is sent again what it thought before the last user message, which then counts as part of the conversation.
    /// `false` unless its client says so.
    pub resends_reasoning: bool,
    /// What a user should know before trusting its answers, such as "not a language model".
    pub notice: Option<String>,
    /// How long its server may take to load it before a call fails; as the engine has it if the model says nothing.
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
