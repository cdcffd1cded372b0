//! A client that records the calls of another client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};
use neuraxis_core::{LlmError, ModelRequest, Reply, ReplyDelta, ReplyPart, Role};
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, ReplyStream, async_trait};
use tokio::time::Instant;

use crate::exchange::{Ended, Event, Exchange, Mode};
use crate::recording::{MAX_EXCHANGE_BYTES, Recording, millis};

/// The size of a delta in bytes, without its text.
const DELTA_BYTES: usize = size_of::<(u64, Event)>();

/// A client that passes all calls to another one, unchanged, and writes each exchange to a [`Recording`].
///
/// A call that its caller gives up is recorded with what had arrived by then. Writing is one append to a file, on the
/// caller's thread, when a call is complete.
#[derive(Debug)]
pub struct Recorder {
    recording: Arc<Recording>,
    role: Role,
    client: Arc<dyn LlmClient>,
}

impl Recorder {
    pub(crate) const fn new(
        recording: Arc<Recording>,
        role: Role,
        client: Arc<dyn LlmClient>,
    ) -> Self {
        Self {
            recording,
            role,
            client,
        }
    }

    fn begin(&self, request: &ModelRequest, mode: Mode) -> OpenExchange {
        let (number, started_ms) = self.recording.next();
        let info = self.client.info();
        OpenExchange {
            recording: Arc::clone(&self.recording),
            started: Instant::now(),
            bytes: 0,
            exchange: Some(Exchange {
                number,
                line: 0,
                role: self.role.clone(),
                model: info.model,
                context_tokens: info.context_tokens,
                mode,
                started_ms,
                request: request.clone(),
                events: Vec::new(),
                ended_ms: 0,
                ended: Ended::Abandoned,
            }),
        }
    }
}

#[async_trait]
impl LlmClient for Recorder {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let mut exchange = self.begin(request, Mode::Whole);
        let result = self.client.respond(request, ctx).await;
        match &result {
            Ok(reply) => exchange.add(Event::Reply(reply.clone())),
            Err(error) => exchange.add(Event::Error(error.clone())),
        }
        exchange.ended();
        result
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let mut exchange = self.begin(request, Mode::Streamed);
        match self.client.stream_respond(request, ctx).await {
            Ok(stream) => {
                exchange.add(Event::Open);
                Ok(RecordedStream { stream, exchange }.boxed())
            }
            Err(error) => {
                exchange.add(Event::Error(error.clone()));
                exchange.ended();
                Err(error)
            }
        }
    }

    fn info(&self) -> ModelInfo {
        self.client.info()
    }

    async fn learn_context(&self) {
        self.client.learn_context().await;
    }

    async fn learn_media(&self) {
        self.client.learn_media().await;
    }
}

/// A stream that is recorded as it is read.
struct RecordedStream {
    stream: ReplyStream,
    exchange: OpenExchange,
}

impl Stream for RecordedStream {
    type Item = Result<ReplyDelta, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.stream.poll_next_unpin(cx);
        match &next {
            Poll::Ready(Some(Ok(delta))) => self.exchange.add(Event::Delta(delta.clone())),
            Poll::Ready(Some(Err(error))) => self.exchange.add(Event::Error(error.clone())),
            Poll::Ready(None) => self.exchange.ended(),
            Poll::Pending => {}
        }
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

/// An exchange being recorded. It is written when it ends or, if its caller gives up, when it is dropped.
struct OpenExchange {
    recording: Arc<Recording>,
    started: Instant,
    bytes: usize,
    exchange: Option<Exchange>,
}

impl OpenExchange {
    fn add(&mut self, event: Event) {
        let ms = millis(self.started);
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        self.bytes = self.bytes.saturating_add(weight(&event));
        if self.bytes > MAX_EXCHANGE_BYTES {
            self.recording.too_large(exchange.number);
            self.exchange = None;
            return;
        }
        exchange.events.push((ms, event));
    }

    /// Records that the client had nothing more to return.
    fn ended(&mut self) {
        self.write(Ended::Ended);
    }

    fn write(&mut self, ended: Ended) {
        let Some(mut exchange) = self.exchange.take() else {
            return;
        };
        exchange.ended_ms = millis(self.started);
        exchange.ended = ended;
        self.recording.write(&exchange);
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        let last = self
            .exchange
            .as_ref()
            .and_then(|exchange| exchange.events.last());
        // A caller that has the end of a reply, or an error, may drop the stream without polling further.
        let is_over = matches!(
            last,
            Some((_, Event::Delta(ReplyDelta::End(_)) | Event::Error(_)))
        );
        self.write(if is_over {
            Ended::Ended
        } else {
            Ended::Abandoned
        });
    }
}

/// Returns the approximate number of bytes that an event takes in memory.
fn weight(event: &Event) -> usize {
    let text = match event {
        Event::Open => 0,
        Event::Error(error) => error.message.len(),
        Event::Reply(reply) => reply.parts.iter().map(part_weight).sum(),
        Event::Delta(delta) => match delta {
            ReplyDelta::Text { text, .. } | ReplyDelta::Reasoning { text, .. } => text.len(),
            ReplyDelta::ToolCall { arguments, .. } => arguments.len(),
            ReplyDelta::State {
                signature, state, ..
            } => {
                let state = state.as_ref().map_or(0, |state| state.as_str().len());
                state + signature.as_ref().map_or(0, String::len)
            }
            ReplyDelta::End(_) => 0,
        },
    };
    text.saturating_add(DELTA_BYTES)
}

fn part_weight(part: &ReplyPart) -> usize {
    match part {
        ReplyPart::Text(part) => part.text.len(),
        ReplyPart::Reasoning(part) => part.text.len(),
        ReplyPart::ToolCall(call) => call.arguments.as_str().len(),
    }
}
