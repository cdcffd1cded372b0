//! `POST /api/v1/sessions/{id}/turns`: takes a user message and returns the run's result or its events.
//!
//! A client that disconnects does not stop its run: the run continues to its end, and the session stays busy until
//! then. The model's replies are streamed even if the client wants only the result, because another client may follow
//! the run.
//!
//! With the header `Idempotency-Key` the request can be repeated: a repeat gets the run that the first request started,
//! whatever its outcome, and is marked by the header `Idempotency-Replayed`. Events then begin after the record that
//! the header `Last-Event-ID` names.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use neuraxis::core::Seq;
use neuraxis::engine::{NoResult, RequestError};
use neuraxis::{Events, IdempotencyKey, Orchestrator, RunHandle, UserRequest};

use crate::access::{self, detached};
use crate::api::session_id;
use crate::attached::MAX_BODY_BYTES;
use crate::body;
use crate::caller::Caller;
use crate::events::{self, Streams};
use crate::limits::ServerState;
use crate::permits::StartPermit;
use crate::problem::{INVALID_IDEMPOTENCY_KEY, Problem, RUN_UNRECORDED, SHUTTING_DOWN};
use crate::refusal::{RETRY_AFTER, internal};
use crate::turn::Turn;

/// The request header that makes repeating a request safe.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The response header that marks the answer to a repeated request.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Takes a turn.
pub(crate) async fn take(
    State(orchestrator): State<Orchestrator>,
    State(state): State<ServerState>,
    caller: Caller,
    State(streams): State<Streams>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let session = session_id(id)?;
    let key = idempotency_key(&headers)?;
    let last = events::last_of(&headers)?;
    let turn = Turn::parse(&body::json_of(&headers, body, MAX_BODY_BYTES).await?)?;
    let mut request = turn.into_request(session, &caller, &state)?;
    let advice = if key.is_some() {
        RetryAdvice::SameKey
    } else {
        RetryAdvice::ReadSession
    };
    request.idempotency_key = key;
    let permit = match state.take_permit(&caller) {
        Ok(permit) => Some(permit),
        // A repeated request for an existing run needs no further permit.
        Err(_) if orchestrator.runs().is_repeat(&request).await? => None,
        Err(problem) => return Err(problem),
    };
    let (handle, events) = begin(orchestrator.clone(), request, permit).await?;
    let mut answer = if wants_events(&headers) {
        // No client can have seen a record of a run that starts now.
        let last = if handle.is_repeat() { last } else { Seq(0) };
        let newest = handle.records().last().map_or(Seq(0), |newest| newest.seq);
        events::check_last(last, newest)?;
        streams.answer(handle.run_id(), events, last)
    } else {
        drop(events);
        let result = handle.result().await;
        Json(result.map_err(|why| no_result(&orchestrator, &handle, &why, advice))?).into_response()
    };
    if handle.is_repeat() {
        let is = HeaderValue::from_static("true");
        answer.headers_mut().insert(REPLAYED, is);
    }
    Ok(answer)
}

/// Starts a run, even if the client disconnects halfway: a half-started run would keep its session busy permanently.
/// The run holds its permit until it ends, whether or not a client listens.
async fn begin(
    orchestrator: Orchestrator,
    request: UserRequest,
    permit: Option<StartPermit>,
) -> Result<(RunHandle, Events), Problem> {
    Ok(detached(start(orchestrator, request, permit)).await??)
}

/// Starts a run, which holds its permit until it ends.
pub(crate) async fn start(
    orchestrator: Orchestrator,
    mut request: UserRequest,
    permit: Option<StartPermit>,
) -> Result<(RunHandle, Events), RequestError> {
    let pending_start = permit.map(
        |StartPermit {
             pending_start,
             held,
         }| {
            // The context is dropped when the run ends, however it ends, which releases the permit.
            request.context = std::mem::take(&mut request.context).with(held);
            pending_start
        },
    );
    let (handle, events) = orchestrator.stream(request).await?;
    drop(pending_start);
    access::record_run(handle.run_id());
    Ok((handle, events))
}

/// How a client can later get the answer of a run that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryAdvice {
    /// By sending the same request again.
    SameKey,
    /// By reading the session: sending the request again would start another run.
    ReadSession,
}

impl RetryAdvice {
    const fn text(self) -> &'static str {
        match self {
            Self::SameKey => "send the same request again under the same Idempotency-Key",
            Self::ReadSession => {
                "the result will be in the session; sending the same request again starts another run"
            }
        }
    }
}

/// Reports why a run that started has no result. The store's own message is in the log.
pub(crate) fn no_result(
    orchestrator: &Orchestrator,
    run: &RunHandle,
    why: &NoResult,
    advice: RetryAdvice,
) -> Problem {
    let problem = match why {
        NoResult::Unrecorded(_) => unrecorded(advice),
        _ if orchestrator.is_shutting_down() => {
            let advice = advice.text();
            let detail = format!(
                "the server stopped before the run ended; the next one resumes it: {advice}"
            );
            Problem::new(&SHUTTING_DOWN, detail)
        }
        _ => return internal(&format_args!("run {} crashed", run.run_id())),
    };
    problem
        .with("session_id", run.session_id().as_str())
        .with("run_id", run.run_id().to_string())
}

/// Reports that a run has not ended, and that its next step could not be recorded.
fn unrecorded(advice: RetryAdvice) -> Problem {
    let text = advice.text();
    let detail = format!(
        "the run started, but its next step could not be recorded; it has not ended, and continues once the store \
         accepts records again: {text}"
    );
    let problem = Problem::new(&RUN_UNRECORDED, detail);
    match advice {
        RetryAdvice::SameKey => problem.retry_after(RETRY_AFTER),
        // No `Retry-After` here: many clients resend automatically when they see it.
        RetryAdvice::ReadSession => problem,
    }
}

/// Returns the idempotency key of the request, if it has one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let invalid = |why: &str| {
        let detail = format!("{why}; use a random UUID, for example");
        Problem::new(&INVALID_IDEMPOTENCY_KEY, detail).with("header", KEY.as_str())
    };
    let mut keys = headers.get_all(KEY).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    if keys.next().is_some() {
        return Err(invalid(
            "the header Idempotency-Key was sent more than once",
        ));
    }
    // A value that is not text has no visible characters either.
    let key: Result<IdempotencyKey, _> = key.to_str().unwrap_or_default().parse();
    key.map(Some).map_err(|error| invalid(&error.to_string()))
}

/// Returns whether a client accepts server-sent events: it names them, and not with `q=0`.
fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(header::ACCEPT)
        .iter()
        .map(HeaderValue::to_str);
    let mut ranges = accepted.flatten().flat_map(|text| text.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("text/event-stream"));
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        is_named
            && quality.is_none_or(|quality| quality.parse().is_ok_and(|quality: f32| quality > 0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sent_only_to_clients_that_accept_them_by_name() {
        for (accept, expected) in [
            ("text/event-stream", true),
            (
                "application/json, TEXT/EVENT-STREAM;charset=utf-8;q=0.5",
                true,
            ),
            ("application/json", false),
            ("*/*", false),
            ("text/*", false),
            ("text/event-stream;q=0", false),
            ("text/event-stream;q=0.000", false),
            ("text/event-streams", false),
        ] {
            let headers =
                HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_events(&headers), expected, "{accept}");
        }
        assert!(!wants_events(&HeaderMap::new()));
    }

    /// Clients that find the header resend the request automatically.
    #[test]
    fn only_clients_that_may_repeat_a_request_receive_retry_after() {
        for (advice, expected) in [
            (RetryAdvice::SameKey, true),
            (RetryAdvice::ReadSession, false),
        ] {
            let response = unrecorded(advice).into_response();
            let is_told = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(is_told, expected, "{advice:?}");
        }
    }
}
