//! Filters that fix one server's errors in a reply before it is read.

use std::collections::VecDeque;

use neuraxis_core::{LlmError, ReplyDelta};

use super::{EventOutcome, ReplyDecoder};
use crate::errors::ServerErrors;
use crate::sse::SseEvent;

/// A filter between one reply, whole or streamed, and its reader. `()` passes everything unchanged.
pub trait ReplyFilter: Unpin + Send + 'static {
    /// Processes a piece of the reply, and appends to `out` what can be passed on. With [`ReplyDelta::End`], everything
    /// must be.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for an unusable reply.
    fn push(&mut self, delta: ReplyDelta, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError>;
}

impl ReplyFilter for () {
    fn push(&mut self, delta: ReplyDelta, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError> {
        out.push_back(delta);
        Ok(())
    }
}

/// A decoder whose pieces pass through a filter.
pub(crate) struct Filtered<D, F> {
    decoder: D,
    filter: F,
    /// Decoded but not filtered yet.
    decoded: VecDeque<ReplyDelta>,
}

impl<D, F> Filtered<D, F> {
    pub(crate) const fn new(decoder: D, filter: F) -> Self {
        Self {
            decoder,
            filter,
            decoded: VecDeque::new(),
        }
    }
}

impl<D: ReplyDecoder, F: ReplyFilter> ReplyDecoder for Filtered<D, F> {
    fn event(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        let outcome = self.decoder.event(event, &mut self.decoded, errors)?;
        for delta in self.decoded.drain(..) {
            self.filter.push(delta, out)?;
        }
        Ok(outcome)
    }

    fn with_usage(&self, error: LlmError) -> LlmError {
        self.decoder.with_usage(error)
    }
}
