//! What every protocol needs to read replies: an event decoder trait, strings without copies, and usage.

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

/// The maximum number of tool calls in one reply: far more than any model intends.
pub const MAX_CALLS: usize = 300;

/// Turns the events of one streamed reply into pieces of that reply.
///
/// One decoder reads one reply. It rejects contradictions: after an error no more of the reply is read.
pub trait ReplyDecoder: Unpin + Send + 'static {
    /// Processes the next event and appends its pieces to `out`. The last piece of a complete reply is
    /// [`ReplyDelta::End`], added by the event that [ends](EventOutcome::End) it.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for an event that reports one, read with `errors`, or for an event that is not part of this
    /// protocol ([`invalid`]).
    fn event(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError>;

    /// Adds the reply's usage up to this point to an error, if the server reported it. Also called with the error of a
    /// stream that breaks off.
    fn with_usage(&self, error: LlmError) -> LlmError;
}

/// What an event meant for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    /// Model output: the time limit [`output`](crate::Timeouts::output) starts again.
    Output,
    /// Nothing that a reader waits for.
    Nothing,
    /// The end of a complete reply.
    End,
}

/// The string of a JSON field, borrowed if it has no escapes.
#[derive(Debug, Default, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'a> Text<'a> {
    /// Returns the string of a field, or `None` if it is missing, null or empty.
    #[must_use]
    pub fn of(field: Option<Self>) -> Option<Cow<'a, str>> {
        field.map(|text| text.0).filter(|text| !text.is_empty())
    }
}

/// Parses JSON from a server. The error gives the position, and none of the content, which may be the key.
///
/// # Errors
///
/// An [`invalid`] reply if the text is not JSON or does not have this form.
pub fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, LlmError> {
    serde_json::from_str(json).map_err(|error| {
        let wrong = what_is_wrong(&error);
        invalid(format!("the server sent JSON that cannot be read: {wrong}"))
    })
}

/// Describes what is wrong with external JSON, and where. The error's own message repeats values, however long they
/// are.
pub(crate) fn what_is_wrong(error: &serde_json::Error) -> String {
    let wrong = match error.is_data() {
        true => "it does not have the expected form",
        false => "it is not valid",
    };
    let (line, column) = (error.line(), error.column());
    format!("{wrong} at line {line}, column {column}")
}

/// Returns the error of a reply that does not follow its protocol.
pub fn invalid(message: impl Into<String>) -> LlmError {
    LlmError::new(LlmErrorKind::InvalidResponse, message)
}

/// Sets the name of the model that answers, as reported by its server; it may differ from the one that was asked.
pub fn set_model_name(model: &mut ModelRef, said: &str) {
    if *said != *model.model {
        model.model = Arc::from(clean(said, 200));
    }
}

/// Assembles the pieces of a reply that arrived whole.
///
/// # Errors
///
/// An [`LlmError`] if the pieces are not a complete reply.
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
    fn a_json_error_names_the_position_and_repeats_no_content() {
        for (json, wrong) in [
            ("{\"choices\":\"canary\"}", "the expected form at line 1"),
            ("[\"canary\"]", "the expected form"),
            ("{\"choices\":[1],\n\"canary\"", "not valid at line 2"),
        ] {
            let error = parse::<std::collections::BTreeMap<String, Vec<u8>>>(json).unwrap_err();
            assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
            assert!(error.message.contains(wrong), "{error}");
            assert!(!error.message.contains("canary"), "{error}");
        }
    }
}
