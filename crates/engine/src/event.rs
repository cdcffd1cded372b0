//! What a listener receives: records as they are committed, and live events in between.

use std::fmt;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use neuraxis_core::{LiveEvent, Record, Seq};
use neuraxis_ports::Stream;
use serde::Serialize;

/// An event of a run. As JSON it is the record or the live event itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Event {
    /// A record: durable, and committed before listeners receive it.
    Record(Arc<Record>),
    /// A live event: shown immediately, never stored.
    Live(LiveEvent),
}

impl Event {
    /// Returns whether the event came after a record of its run: a listener that has that record has not had this
    /// event.
    #[must_use]
    pub fn is_after(&self, last: Seq) -> bool {
        match self {
            Self::Record(record) => record.seq > last,
            Self::Live(live) => live.after >= last,
        }
    }
}

/// The events of one run, from its first to its last record, followed by the end of the stream.
///
/// A slow listener misses no record and no text, but receives text in larger, merged pieces. For a call that completed
/// before the listener caught up, it receives reasoning and text in one piece each, and no progress events. Dropping
/// the stream does not affect the run or other listeners.
pub struct Events(Pin<Box<dyn Stream<Item = Event> + Send>>);

impl Events {
    pub(crate) fn new(stream: impl Stream<Item = Event> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// Leaves out the events up to and including one of the run's records.
    #[must_use]
    pub fn after(self, last: Seq) -> Self {
        Self::new(self.filter(move |event| ready(event.is_after(last))))
    }

    /// Returns the next event, or `None` once the run has ended and on every call after that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
