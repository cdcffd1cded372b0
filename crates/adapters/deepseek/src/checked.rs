//! Replies as they are handed on: with the calls that the model wrote into its text, and never with nothing.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use neuraxis_core::{
    BlockIndex, LlmError, LlmErrorKind, Reply, ReplyAssembler, ReplyDelta, ReplyEnd, ReplyPart,
};
use neuraxis_ports::{CancellationToken, ReplyStream, Stream};

use crate::markup::MarkupFilter;

/// Checks a reply that came whole. It goes the way of a stream, so that both give the same.
pub(crate) fn whole(reply: Reply) -> Result<Reply, LlmError> {
    let mut filter = MarkupFilter::default();
    let mut passed = VecDeque::new();
    for delta in deltas(reply) {
        filter.push(delta, &mut passed)?;
    }
    let mut assembler = ReplyAssembler::default();
    for delta in passed {
        assembler.push(delta)?;
    }
    assembler.finish()
}

fn deltas(reply: Reply) -> Vec<ReplyDelta> {
    let mut deltas = Vec::new();
    for (block, part) in (0..).map(BlockIndex).zip(reply.parts) {
        let (id, signature, state) = match part {
            ReplyPart::Text(part) => {
                let text = part.text;
                deltas.push(ReplyDelta::Text { block, text });
                (None, None, part.state)
            }
            ReplyPart::Reasoning(part) => {
                let text = part.text;
                deltas.push(ReplyDelta::Reasoning { block, text });
                (part.id, part.signature, part.state)
            }
            ReplyPart::ToolCall(call) => {
                deltas.push(ReplyDelta::ToolCall {
                    block,
                    provider_id: call.provider_id,
                    name: Some(call.name),
                    arguments: call.arguments.as_str().to_owned(),
                });
                (None, None, call.state)
            }
        };
        if id.is_some() || signature.is_some() || state.is_some() {
            deltas.push(ReplyDelta::State {
                block,
                id,
                signature,
                state,
            });
        }
    }
    deltas.push(ReplyDelta::End(Box::new(ReplyEnd {
        finish: reply.finish,
        usage: reply.usage,
        model: reply.model,
    })));
    deltas
}

/// A reply that streams in, checked as it comes. Nothing is left of it after an error.
pub(crate) struct CheckedStream {
    source: Option<ReplyStream>,
    filter: MarkupFilter,
    passed: VecDeque<ReplyDelta>,
    cancellation: CancellationToken,
}

impl CheckedStream {
    pub(crate) fn new(source: ReplyStream, cancellation: CancellationToken) -> Self {
        Self {
            source: Some(source),
            filter: MarkupFilter::default(),
            passed: VecDeque::new(),
            cancellation,
        }
    }

    fn poll_delta(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ReplyDelta, LlmError>>> {
        loop {
            if !self.passed.is_empty() && self.cancellation.is_cancelled() {
                let error = LlmError::new(LlmErrorKind::Cancelled, "given up by its caller");
                return Poll::Ready(Some(Err(error)));
            }
            if let Some(delta) = self.passed.pop_front() {
                return Poll::Ready(Some(Ok(delta)));
            }
            let Some(source) = &mut self.source else {
                return Poll::Ready(None);
            };
            let delta = match ready!(source.as_mut().poll_next(cx)) {
                Some(Ok(delta)) => delta,
                end => return Poll::Ready(end),
            };
            if let Err(error) = self.filter.push(delta, &mut self.passed) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl Stream for CheckedStream {
    type Item = Result<ReplyDelta, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.poll_delta(cx));
        if !matches!(item, Some(Ok(_))) {
            self.source = None;
            self.passed.clear();
        }
        Poll::Ready(item)
    }
}
