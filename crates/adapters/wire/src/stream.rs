//! Reads a streamed reply: bytes to events, events to pieces of a reply.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind, ReplyDelta};
use neuraxis_ports::Stream;

use crate::body::{Body, cancelled_by_caller};
use crate::reply::{EventOutcome, ReplyDecoder};
use crate::sse::{SseDecoder, SseEvent};
use crate::surrogates::SurrogateJoiner;

/// How long a connection may take to end after its reply, to be reused.
const DRAIN_WITHIN: Duration = Duration::from_millis(100);

/// A streamed reply, decoded as it arrives. An error drops everything, so its connection is closed immediately.
pub(crate) struct EventStream<D>(Option<Reading<D>>);

struct Reading<D> {
    body: Body,
    events: SseDecoder,
    surrogates: SurrogateJoiner,
    decoder: D,
    /// Decoded but not returned yet.
    ready: VecDeque<ReplyDelta>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    /// The reply is complete. Reading to the end of the body frees the connection for the next call.
    Draining,
}

impl<D: ReplyDecoder> EventStream<D> {
    pub(crate) fn new(body: Body, decoder: D) -> Self {
        Self(Some(Reading {
            body,
            events: SseDecoder::new(),
            surrogates: SurrogateJoiner::default(),
            decoder,
            ready: VecDeque::new(),
            phase: Phase::Reading,
        }))
    }
}

impl<D: ReplyDecoder> Stream for EventStream<D> {
    type Item = Result<ReplyDelta, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(reading) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let item = ready!(reading.poll_delta(cx));
        if !matches!(item, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(item)
    }
}

impl<D: ReplyDecoder> Reading<D> {
    /// Returns the next piece of the reply; `None` once it is complete and its connection is free.
    fn poll_delta(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ReplyDelta, LlmError>>> {
        loop {
            if !self.ready.is_empty() && self.body.cancellation().is_cancelled() {
                return Poll::Ready(Some(Err(cancelled_by_caller())));
            }
            if let Some(delta) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(delta)));
            }
            match self.decode() {
                Ok(()) if !self.ready.is_empty() => continue,
                Ok(()) => {}
                Err(error) => return Poll::Ready(Some(Err(self.decoder.with_usage(error)))),
            }
            match (self.phase, ready!(self.body.poll_next(cx))) {
                (Phase::Draining, Some(Ok(_))) => {}
                (Phase::Draining, _) => return Poll::Ready(None),
                (Phase::Reading, Some(Ok(piece))) => self.events.push(piece),
                (Phase::Reading, Some(Err(error))) => {
                    return Poll::Ready(Some(Err(self.decoder.with_usage(error))));
                }
                (Phase::Reading, None) => {
                    let error = LlmError::new(
                        LlmErrorKind::Incomplete,
                        "the stream ended before the reply was complete",
                    );
                    return Poll::Ready(Some(Err(self.decoder.with_usage(error))));
                }
            }
        }
    }

    /// Decodes events until a piece of the reply is ready or more must be read.
    fn decode(&mut self) -> Result<(), LlmError> {
        while self.ready.is_empty() && self.phase == Phase::Reading {
            let Some(event) = self.events.next_event()? else {
                return Ok(());
            };
            let data = self.surrogates.join(event.data);
            let event = SseEvent {
                name: event.name,
                data: &data,
            };
            let errors = self.body.errors();
            match self.decoder.event(event, &mut self.ready, errors)? {
                EventOutcome::Output => self.body.mark_output(),
                EventOutcome::Nothing => {}
                EventOutcome::End => {
                    self.phase = Phase::Draining;
                    self.body.end_within(DRAIN_WITHIN);
                }
            }
        }
        Ok(())
    }
}
