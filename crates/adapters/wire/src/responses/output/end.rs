//! How a reply ends: well, cut short, or in an error.

use neuraxis_core::{LlmError, LlmErrorKind, ReplyFinish};
use serde_json::Value;
use serde_json::value::RawValue;

use super::invalid;
use crate::endpoint::Voice;
use crate::failure::{Failure, clean};
use crate::responses::event::said;

/// Returns why a model stopped, by the status of its response and what that says of why it is incomplete.
pub(super) fn finish_by_status(status: &str, why: &str) -> Result<ReplyFinish, LlmError> {
    let unfinished = |said: &str| Err(LlmError::new(LlmErrorKind::Incomplete, said));
    match (status, why) {
        ("completed", _) => Ok(ReplyFinish::Stop),
        ("incomplete", "max_output_tokens" | "max_tokens") => Ok(ReplyFinish::Length),
        ("incomplete", "content_filter") => Ok(ReplyFinish::ContentFilter),
        ("incomplete", why) => Err(invalid(format!(
            "the reply is incomplete for the unknown reason {:?}",
            clean(why, 60)
        ))),
        ("failed", _) => Err(LlmError::new(
            LlmErrorKind::server(None),
            "the server failed without saying why",
        )),
        ("cancelled", _) => unfinished("the server gave the reply up"),
        ("queued" | "in_progress", _) => unfinished("the server has not finished the reply"),
        (other, _) => Err(invalid(format!(
            "the reply has the unknown status {:?}",
            clean(other, 60)
        ))),
    }
}

/// The error of an event that brings one, at its top or under `error`.
pub(super) fn error_in_stream(data: &str, error: Option<&RawValue>, voice: &Voice) -> LlmError {
    let mut failure = match said(error) {
        Some(error) => Failure::of_error(&tree(error.get())),
        None => Failure::of_error(&tree(data)),
    };
    if failure.kind == "error" {
        // The type of the event, not of the error.
        failure.kind.clear();
    }
    failure.into_error(voice)
}

/// The error that a response names.
pub(super) fn error_of(error: &RawValue, voice: &Voice) -> LlmError {
    Failure::of_error(&tree(error.get())).into_error(voice)
}

fn tree(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}
