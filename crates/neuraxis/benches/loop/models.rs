//! Models in memory, which take next to no time themselves.

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

/// A call of `add` that no other turn makes, so that none is a repeated call.
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
    /// How many calls it was asked to answer.
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

/// When the deltas of a streamed answer come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Each 2 milliseconds after the last: slow enough for a listener to hear each on its own.
    Slow,
    /// All at once, as when a whole packet of them arrives.
    Burst,
}

/// Streams so many deltas of one word.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) deltas: usize,
    pub(crate) pace: Pace,
}

/// What each delta holds.
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

/// Calls a tool in each of so many turns, then answers.
#[derive(Debug)]
pub(crate) struct Calling {
    pub(crate) turns: usize,
}

#[async_trait]
impl LlmClient for Calling {
    async fn respond(&self, request: &ModelRequest, _: &CallContext) -> Result<Reply, LlmError> {
        // A system and a user message, then two messages a turn: counted, not read, or the model would take longer
        // the longer the history is.
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
