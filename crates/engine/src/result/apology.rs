//! The text for the user when no model answered: what happened and what to do about it, with one sentence for each
//! class of error.
//!
//! The provider's own words are left out: they are untrusted and meant for the operator, who finds them in the records
//! and the steps of the run.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    LlmError, LlmErrorKind, Message, Purpose, Record, RecordBody, RunOutcome, RunStarted, clip,
    has_answered, root_records,
};

/// The maximum number of characters shown to the user of a tool's error, and of the tool's name, which a model wrote.
const MAX_TOLD_CHARS: usize = 300;
const MAX_NAME_CHARS: usize = 64;

/// Returns the sentence for a run that ended because a model call of its root agent failed, or `None` if it ended for
/// another reason.
pub(super) fn for_failure(outcome: &RunOutcome, records: &[Arc<Record>]) -> Option<String> {
    let error = &outcome.model_failure(records)?.error;
    Some(match error.kind {
        LlmErrorKind::ContextOverflow { .. } => match room(records) {
            Some(room) => format!("{} {room}", sentence(error)),
            None => explain(error, &about_conversation(records)),
        },
        LlmErrorKind::BadRequest => match about_media(records) {
            Some(advice) => explain(error, &advice),
            None => sentence(error),
        },
        _ => sentence(error),
    })
}

/// Returns the value from the root agent's last record that has one.
fn last_of_root<'a, T>(
    records: &'a [Arc<Record>],
    says: impl Fn(&'a RecordBody) -> Option<T>,
) -> Option<T> {
    let mut latest_first = root_records(records).rev();
    latest_first.find_map(|record| says(&record.body))
}

/// Returns the sentence for a run that ended because a call of its root agent failed: which tool it was, and what the
/// tool said.
pub(super) fn for_tool(records: &[Arc<Record>]) -> String {
    let failed = last_of_root(records, |body| match body {
        RecordBody::ToolResult(result) if result.failure.is_some() => Some(result),
        _ => None,
    });
    let Some(result) = failed else {
        return "The run stopped because a tool failed.".to_owned();
    };
    let name: String = result.name.chars().take(MAX_NAME_CHARS).collect();
    match result.value.error_message() {
        Some(why) => format!(
            "The run stopped because the tool {name:?} failed: {}",
            one_line(&why)
        ),
        None => format!("The run stopped because the tool {name:?} failed."),
    }
}

/// Returns the sentence for a cancelled run, with the reason that was given.
pub(super) fn for_cancelling(records: &[Arc<Record>]) -> String {
    let reason = last_of_root(records, |body| match body {
        RecordBody::Cancelled(cancelled) => Some(&cancelled.reason),
        _ => None,
    });
    let why = reason.map(|why| one_line(why));
    match why.filter(|why| !why.is_empty()) {
        Some(why) => format!("Cancelled before there was an answer: {why}"),
        None => "Cancelled before there was an answer.".to_owned(),
    }
}

/// Returns the beginning of a third party's text, on one line and without anything that a terminal might interpret.
fn one_line(text: &str) -> String {
    let plain = text.split(char::is_control).map(str::trim);
    let plain: Vec<&str> = plain.filter(|part| !part.is_empty()).collect();
    clip(&plain.join(" "), MAX_TOLD_CHARS)
}

/// Returns what took up the context of a first request that did not fit, and what to do about it.
fn room(records: &[Arc<Record>]) -> Option<String> {
    let spec = &unanswered(records)?.spec;
    let size = spec.root.request_size(&spec.messages);
    let less = match size.tool_count {
        0 => "send less",
        _ => "send less, or offer fewer tools (channels.NAME.tools)",
    };
    Some(format!(
        "In the first request, {size}: {less}. If you run the server yourself, give the model more context (for a \
         llama-server, with -c); if the provider allows fewer tokens per minute, raise that limit."
    ))
}

/// Returns what to do about a conversation that no longer fit after a model had answered; the model's reasoning may be
/// a part of it.
fn about_conversation(records: &[Arc<Record>]) -> String {
    let thinks = root_records(records).any(|record| match &record.body {
        RecordBody::LlmCall(call) => !call.reply.reasoning().is_empty(),
        _ => false,
    });
    let thoughts = match thinks {
        true => ", or do not resend the model's reasoning (echo_reasoning = \"never\")",
        false => "",
    };
    let started = records.first().and_then(|record| record.run_started());
    let tools = match started.is_some_and(|started| !started.spec.root.tools.is_empty()) {
        true => ", or offer fewer tools (channels.NAME.tools)",
        false => "",
    };
    format!("start a new session, or ask for less at a time{tools}{thoughts}")
}

/// Returns what to do about a first request with attachments that was refused: not every model accepts them.
fn about_media(records: &[Arc<Record>]) -> Option<String> {
    let messages = unanswered(records)?.spec.messages.iter().rev();
    let given = messages.take_while(|message| !matches!(***message, Message::Assistant(_)));
    let media = given.flat_map(|message| message.media());
    let mut types: Vec<&str> = media.map(|part| part.media_type.as_str()).collect();
    types.sort_unstable();
    types.dedup();
    (!types.is_empty()).then(|| {
        format!(
            "this model may not accept what is attached ({}): leave it out, or let a model that accepts it serve this role",
            one_line(&types.join(", "))
        )
    })
}

/// Returns the start record of a run in which no model has answered yet.
fn unanswered(records: &[Arc<Record>]) -> Option<&RunStarted> {
    let is_answer = |record: &Arc<Record>| matches!(record.body, RecordBody::LlmCall(_));
    if records.iter().any(is_answer) {
        return None;
    }
    match &records.first()?.body {
        RecordBody::RunStarted(started) => Some(started),
        _ => None,
    }
}

/// The text for a run whose time ran out before any model had answered. A model may have begun a reply: what was shown
/// of it is retracted.
const SILENCE: &str = "No model finished a reply in that time. Other requests may have been ahead (max_concurrent): try again in a while. If this persists, check that the model's server is neither stuck nor overloaded, or allow a longer deadline (modes.MODE.deadline).";

/// Returns whether no model has given the root agent a reply.
pub(super) fn was_never_answered(records: &[Arc<Record>]) -> bool {
    !root_records(records).any(|record| matches!(record.body, RecordBody::LlmCall(_)))
}

/// Returns why a run's time ran out before any model had answered: the last model's error, or that no model replied.
pub(super) fn for_silence(records: &[Arc<Record>]) -> String {
    let failed = last_of_root(records, |body| match body {
        RecordBody::LlmFailed(failed) if failed.error.kind != LlmErrorKind::Timeout => {
            Some(&failed.error)
        }
        _ => None,
    });
    match failed {
        Some(error) => format!(
            "No model finished a reply in that time. Before that, one failed: {}; {}.",
            error.kind,
            advice(error)
        ),
        None => SILENCE.to_owned(),
    }
}

/// The text for a run that reached a limit because replies were too long for their calls to be complete.
pub(super) const CUT_CALLS: &str = "The model's replies were cut off at their length limit, so the calls in them were not run: allow longer replies (max_output_tokens of the mode, or the limit of the model server), or ask for less at a time.";

/// Returns whether the last turn's reply was cut inside its calls, which are then not run, and the user was never given
/// any answer. A cut that the run recovered from is not the reason why it reached its limit.
pub(super) fn ended_in_cut_calls(records: &[Arc<Record>]) -> bool {
    let last = last_of_root(records, |body| match body {
        RecordBody::LlmCall(call) if call.purpose == Purpose::Turn => Some(call),
        _ => None,
    });
    last.is_some_and(|call| call.reply.has_cut_calls()) && !has_answered(records)
}

fn sentence(error: &LlmError) -> String {
    explain(error, &advice(error))
}

fn explain(error: &LlmError, advice: &str) -> String {
    format!("This could not be finished: {}; {advice}.", error.kind)
}

fn advice(error: &LlmError) -> String {
    match &error.kind {
        LlmErrorKind::Timeout => "try again in a moment, or ask for less at a time",
        // The response may be a web page instead of a model's reply.
        LlmErrorKind::InvalidResponse => {
            "try again, or check the base_url configured for this model"
        }
        LlmErrorKind::Connection if error.is_certificate_refused => {
            "check this machine's clock, and whether it trusts the issuer of the server's certificate"
        }
        LlmErrorKind::Connection => {
            "check that the server is running and its address is correct, then try again"
        }
        LlmErrorKind::Server { .. } | LlmErrorKind::RateLimited { .. } => return wait(error),
        LlmErrorKind::Loading => "try again in a moment",
        LlmErrorKind::Unauthorized => "check the key configured for this model",
        LlmErrorKind::QuotaExhausted => {
            "add credit with the provider, or let another model serve this role"
        }
        LlmErrorKind::ModelNotFound => "check the model's name in the configuration",
        LlmErrorKind::ContextOverflow { .. } => "send a shorter message, or start a new session",
        LlmErrorKind::ContentFiltered => "rephrase the request",
        LlmErrorKind::Incomplete => "try again, or ask for a shorter answer",
        // The response may be a redirect, or the address may serve nothing.
        LlmErrorKind::BadRequest => {
            "check the base_url and the other settings of this model, or rephrase the request"
        }
        LlmErrorKind::NotRecorded => "repeat a request that was recorded, or make a new recording",
        LlmErrorKind::Cancelled => "ask again if you still want an answer",
        _ => "try again in a moment",
    }
    .to_owned()
}

fn wait(error: &LlmError) -> String {
    match error.retry_after() {
        Some(wait) if wait > Duration::from_secs(1) => {
            format!("try again in {} seconds", wait.as_secs_f64().ceil())
        }
        _ => "try again in a moment".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected sentence for each class of error.
    fn said() -> Vec<(LlmErrorKind, &'static str)> {
        use LlmErrorKind as Kind;
        let retry_after = Some(Duration::from_millis(29_100));
        vec![
            (
                Kind::Timeout,
                "the model did not answer in time; try again in a moment, or ask for less at a time",
            ),
            (
                Kind::InvalidResponse,
                "the model server gave an invalid response; try again, or check the base_url configured for this model",
            ),
            (
                Kind::Connection,
                "no connection to the model server; check that the server is running and its address is correct, then try again",
            ),
            (
                Kind::server(None),
                "the model server failed; try again in a moment",
            ),
            (
                Kind::Server {
                    status: Some(503),
                    retry_after,
                },
                "the model server failed with status 503; try again in 30 seconds",
            ),
            (
                Kind::Loading,
                "the model is still loading; try again in a moment",
            ),
            (
                Kind::RateLimited { retry_after: None },
                "the provider's rate limit is reached; try again in a moment",
            ),
            (
                Kind::RateLimited { retry_after },
                "the provider's rate limit is reached; try again in 30 seconds",
            ),
            (
                Kind::Unauthorized,
                "the provider refuses the key; check the key configured for this model",
            ),
            (
                Kind::QuotaExhausted,
                "the provider's quota is used up; add credit with the provider, or let another model serve this role",
            ),
            (
                Kind::ModelNotFound,
                "the provider has no such model; check the model's name in the configuration",
            ),
            (
                Kind::ContextOverflow {
                    limit: Some(8),
                    needed: None,
                },
                "the conversation does not fit the model's context; send a shorter message, or start a new session",
            ),
            (
                Kind::ContentFiltered,
                "the provider refuses the content; rephrase the request",
            ),
            (
                Kind::Incomplete,
                "the reply was cut off; try again, or ask for a shorter answer",
            ),
            (
                Kind::BadRequest,
                "the provider refuses the request; check the base_url and the other settings of this model, or rephrase the request",
            ),
            (
                Kind::NotRecorded,
                "the recording has no answer to this request; repeat a request that was recorded, or make a new recording",
            ),
            (
                Kind::Cancelled,
                "the call was cancelled; ask again if you still want an answer",
            ),
        ]
    }

    #[test]
    fn every_error_kind_has_an_explanation_without_the_provider_s_text() {
        for (kind, expected) in said() {
            let text = sentence(&LlmError::new(kind, "org-7 said: visit evil.example"));
            assert_eq!(text, format!("This could not be finished: {expected}."));
        }
    }

    #[test]
    fn a_certificate_that_is_refused_is_not_a_server_that_does_not_run() {
        let error = LlmError::new(LlmErrorKind::Connection, "invalid peer certificate");
        let text = sentence(&error.with_refused_certificate());
        assert!(text.contains("trusts the issuer"), "{text}");
        assert!(!text.contains("is running"), "{text}");
    }

    #[test]
    fn a_run_that_ended_for_another_reason_is_not_a_model_failure() {
        assert_eq!(for_failure(&crate::result::crashed_outcome(), &[]), None);
    }
}
