//! The body of an event stream answer, in any protocol. It needs no task and no queue: the sender polls for more, and
//! receives everything that has arrived meanwhile in one piece.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use tokio::time::{Instant, Sleep, sleep};

use super::{CutReason, Source};
use crate::metrics::Metrics;

/// How long to wait without an event before sending a comment.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A piece of at least this size is sent even if more events are ready.
const PIECE_BYTES: usize = 16 * 1024;

/// How long a client may accept no data while some is pending. If it still accepts none, its connection is closed soon
/// after.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Tells a stream that its client's key is no longer accepted. The stream reports that and ends when it is next polled.
/// Clones share the flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyGone(Arc<AtomicBool>);

impl KeyGone {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The events of one run as they are sent to one client.
pub(super) struct EventStream<S> {
    source: S,
    /// When data was last handed over to be sent.
    handed_over_at: Instant,
    /// Whether the sender has polled again since.
    has_polled_since: bool,
    heartbeat: Pin<Box<Sleep>>,
    has_ended: bool,
    key_gone: KeyGone,
    metrics: Metrics,
}

impl<S: Source> EventStream<S> {
    /// Starts to send events. Needs a tokio runtime.
    pub(super) fn new(source: S, metrics: Metrics) -> Self {
        Self {
            source,
            handed_over_at: Instant::now(),
            has_polled_since: true,
            heartbeat: Box::pin(sleep(HEARTBEAT)),
            has_ended: false,
            key_gone: KeyGone::default(),
            metrics,
        }
    }

    /// Returns the flag that tells this stream that its key is no longer accepted.
    pub(super) fn key_gone(&self) -> KeyGone {
        self.key_gone.clone()
    }

    /// Returns all events that are ready, up to the size of a piece.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<Vec<u8>, serde_json::Error> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES {
            match self.source.poll_write(cx, &mut piece) {
                Poll::Ready(Some(written)) => written?,
                Poll::Ready(None) => {
                    self.has_ended = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        Ok(piece)
    }

    /// Ends the stream, with an event that gives the reason if the protocol has one.
    fn cut_off(&mut self, why: CutReason) -> Poll<Option<Result<Frame<Bytes>, serde_json::Error>>> {
        self.has_ended = true;
        let mut piece = Vec::new();
        match self.source.write_cut(why, &mut piece) {
            Ok(()) if piece.is_empty() => Poll::Ready(None),
            Ok(()) => self.hand_over(piece.into()),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn hand_over(&mut self, piece: Bytes) -> Poll<Option<Result<Frame<Bytes>, serde_json::Error>>> {
        self.handed_over_at = Instant::now();
        self.has_polled_since = false;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl<S: Source> HttpBody for EventStream<S> {
    type Data = Bytes;
    type Error = serde_json::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, serde_json::Error>>> {
        let this = &mut *self;
        if this.has_ended {
            this.has_polled_since = true;
            return Poll::Ready(None);
        }
        // The sender polls again immediately unless its buffer is full.
        if !this.has_polled_since && this.handed_over_at.elapsed() >= PATIENCE {
            this.metrics.http().count_dropped_stream();
            return this.cut_off(CutReason::ClientStalled(PATIENCE));
        }
        if this.key_gone.is_set() {
            return this.cut_off(CutReason::KeyInvalid);
        }
        this.has_polled_since = true;
        let piece = match this.gather(cx) {
            Ok(piece) => piece,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        if !piece.is_empty() {
            return this.hand_over(piece.into());
        }
        if this.has_ended {
            return Poll::Ready(None);
        }
        // Reset only after it fires: most streams have an event in between, and one timer serves for all of them.
        while this.heartbeat.as_mut().poll(cx).is_ready() {
            let due = this.handed_over_at + HEARTBEAT;
            if due <= Instant::now() {
                this.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
                return this.hand_over(Bytes::from_static(S::COMMENT));
            }
            this.heartbeat.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<S> Drop for EventStream<S> {
    fn drop(&mut self) {
        // The connection was closed because the client accepted no data at all.
        if !self.has_ended && !self.has_polled_since && self.handed_over_at.elapsed() >= PATIENCE {
            self.metrics.http().count_dropped_stream();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::future::poll_fn;

    use futures_util::{Stream, StreamExt, stream};
    use neuraxis::Event;
    use neuraxis::core::uuid::Uuid;
    use neuraxis::core::{
        AgentId, Attempt, BlockIndex, ContentIndex, EffectId, LiveBody, LiveEvent, RunId, Seq,
    };
    use tokio::sync::mpsc;

    use super::*;
    use crate::events::frames::SharedFrames;
    use crate::events::run_events::RunEvents;

    const RUN: RunId = RunId(Uuid::nil());

    pub(in crate::events) fn delta(offset: u64, text: &str) -> Event {
        Event::Live(LiveEvent {
            after: Seq(3),
            content_index: ContentIndex(0),
            run_id: RUN,
            agent: AgentId::ROOT,
            call: EffectId {
                run: RUN,
                number: 1,
            },
            attempt: Attempt(1),
            block: BlockIndex(0),
            offset,
            body: LiveBody::TextDelta {
                text: text.to_owned(),
            },
        })
    }

    type Sent = EventStream<RunEvents<Pin<Box<dyn Stream<Item = Event> + Send>>>>;

    fn sent(events: impl Stream<Item = Event> + Send + 'static) -> Sent {
        after(Seq(2), events)
    }

    fn after(last: Seq, events: impl Stream<Item = Event> + Send + 'static) -> Sent {
        let frames = SharedFrames::of_run(&Arc::default(), RUN);
        EventStream::new(RunEvents::new(events.boxed(), frames, last), Metrics::new())
    }

    async fn next(stream: &mut Sent) -> Option<String> {
        let frame = poll_fn(|cx| Pin::new(&mut *stream).poll_frame(cx)).await?;
        let bytes = frame.unwrap().into_data().unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn count(metrics: &Metrics, name: &str) -> Option<String> {
        let text = metrics.text().unwrap();
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn available_events_are_sent_in_one_piece_and_large_ones_in_several() {
        let mut small = sent(stream::iter((0..3).map(|offset| delta(offset, "x"))));
        let piece = next(&mut small).await.unwrap();
        assert_eq!(piece.matches("event: text_delta\n").count(), 3);
        assert_eq!(next(&mut small).await, None);

        let large = "x".repeat(PIECE_BYTES);
        let events: Vec<Event> = (0..3).map(|offset| delta(offset, &large)).collect();
        let mut large = sent(stream::iter(events));
        for _ in 0..3 {
            let piece = next(&mut large).await.unwrap();
            assert_eq!(piece.matches("event: text_delta\n").count(), 1);
        }
        assert_eq!(next(&mut large).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn events_before_the_last_record_of_the_client_are_left_out() {
        let mut old = after(Seq(4), stream::iter([delta(0, "x")]));
        assert_eq!(next(&mut old).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_comment_is_sent_only_after_a_period_without_events() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut stream = sent(stream::poll_fn(move |cx| receiver.poll_recv(cx)));
        let began = Instant::now();
        tokio::time::advance(HEARTBEAT / 2).await;
        sender.send(delta(0, "x")).unwrap();
        assert!(next(&mut stream).await.unwrap().starts_with("event: "));
        assert_eq!(next(&mut stream).await.unwrap(), ":\n\n");
        assert!(began.elapsed() >= HEARTBEAT / 2 + HEARTBEAT);
        assert_eq!(next(&mut stream).await.unwrap(), ":\n\n");
        drop(sender);
        assert_eq!(next(&mut stream).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_for_too_long_is_sent_dropped_and_counted() {
        let events = stream::iter((0..9).map(|offset| delta(offset, &"x".repeat(PIECE_BYTES))));
        let mut stream = sent(events);
        let metrics = stream.metrics.clone();
        next(&mut stream).await.unwrap();
        tokio::time::advance(PATIENCE - Duration::from_secs(1)).await;
        assert!(
            next(&mut stream)
                .await
                .unwrap()
                .starts_with("event: text_delta")
        );
        tokio::time::advance(PATIENCE).await;
        let last = next(&mut stream).await.unwrap();
        assert!(last.starts_with("event: dropped\ndata: {"), "{last}");
        assert!(last.contains("Last-Event-ID: 2"), "{last}");
        assert_eq!(next(&mut stream).await, None);
        drop(stream);
        let dropped = "neuraxis_listeners_dropped_total ";
        assert_eq!(count(&metrics, dropped), Some("1".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_connection_counts_as_dropped_only_if_its_client_was_not_reading() {
        for (waited, expected) in [(PATIENCE, "1"), (Duration::from_secs(1), "0")] {
            let mut stream = sent(stream::iter([delta(0, "x")]).chain(stream::pending()));
            let metrics = stream.metrics.clone();
            next(&mut stream).await.unwrap();
            tokio::time::advance(waited).await;
            drop(stream);
            let dropped = count(&metrics, "neuraxis_listeners_dropped_total ");
            assert_eq!(dropped, Some(expected.to_owned()));
        }
    }
}
