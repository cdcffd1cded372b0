//! A run's events as server-sent events.
//!
//! Each has the same name and JSON as everywhere else. A record's `seq` is its event id. Live events have none, because
//! a client cannot resume from them. Comments keep the connection alive while nothing happens.
//!
//! A client that reconnects names the last record it received in the header `Last-Event-ID`, and receives what came
//! after it.
//!
//! The same code sends events of other protocols: each is a [`Source`].

mod frames;
mod run_events;
mod stream;

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use neuraxis::Events;
use neuraxis::core::{RunId, Seq};
use serde::Serialize;

use crate::metrics::Metrics;
use crate::problem::{INVALID_LAST_EVENT_ID, NO_SUCH_EVENT, Problem};
use frames::SharedFrames;
use run_events::RunEvents;
use stream::EventStream;

pub(crate) use stream::KeyGone;

/// The headers of an event stream: its type, that it must not be cached, and that proxies must not buffer it.
const EVENT_STREAM: [(HeaderName, HeaderValue); 3] = [
    (
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    (
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    ),
];

/// The initial capacity of a piece: most are one event with a few words of an answer.
const USUAL_BYTES: usize = 512;

/// The events for one client, encoded when they are sent.
pub(crate) trait Source: Unpin + Send + 'static {
    /// Sent while nothing happens.
    const COMMENT: &'static [u8] = b":\n\n";

    /// Appends the next event to a piece; it may append nothing if the event is not for this client. Returns `None`
    /// after the last event. It is called repeatedly until the piece is large enough or no event is ready, so events
    /// that arrive together are sent together.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        piece: &mut Vec<u8>,
    ) -> Poll<Option<Result<(), serde_json::Error>>>;

    /// Writes the last event of a stream that is cut off, if the protocol has one that reports it.
    fn write_cut(&mut self, why: CutReason, piece: &mut Vec<u8>) -> Result<(), serde_json::Error>;
}

/// Why a stream is cut off.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CutReason {
    /// Its client accepted no data for this long.
    ClientStalled(Duration),
    /// The key that its client presented is no longer accepted.
    KeyInvalid,
}

impl fmt::Display for CutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientStalled(waited) => {
                write!(
                    f,
                    "the client read nothing for {} seconds",
                    waited.as_secs()
                )
            }
            Self::KeyInvalid => f.write_str("the key was revoked or changed, or has expired"),
        }
    }
}

/// Writes an event, with a name if one is given, whose data is JSON.
pub(crate) fn write_event(
    piece: &mut Vec<u8>,
    name: Option<&str>,
    data: &impl Serialize,
) -> Result<(), serde_json::Error> {
    if piece.is_empty() {
        piece.reserve(USUAL_BYTES);
    }
    if let Some(name) = name {
        writeln!(piece, "event: {name}").map_err(serde_json::Error::io)?;
    }
    piece.extend_from_slice(b"data: ");
    // Compact JSON contains no line breaks.
    serde_json::to_writer(&mut *piece, data)?;
    piece.extend_from_slice(b"\n\n");
    Ok(())
}

/// The header that names the last record that a client received.
const LAST: HeaderName = HeaderName::from_static("last-event-id");

/// Returns whether an answer is an event stream, in any protocol.
pub(crate) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Parses the number of the last record that a client received; 0 for none.
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
        let detail = "the header Last-Event-ID must be sent once, with the id (a number) of the last record received";
        Problem::new(&INVALID_LAST_EVENT_ID, detail).with("header", LAST.as_str())
    })
}

/// Refuses to resume after a record that a run does not have: later records would be mistaken for ones that the client
/// already received.
pub(crate) fn check_last(last: Seq, newest: Seq) -> Result<(), Problem> {
    if last <= newest {
        return Ok(());
    }
    let detail = format!(
        "the run has no record {last}; its last record is {newest}; omit the header Last-Event-ID to receive all events"
    );
    let problem = Problem::new(&NO_SUCH_EVENT, detail);
    Err(problem
        .with("header", LAST.as_str())
        .with("last_event_id", newest.0))
}

/// Creates event stream answers. All streams of a server share their encoded events, as do clones of this.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    frames: Arc<SharedFrames>,
    metrics: Metrics,
}

impl Streams {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            frames: Arc::default(),
            metrics,
        }
    }

    /// Answers with the events of a run after one of its records, until its end.
    pub(crate) fn answer(&self, run: RunId, events: Events, last: Seq) -> Response {
        let frames = SharedFrames::of_run(&self.frames, run);
        self.send(RunEvents::new(events, frames, last))
    }

    /// Answers with all events of a source.
    pub(crate) fn send(&self, source: impl Source) -> Response {
        let stream = EventStream::new(source, self.metrics.clone());
        let key_gone = Extension(stream.key_gone());
        (EVENT_STREAM, key_gone, Body::new(stream)).into_response()
    }
}
