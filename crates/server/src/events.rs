//! A run's events as server-sent events.
//!
//! Each has the name and the JSON that it has everywhere. A record's `seq` is its id; live events have none, since nobody
//! can go on from them. Comments keep the connection alive while nothing happens.
//!
//! A client that comes back says with the header `Last-Event-ID` which record it had last, and is told what came after it.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use neuraxis::core::Seq;
use neuraxis::{Event, Events};

use crate::problem::{INVALID_LAST_EVENT_ID, Problem};

/// Tells proxies to pass events on as they come.
pub(crate) const DO_NOT_BUFFER: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-accel-buffering"),
    HeaderValue::from_static("no"),
);

/// The header that names the last record that a client had.
const LAST: HeaderName = HeaderName::from_static("last-event-id");

/// Reads which record a client had last: 0 for none.
pub(crate) fn last_of(headers: &HeaderMap) -> Result<Seq, Problem> {
    let mut ids = headers.get_all(LAST).iter();
    let Some(id) = ids.next() else {
        return Ok(Seq(0));
    };
    let digits = id.to_str().ok().filter(|id| {
        let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
        is_number && ids.next().is_none()
    });
    digits.and_then(|id| id.parse().ok()).map(Seq).ok_or_else(|| {
        let detail = "the header Last-Event-ID must be the id of the last record that was received, a number, once";
        Problem::new(&INVALID_LAST_EVENT_ID, detail).with("header", LAST.as_str())
    })
}

/// Answers with the events of a run that came after one of its records, to its last.
pub(crate) fn answer(events: Events, last: Seq) -> Response {
    let frames = events.after(last).map(|event| frame(&event));
    let stream = Sse::new(frames).keep_alive(KeepAlive::default());
    ([DO_NOT_BUFFER], stream).into_response()
}

fn frame(event: &Event) -> Result<sse::Event, serde_json::Error> {
    let json = serde_json::to_string(event)?;
    let frame = match event {
        Event::Record(record) => sse::Event::default()
            .id(record.seq.to_string())
            .event(record.body.kind()),
        Event::Live(live) => sse::Event::default().event(live.body.kind()),
    };
    Ok(frame.data(json))
}
