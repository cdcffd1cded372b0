//! Replies that are changed on their way: what one server gets wrong is put right before anybody reads it.

use std::collections::VecDeque;

use neuraxis_core::{LlmError, ReplyDelta};

use super::{EventOutcome, ReplyDecoder};
use crate::errors::ServerErrors;
use crate::sse::SseEvent;

/// What stands between one reply and whoever reads it, whole or streamed. `()` hands everything on as it is.
pub trait ReplyFilter: Unpin + Send + 'static {
    /// Takes a piece of the reply, and adds to `out` what can be handed on. With [`ReplyDelta::End`], all has to be.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for a reply that is of no use.
    fn push(&mut self, delta: ReplyDelta, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError>;
}

impl ReplyFilter for () {
    fn push(&mut self, delta: ReplyDelta, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError> {
        out.push_back(delta);
        Ok(())
    }
}

/// A decoder whose pieces go through a filter.
pub(crate) struct Filtered<D, F> {
    decoder: D,
    filter: F,
    /// Decoded and not yet filtered.
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
