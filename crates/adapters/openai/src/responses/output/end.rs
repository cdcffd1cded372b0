//! How a reply ends: normally, cut short, or in an error.

use neuraxis_core::{LlmError, LlmErrorKind, ReplyFinish};
use neuraxis_wire::ServerErrors;
use neuraxis_wire::reply::{clean, invalid};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::responses::event::non_empty;

/// Returns why a model stopped, from the status of its response and the reason given for an incomplete one.
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
        ("cancelled", _) => unfinished("the server cancelled the reply"),
        ("queued" | "in_progress", _) => unfinished("the server has not finished the reply"),
        (other, _) => Err(invalid(format!(
            "the reply has the unknown status {:?}",
            clean(other, 60)
        ))),
    }
}

/// Returns the error in an event, either at its top level or under `error`.
pub(super) fn error_in_stream(
    data: &str,
    error: Option<&RawValue>,
    errors: &ServerErrors,
) -> LlmError {
    let mut error = tree(non_empty(error).map_or(data, RawValue::get));
    if let Some(kind) = error.get_mut("type")
        && *kind == "error"
    {
        // This is the type of the event, not of the error.
        *kind = Value::Null;
    }
    errors.of_json(&error)
}

/// Returns the error that a response contains.
pub(super) fn error_of(error: &RawValue, errors: &ServerErrors) -> LlmError {
    errors.of_json(&tree(error.get()))
}

fn tree(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}
