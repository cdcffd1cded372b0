//! `POST /api/v1/sessions/{id}/turns`: a user message in, the run's result or its events out.
//!
//! A client that goes away does not stop its run: it goes on to its end, and the session stays busy until then. The model's
//! replies are streamed even where the client wants the result alone, because somebody else may follow the run.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use neuraxis::{Events, Orchestrator, RunHandle, SessionId, UserRequest};

use crate::problem::{INVALID_SESSION_ID, Problem};
use crate::refusal::internal;
use crate::turn::Turn;
use crate::{body, events};

/// Takes a turn.
pub(crate) async fn take(
    State(orchestrator): State<Orchestrator>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let session = session_id(id)?;
    let turn = Turn::parse(&body::json(&headers, body).await?)?;
    let (handle, events) = begin(orchestrator, turn.into_request(session)).await?;
    if wants_events(&headers) {
        return Ok(events::answer(events));
    }
    drop(events);
    match handle.result().await {
        Some(result) => Ok(Json(result).into_response()),
        None => Err(internal(&format_args!("run {} crashed", handle.run_id()))),
    }
}

/// Begins a run. In a task of its own: a client that leaves in the middle must not leave half a beginning behind, which
/// would keep the session busy for good.
async fn begin(
    orchestrator: Orchestrator,
    request: UserRequest,
) -> Result<(RunHandle, Events), Problem> {
    let begun = tokio::spawn(async move { orchestrator.stream(request).await });
    Ok(begun.await.map_err(|error| internal(&error))??)
}

fn session_id(id: Result<Path<String>, PathRejection>) -> Result<SessionId, Problem> {
    let Ok(Path(id)) = id else {
        // The only way for a text not to be one.
        return Err(Problem::new(
            &INVALID_SESSION_ID,
            "the session id is not UTF-8",
        ));
    };
    id.parse().map_err(|error: neuraxis::core::InvalidId| {
        Problem::new(&INVALID_SESSION_ID, error.to_string())
    })
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
}
