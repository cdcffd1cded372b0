//! In-memory models that take almost no time themselves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuraxis::core::{
    BlockIndex, JsonText, LlmError, LlmErrorKind, ModelRef, ModelRequest, Reply, ReplyDelta,
    ReplyEnd, ReplyFinish, ReplyPart, RequestedCall, TextPart, Usage,
};
use neuraxis::ports::{CallContext, LlmClient, ModelInfo, ReplyStream, async_trait};

pub(crate) fn model() -> ModelRef {
    ModelRef::new("bench", "in-memory")
}

pub(crate) fn text(text: &str) -> Reply {
    let text = text.to_owned();
    let part = ReplyPart::Text(TextPart { text, state: None });
    reply(part, ReplyFinish::Stop)
}

/// Returns a call of `add` that differs in each turn, so that none is a repeated call.
pub(crate) fn call(turn: usize) -> Reply {
    let part = ReplyPart::ToolCall(RequestedCall {
        provider_id: None,
        name: "add".into(),
        arguments: JsonText::from_text(format!(r#"{{"a":{turn},"b":1}}"#)),
        state: None,
    });
    reply(part, ReplyFinish::ToolCalls)
}

fn reply(part: ReplyPart, finish: ReplyFinish) -> Reply {
    Reply {
        parts: vec![part],
        finish,
        usage: Usage::default(),
        model: model(),
        advice: None,
    }
}

fn not_asked_for() -> LlmError {
    LlmError::new(
        LlmErrorKind::BadRequest,
        "this model has no such way to answer",
    )
}

/// Never answers.
#[derive(Debug, Default)]
pub(crate) struct Hanging {
    open: AtomicUsize,
}

impl Hanging {
    /// Returns how many calls it has received.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    async fn hang(&self, ctx: &CallContext) -> LlmError {
        self.open.fetch_add(1, Ordering::Relaxed);
        ctx.cancellation.cancelled().await;
        LlmError::new(LlmErrorKind::Cancelled, "given up by its caller")
    }
}

#[async_trait]
impl LlmClient for Hanging {
    async fn respond(&self, _: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        Err(self.hang(ctx).await)
    }

    async fn stream_respond(
        &self,
        _: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        Err(self.hang(ctx).await)
    }

    fn info(&self) -> ModelInfo {
        ModelInfo::new(model())
    }
}

/// The times at which the deltas of a streamed answer arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Each 2 milliseconds after the previous one: slow enough for a listener to receive each separately.
    Slow,
    /// All at the same time, as when a whole packet of them arrives.
    Burst,
}

/// Streams a number of one-word deltas.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) deltas: usize,
    pub(crate) pace: Pace,
}

/// The content of each delta.
pub(crate) const WORD: &str = "word ";

impl Streaming {
    pub(crate) fn stream(&self) -> ReplyStream {
        let end = ReplyDelta::End(Box::new(ReplyEnd {
            finish: ReplyFinish::Stop,
            usage: Usage::default(),
            model: model(),
        }));
        let words = stream::iter(0..self.deltas).map(|_| ReplyDelta::Text {
            block: BlockIndex(0),
            text: WORD.to_owned(),
        });
        let deltas = words.chain(stream::iter([end])).map(Ok);
        match self.pace {
            Pace::Burst => deltas.boxed(),
            Pace::Slow => deltas.then(later).boxed(),
        }
    }
}

async fn later<T>(item: T) -> T {
    tokio::time::sleep(Duration::from_millis(2)).await;
    item
}

#[async_trait]
impl LlmClient for Streaming {
    async fn respond(&self, _: &ModelRequest, _: &CallContext) -> Result<Reply, LlmError> {
        Err(not_asked_for())
    }

    async fn stream_respond(
        &self,
        _: &ModelRequest,
        _: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        Ok(self.stream())
    }

    fn info(&self) -> ModelInfo {
        ModelInfo::new(model())
    }
}

/// Calls a tool in each of a number of turns, then answers.
#[derive(Debug)]
pub(crate) struct Calling {
    pub(crate) turns: usize,
}

#[async_trait]
impl LlmClient for Calling {
    async fn respond(&self, request: &ModelRequest, _: &CallContext) -> Result<Reply, LlmError> {
        // A system and a user message, then two messages per turn. They are counted rather than read, because the model
        // would otherwise take longer as the history grows.
        let turn = request.messages.len().saturating_sub(2) / 2;
        Ok(if turn < self.turns {
            call(turn)
        } else {
            text("done")
        })
    }

    async fn stream_respond(
        &self,
        _: &ModelRequest,
        _: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        Err(not_asked_for())
    }

    fn info(&self) -> ModelInfo {
        ModelInfo::new(model())
    }
}
