//! A model that plays scripts.

mod playing;
mod script;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, stream};
use neuraxis_core::{
    LlmError, LlmErrorKind, MediaTypes, ModelRef, ModelRequest, Reply, ReplyAssembler,
};
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, ReplyStream, RequestContext, async_trait};

use self::playing::Playing;
pub use self::script::Script;
use crate::call::Gauge;
use crate::scripted::lock;

/// Plays one [`Script`] per call and records the requests. When no scripts are left, it fails with an error that is not
/// retryable.
///
/// ```
/// use neuraxis_core::{LlmError, LlmErrorKind};
/// use neuraxis_testkit::{Script, ScriptedModel, reply};
///
/// let broken = LlmError::new(LlmErrorKind::Connection, "reset by peer");
/// let model = ScriptedModel::new()
///     .then(Script::from(reply::text("a longer answer")).split(3).fail_at(2, broken))
///     .then(reply::calls([("look", "{}")]))
///     .then(Script::hanging());
/// assert_eq!(model.remaining(), 3);
/// ```
pub struct ScriptedModel {
    info: ModelInfo,
    scripts: Mutex<VecDeque<Script>>,
    otherwise: Option<Box<Improvise>>,
    calls: Mutex<Vec<SeenModelCall>>,
    gauge: Gauge,
    /// The context size that it reports only after `learn_context` was called.
    learnable_context: Option<u64>,
    has_learned: AtomicBool,
}

type Improvise = dyn Fn(&ModelRequest) -> Script + Send + Sync;

/// A call that a [`ScriptedModel`] received.
#[derive(Debug, Clone)]
pub struct SeenModelCall {
    /// The request as the model received it.
    pub request: ModelRequest,
    /// The context of the call. Values that the program attached to the request are left out, since they must be
    /// dropped with the run.
    pub context: CallContext,
    /// How the reply was requested.
    pub mode: CallMode,
}

/// How a reply was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMode {
    /// As a whole, through `respond`.
    Whole,
    /// Piece by piece, through `stream_respond`.
    Streamed,
}

impl ScriptedModel {
    /// Creates a model without scripts.
    #[must_use]
    pub fn new() -> Self {
        Self {
            info: ModelInfo::new(ModelRef::new("testkit", "scripted")),
            scripts: Mutex::default(),
            otherwise: None,
            calls: Mutex::default(),
            gauge: Gauge::default(),
            learnable_context: None,
            has_learned: AtomicBool::new(false),
        }
    }

    /// Creates a model that plays the same script for every call.
    pub fn always(script: impl Into<Script>) -> Self {
        let script = script.into();
        Self::answering(move |_| script.clone())
    }

    /// Creates a model that chooses its script by the request.
    pub fn answering<S: Into<Script>>(
        choose: impl Fn(&ModelRequest) -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            otherwise: Some(Box::new(move |request| choose(request).into())),
            ..Self::new()
        }
    }

    /// Sets the model's name. Replies keep the name with which they were created.
    #[must_use]
    pub fn named(mut self, model: ModelRef) -> Self {
        self.info = ModelInfo::new(model);
        self
    }

    /// Sets the model's context size, in tokens.
    #[must_use]
    pub const fn with_context(mut self, tokens: u64) -> Self {
        self.info.context_tokens = Some(tokens);
        self
    }

    /// Sets the media types that the model accepts.
    #[must_use]
    pub const fn with_media(mut self, media: MediaTypes) -> Self {
        self.info.media = media;
        self
    }

    /// Sets the model's context size, in tokens, which it reports only after [`LlmClient::learn_context`] was called.
    #[must_use]
    pub const fn with_context_when_asked(mut self, tokens: u64) -> Self {
        self.learnable_context = Some(tokens);
        self
    }

    /// Adds the script of the next call.
    #[must_use]
    pub fn then(self, script: impl Into<Script>) -> Self {
        self.push(script);
        self
    }

    /// Adds the script of the next call while the model is in use.
    pub fn push(&self, script: impl Into<Script>) {
        lock(&self.scripts).push_back(script.into());
    }

    /// Returns how many scripts have not been played.
    #[must_use]
    pub fn remaining(&self) -> usize {
        lock(&self.scripts).len()
    }

    /// Returns the calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<SeenModelCall> {
        lock(&self.calls).clone()
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        lock(&self.calls)
            .iter()
            .map(|call| call.request.clone())
            .collect()
    }

    /// Returns how many calls are open, that is, neither finished nor abandoned.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.gauge.now()
    }

    /// Returns the maximum number of calls that were open at the same time.
    #[must_use]
    pub fn most_open_calls(&self) -> usize {
        self.gauge.most()
    }

    fn begin(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
        mode: CallMode,
    ) -> Result<Playing, LlmError> {
        let mut context = ctx.clone();
        context.request = RequestContext::default();
        let number = {
            let mut calls = lock(&self.calls);
            calls.push(SeenModelCall {
                request: request.clone(),
                context,
                mode,
            });
            calls.len()
        };
        let next = lock(&self.scripts).pop_front();
        let script = next.or_else(|| self.otherwise.as_ref().map(|choose| choose(request)));
        let script = script.ok_or_else(|| {
            LlmError::new(
                LlmErrorKind::BadRequest,
                format!("the test has no script for model call {number}"),
            )
        })?;
        Ok(Playing::new(
            script,
            ctx.cancellation.clone(),
            self.gauge.open(),
        ))
    }
}

impl Default for ScriptedModel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scripts = lock(&self.scripts);
        f.debug_struct("ScriptedModel")
            .field("info", &self.info)
            .field("scripts", &*scripts)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl LlmClient for ScriptedModel {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let mut playing = self.begin(request, ctx, CallMode::Whole)?;
        let mut assembler = ReplyAssembler::default();
        while let Some(delta) = playing.next().await {
            assembler.push(delta?)?;
        }
        assembler.finish()
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let mut playing = self.begin(request, ctx, CallMode::Streamed)?;
        playing.reach_a_delta().await?;
        let deltas = stream::unfold(playing, async |mut playing| {
            Some((playing.next().await?, playing))
        });
        Ok(deltas.boxed())
    }

    fn info(&self) -> ModelInfo {
        let mut info = self.info.clone();
        let has_learned = self.has_learned.load(Ordering::Relaxed);
        let learned = self.learnable_context.filter(|_| has_learned);
        info.context_tokens = info.context_tokens.or(learned);
        info
    }

    async fn learn_context(&self) {
        self.has_learned.store(true, Ordering::Relaxed);
    }
}
