//! `POST /api/v1/sessions/{id}/turns`: a user message in, the run's result or its events out.
//!
//! A client that goes away does not stop its run: it goes on to its end, and the session stays busy until then. The model's
//! replies are streamed even where the client wants the result alone, because somebody else may follow the run.
//!
//! With the header `Idempotency-Key` the request may be repeated: it gets the run that the first one began, whatever came
//! of it, and says so in the header `Idempotency-Replayed`. Events then begin after the record that the header
//! `Last-Event-ID` names.

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
use crate::limits::Limited;
use crate::problem::{INVALID_IDEMPOTENCY_KEY, Problem, RUN_UNRECORDED, SHUTTING_DOWN};
use crate::refusal::{RETRY_AFTER, internal};
use crate::slots::BeginningSlot;
use crate::turn::Turn;

/// The header that makes a request safe to be repeated.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The header of the answer to a request that was repeated.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Takes a turn.
pub(crate) async fn take(
    State(orchestrator): State<Orchestrator>,
    State(limited): State<Limited>,
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
    let mut request = turn.into_request(session, &caller, &limited)?;
    let later = if key.is_some() {
        Later::UnderItsKey
    } else {
        Later::InTheSession
    };
    request.idempotency_key = key;
    let slot = match limited.slot(&caller) {
        Ok(slot) => Some(slot),
        // Whoever comes back to a run that is there needs no room for another.
        Err(_) if orchestrator.runs().is_repeat(&request).await? => None,
        Err(problem) => return Err(problem),
    };
    let (handle, events) = begin(orchestrator.clone(), request, slot).await?;
    let mut answer = if wants_events(&headers) {
        // Of a run that begins now nobody had a record.
        let last = if handle.is_repeat() { last } else { Seq(0) };
        let newest = handle.records().last().map_or(Seq(0), |newest| newest.seq);
        events::check_last(last, newest)?;
        streams.answer(handle.run_id(), events, last)
    } else {
        drop(events);
        let result = handle.result().await;
        Json(result.map_err(|why| no_result(&orchestrator, &handle, &why, later))?).into_response()
    };
    if handle.is_repeat() {
        let is = HeaderValue::from_static("true");
        answer.headers_mut().insert(REPLAYED, is);
    }
    Ok(answer)
}

/// Begins a run. A client that leaves in the middle must not leave half a beginning behind, which would keep the session busy
/// for good. The run has its slot until it is over, whoever listens.
async fn begin(
    orchestrator: Orchestrator,
    request: UserRequest,
    slot: Option<BeginningSlot>,
) -> Result<(RunHandle, Events), Problem> {
    Ok(detached(start(orchestrator, request, slot)).await??)
}

/// Begins a run, which has its slot until it is over.
pub(crate) async fn start(
    orchestrator: Orchestrator,
    mut request: UserRequest,
    slot: Option<BeginningSlot>,
) -> Result<(RunHandle, Events), RequestError> {
    let beginning = slot.map(|BeginningSlot { beginning, held }| {
        // What the run is driven with is dropped when it is over, however it ended, and gives the slot back.
        request.context = std::mem::take(&mut request.context).with(held);
        beginning
    });
    let (handle, events) = orchestrator.stream(request).await?;
    drop(beginning);
    access::is_about(handle.run_id());
    Ok((handle, events))
}

/// How a client comes by the answer of a run that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// It sends its request again.
    UnderItsKey,
    /// It looks into the session: the request sent again is another one.
    InTheSession,
}

impl Later {
    const fn advice(self) -> &'static str {
        match self {
            Self::UnderItsKey => "send the same request again under the same Idempotency-Key",
            Self::InTheSession => {
                "what it comes to stands in its session, and the same request sent again begins another run"
            }
        }
    }
}

/// Says why a run that began has no result. The store's own words went into the log.
pub(crate) fn no_result(
    orchestrator: &Orchestrator,
    run: &RunHandle,
    why: &NoResult,
    later: Later,
) -> Problem {
    let problem = match why {
        NoResult::Unrecorded(_) => unrecorded(later),
        _ if orchestrator.is_shutting_down() => {
            let advice = later.advice();
            let detail = format!(
                "the server stopped before the run ended, and the next one goes on with it: {advice}"
            );
            Problem::new(&SHUTTING_DOWN, detail)
        }
        _ => return internal(&format_args!("run {} crashed", run.run_id())),
    };
    problem
        .with("session_id", run.session_id().as_str())
        .with("run_id", run.run_id().to_string())
}

/// Says that a run is not over, and could not be recorded.
fn unrecorded(later: Later) -> Problem {
    let advice = later.advice();
    let detail = format!(
        "the run began, and what it did next could not be recorded; it has not ended, and goes on once the store takes records \
         again: {advice}"
    );
    let problem = Problem::new(&RUN_UNRECORDED, detail);
    match later {
        Later::UnderItsKey => problem.retry_after(RETRY_AFTER),
        // Where the header is many clients send the request again by themselves.
        Later::InTheSession => problem,
    }
}

/// Reads the key of the request, if it has one.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let invalid = |why: &str| {
        let detail = format!("{why}; a random UUID is a good key");
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
    // What is no text is not visible either.
    let key: Result<IdempotencyKey, _> = key.to_str().unwrap_or_default().parse();
    key.map(Some).map_err(|error| invalid(&error.to_string()))
}

/// Tells whether a client takes server-sent events: it names them, and not as what it takes least (`q=0`).
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
    fn events_are_sent_to_who_names_them() {
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

    /// Clients that find the header send the request again by themselves.
    #[test]
    fn only_who_may_send_a_request_again_is_told_when() {
        for (later, expected) in [(Later::UnderItsKey, true), (Later::InTheSession, false)] {
            let response = unrecorded(later).into_response();
            let is_told = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(is_told, expected, "{later:?}");
        }
    }
}
