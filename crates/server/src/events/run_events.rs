//! The events of a run after one of its records, in the format of the server's own API.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use neuraxis::Event;
use neuraxis::core::Seq;
use serde_json::json;

use super::frames::Frames;
use super::{CutReason, Source, write_event};

/// The events of one run for one client.
pub(super) struct RunEvents<S> {
    events: S,
    frames: Frames,
    /// Records up to and including this one are left out.
    from: Seq,
    /// The last record that was written.
    last: Seq,
}

impl<S> RunEvents<S> {
    /// Sends what came after a record; everything if it is 0.
    pub(super) const fn new(events: S, frames: Frames, last: Seq) -> Self {
        Self {
            events,
            frames,
            from: last,
            last,
        }
    }
}

impl<S: Stream<Item = Event> + Unpin + Send + 'static> Source for RunEvents<S> {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        piece: &mut Vec<u8>,
    ) -> Poll<Option<Result<(), serde_json::Error>>> {
        let Some(event) = ready!(Pin::new(&mut self.events).poll_next(cx)) else {
            return Poll::Ready(None);
        };
        if !event.is_after(self.from) {
            return Poll::Ready(Some(Ok(())));
        }
        let seq = match &event {
            Event::Record(record) => record.seq,
            Event::Live(_) => self.last,
        };
        let written = self.frames.write(event, piece);
        if written.is_ok() {
            self.last = seq;
        }
        Poll::Ready(Some(written))
    }

    /// Says from where the client can resume. A client whose key is no longer accepted learns that when it reconnects.
    fn write_cut(&mut self, why: CutReason, piece: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        if matches!(why, CutReason::KeyInvalid) {
            return Ok(());
        }
        let Seq(last) = self.last;
        let detail = format!("{why}; to resume from here, send the header Last-Event-ID: {last}");
        let data = json!({ "type": "dropped", "last_event_id": last, "detail": detail });
        write_event(piece, Some("dropped"), &data)
    }
}
