//! A run's events as server-sent events.
//!
//! Each has the name and the JSON that it has everywhere. A record's `seq` is its id; live events have none, since nobody
//! can go on from them. Comments keep the connection alive while nothing happens.

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use neuraxis::{Event, Events};

/// Tells proxies to pass events on as they come.
const DO_NOT_BUFFER: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-accel-buffering"),
    HeaderValue::from_static("no"),
);

/// Answers with all events of a run, from its first to its last.
pub(crate) fn answer(events: Events) -> Response {
    let frames = events.map(|event| frame(&event));
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
