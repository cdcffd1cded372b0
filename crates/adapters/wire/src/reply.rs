//! What every protocol needs to read replies: a decoder of events, texts that are not copied, and what a reply used.

mod filter;
mod usage;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{LlmError, LlmErrorKind, ModelRef, Reply, ReplyAssembler, ReplyDelta};
use serde::Deserialize;

pub(crate) use self::filter::Filtered;
pub use self::filter::ReplyFilter;
pub use self::usage::{Shares, TokenCounts, known_count, written_count};
use crate::errors::ServerErrors;
pub use crate::errors::clean;
use crate::sse::SseEvent;

/// The most tool calls of one reply: far more than any model means.
pub const MAX_CALLS: usize = 300;

/// How a protocol turns the events of one streamed reply into pieces of that reply.
///
/// One decoder reads one reply. It refuses what contradicts itself: after an error nothing more of the reply is read.
pub trait ReplyDecoder: Unpin + Send + 'static {
    /// Takes the next event and adds the pieces that it brings to `out`. The last piece of a whole reply is
    /// [`ReplyDelta::End`], added by the event that [ends](EventOutcome::End) it.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for an event that brings one, which `errors` reads, or that is none of this protocol
    /// ([`invalid`]).
    fn event(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError>;

    /// Adds to an error what the reply had used up to then, where the server said so. A stream that breaks off passes its
    /// error through here, too.
    fn with_usage(&self, error: LlmError) -> LlmError;
}

/// What an event was for the reply it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    /// Something of the model's own: the wait for [`output`](crate::Timeouts::output) begins anew.
    Output,
    /// Nothing that a reader waits for.
    Nothing,
    /// The end of the reply, which is whole.
    End,
}

/// A text of a JSON field, borrowed where nothing is escaped in it.
#[derive(Debug, Default, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'a> Text<'a> {
    /// Returns the text of a field, or nothing if it is missing, null or empty.
    #[must_use]
    pub fn of(field: Option<Self>) -> Option<Cow<'a, str>> {
        field.map(|text| text.0).filter(|text| !text.is_empty())
    }
}

/// Reads JSON that a server sent. The error says where it is wrong and nothing that stands there, which may be the key.
///
/// # Errors
///
/// An [`invalid`] reply, when it is no JSON or not of this form.
pub fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, LlmError> {
    serde_json::from_str(json).map_err(|error| {
        let wrong = what_is_wrong(&error);
        invalid(format!("the server sent JSON that cannot be read: {wrong}"))
    })
}

/// Says what is wrong with JSON from outside, and where. The error's own words repeat values, however long they are.
pub(crate) fn what_is_wrong(error: &serde_json::Error) -> String {
    let wrong = match error.is_data() {
        true => "it has another form",
        false => "it is not valid",
    };
    let (line, column) = (error.line(), error.column());
    format!("{wrong} at line {line}, column {column}")
}

/// The error of a reply that is not what the protocol says it is.
pub fn invalid(message: impl Into<String>) -> LlmError {
    LlmError::new(LlmErrorKind::InvalidResponse, message)
}

/// Names the model that answers as its server does, which may be another one than was asked.
pub fn set_model_name(model: &mut ModelRef, said: &str) {
    if *said != *model.model {
        model.model = Arc::from(clean(said, 200));
    }
}

/// Puts the pieces of a reply together that came whole.
///
/// # Errors
///
/// An [`LlmError`], when the pieces are no whole reply.
pub fn assemble(pieces: impl IntoIterator<Item = ReplyDelta>) -> Result<Reply, LlmError> {
    let mut assembler = ReplyAssembler::default();
    for piece in pieces {
        assembler.push(piece)?;
    }
    assembler.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_json_says_the_place_and_repeats_nothing() {
        for (json, wrong) in [
            ("{\"choices\":\"canary\"}", "another form at line 1"),
            ("[\"canary\"]", "another form"),
            ("{\"choices\":[1],\n\"canary\"", "not valid at line 2"),
        ] {
            let error = parse::<std::collections::BTreeMap<String, Vec<u8>>>(json).unwrap_err();
            assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
            assert!(error.message.contains(wrong), "{error}");
            assert!(!error.message.contains("canary"), "{error}");
        }
    }
}
