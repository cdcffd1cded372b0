//! One listener: its position among the records and in each call's buffer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::Stream;
use neuraxis_core::{
    BlockIndex, EffectId, LiveBody, LiveEvent, LlmCall, Record, RecordBody, ReplyPart, Seq,
};

use smallvec::SmallVec;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::driver::is_part_of_answer;
use crate::event::Event;
use crate::feed::Feed;
use crate::feed::buffer::{CallBuffer, Position};
use crate::feed::waiting::Awaited;

/// The minimum average time between two looks for more text while text keeps coming. Text that comes more slowly is
/// delivered immediately. Text that comes faster is merged, since waking a thread for each piece costs more than
/// producing the piece, and a screen shows a new picture every 16 milliseconds at best. Records never wait.
const TEXT_EVERY: Duration = Duration::from_millis(1);

/// How much earlier a look may be: pieces come in bursts, and timers fire up to two milliseconds late.
const AHEAD: Duration = Duration::from_millis(2);

/// Reads a feed from its first record on.
#[derive(Debug)]
pub(super) struct Listener {
    feed: Arc<Feed>,
    next_record: usize,
    after: Seq,
    /// The calls that it is reading, usually few. A buffer stays here until its call's record was delivered, so that
    /// the text is complete.
    reading: Vec<(Arc<CallBuffer>, Position)>,
    ready: VecDeque<Event>,
    /// The time up to which its previous looks for text count, at one per [`TEXT_EVERY`].
    looks_until: Option<Instant>,
    /// Fires when it may look for more text; created the first time a look would be too early.
    pause: Option<Pin<Box<Sleep>>>,
    /// Its place among the waiting listeners, once it has waited.
    place: Option<usize>,
}

/// Returns the call whose buffer a record closes: the record holds everything the buffer showed.
pub(crate) fn closed_call(record: &Record) -> Option<EffectId> {
    match &record.body {
        RecordBody::LlmCall(call) => Some(call.effect_id),
        RecordBody::ToolResult(result) => result.effect_id,
        RecordBody::Cancelled(cancelled) => cancelled.cut.as_ref().map(|cut| cut.effect_id),
        _ => None,
    }
}

impl Listener {
    pub(super) fn new(feed: Arc<Feed>) -> Self {
        Self {
            feed,
            next_record: 0,
            after: Seq(0),
            reading: Vec::new(),
            ready: VecDeque::new(),
            looks_until: None,
            pause: None,
            place: None,
        }
    }

    /// Returns whether it is too early to look for more text. Records never wait.
    fn is_early(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(next_look) = self.next_look() else {
            return false;
        };
        let mut state = self.feed.lock();
        if state.ended || state.records.len() > self.next_record {
            return false;
        }
        let replaced = state
            .waiting
            .wait(&mut self.place, Awaited::Records, cx.waker());
        drop(state);
        drop(replaced);
        let pause = self
            .pause
            .get_or_insert_with(|| Box::pin(sleep_until(next_look)));
        pause.as_mut().reset(next_look);
        pause.as_mut().poll(cx).is_pending()
    }

    /// Reads what is new: first retractions, then the records, each after the rest of the text that it closes, then the
    /// text of open calls. From then on new data wakes the listener. Returns whether nothing more will come.
    fn read(&mut self, waker: &Waker) -> bool {
        let (records, open, ended, replaced) = {
            let mut state = self.feed.lock();
            if !state.ended && state.waiting.still_waits(self.place, waker) {
                return false;
            }
            let replaced = state
                .waiting
                .wait(&mut self.place, Awaited::Anything, waker);
            let records = state
                .records
                .get(self.next_record..)
                .unwrap_or_default()
                .to_vec();
            let open = state.open.iter().filter_map(|call| call.buffer.clone());
            let open: SmallVec<[_; 2]> = open.collect();
            (records, open, state.ended, replaced)
        };
        drop(replaced);
        for buffer in open.iter().filter(|buffer| buffer.is_void()) {
            self.read_along(buffer);
        }
        self.next_record += records.len();
        for record in records {
            self.close(&record);
            self.after = record.seq;
            self.ready.push_back(Event::Record(record));
        }
        let before = self.ready.len();
        for buffer in &open {
            self.read_along(buffer);
        }
        if self.ready.len() > before {
            let now = Instant::now();
            let from = self.looks_until.map_or(now, |until| until.max(now));
            self.looks_until = Some(from + TEXT_EVERY);
        }
        ended
    }

    fn read_along(&mut self, buffer: &Arc<CallBuffer>) {
        let known = self
            .reading
            .iter()
            .position(|(known, _)| known.call.effect_id == buffer.call.effect_id);
        let known = known.unwrap_or_else(|| {
            self.reading.push((Arc::clone(buffer), Position::default()));
            self.reading.len() - 1
        });
        if let Some((_, place)) = self.reading.get_mut(known) {
            read_on(buffer, place, self.after, &mut self.ready);
        }
    }

    /// Returns when it looks for more text next, if not now.
    fn next_look(&self) -> Option<Instant> {
        let next = self.looks_until?.checked_sub(AHEAD)?;
        (next > Instant::now()).then_some(next)
    }

    fn close(&mut self, record: &Record) {
        let Some(call) = closed_call(record) else {
            return;
        };
        let mut reading = self.reading.iter();
        if let Some(known) = reading.position(|(known, _)| known.call.effect_id == call) {
            let (buffer, mut place) = self.reading.swap_remove(known);
            read_on(&buffer, &mut place, self.after, &mut self.ready);
        } else if let RecordBody::LlmCall(call) = &record.body {
            self.ready
                .extend(whole_text(record, call, self.after).map(Event::Live));
        }
    }
}

impl Stream for Listener {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.is_early(cx) {
                return Poll::Pending;
            }
            let ended = self.read(cx.waker());
            if self.ready.is_empty() {
                return match ended {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                };
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let left = self.feed.lock().waiting.leave(place);
            drop(left);
        }
    }
}

/// Reads a buffer from a position on, and advances the position.
fn read_on(buffer: &CallBuffer, place: &mut Position, after: Seq, ready: &mut VecDeque<Event>) {
    buffer.read_items(place, after, |_, event| ready.push_back(Event::Live(event)));
}

/// Returns the reasoning and the text of a call whose buffer this listener never saw, so that a reader who assembles
/// deltas gets them as well.
fn whole_text(
    record: &Record,
    call: &LlmCall,
    after: Seq,
) -> impl Iterator<Item = LiveEvent> + use<> {
    // Only calls that are streamed to a reader have a buffer.
    let is_shown = call.first_delta.is_some() && is_part_of_answer(call.purpose, &call.reply);
    let content_index = record.content_index.filter(|_| is_shown);
    let thoughts = call.reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Reasoning(thought) => Some(thought.text.as_str()),
        _ => None,
    });
    let (thoughts, text) = (thoughts.collect::<String>(), call.reply.text());
    let bodies = [
        (!thoughts.is_empty()).then_some(LiveBody::ReasoningDelta { text: thoughts }),
        (!text.is_empty()).then_some(LiveBody::TextDelta { text }),
    ];
    let (run_id, agent, attempt) = (record.run_id, record.agent, call.attempt);
    let call = call.effect_id;
    let shown = bodies.into_iter().flatten().zip(0..);
    shown.filter_map(move |(body, block)| {
        Some(LiveEvent {
            after,
            content_index: content_index?,
            run_id,
            agent,
            call,
            attempt,
            block: BlockIndex(block),
            offset: 0,
            body,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use futures_util::{FutureExt, StreamExt};
    use neuraxis_core::{AgentId, Attempt, ContentIndex, RunId};
    use uuid::Uuid;

    use super::*;
    use crate::feed::buffer::{LiveCall, LiveText};

    fn call() -> LiveCall {
        let run_id = RunId(Uuid::nil());
        LiveCall {
            effect_id: EffectId {
                run: run_id,
                number: 1,
            },
            content_index: ContentIndex(0),
            run_id,
            agent: AgentId::ROOT,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn text_is_delivered_at_once_unless_it_arrives_faster_than_the_polling_interval() {
        let feed = Arc::new(Feed::default());
        feed.begin(call().effect_id);
        let buffer = feed.buffer(call());
        let mut events = feed.listen();
        let say = |more: &str| {
            buffer.text(Attempt(1), BlockIndex(0), LiveText::Text, more);
            feed.grown();
        };
        let text = |event: Option<Event>| match event {
            Some(Event::Live(live)) => match live.body {
                LiveBody::TextDelta { text } => text,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        assert!(events.next().now_or_never().is_none());
        for piece in ["a", "b", "c"] {
            say(piece);
            assert_eq!(text(events.next().now_or_never().unwrap()), piece);
            assert!(events.next().now_or_never().is_none());
        }
        for piece in ["d", "e", "f"] {
            say(piece);
            assert!(events.next().now_or_never().is_none());
        }
        let asked = Instant::now();
        assert_eq!(text(events.next().await), "def");
        assert_eq!(asked.elapsed(), TEXT_EVERY);
        assert!(events.next().now_or_never().is_none());
        // This often on average, however unevenly.
        for millis in [1, 2, 0, 1, 2] {
            tokio::time::advance(millis * TEXT_EVERY).await;
            say("g");
            assert_eq!(text(events.next().now_or_never().unwrap()), "g");
            assert!(events.next().now_or_never().is_none());
        }
        say("h");
        assert_eq!(text(events.next().now_or_never().unwrap()), "h");
        for piece in ["i", "j"] {
            assert!(events.next().now_or_never().is_none());
            say(piece);
        }
        // The end, like a record, is delivered without waiting, together with what came before.
        feed.end();
        assert_eq!(text(events.next().now_or_never().unwrap()), "ij");
        assert_eq!(events.next().now_or_never().unwrap(), None);
    }

    /// Counts how often it is woken and dropped, and checks that the feed is not locked then.
    struct Lockless {
        feed: Weak<Feed>,
        woken: AtomicUsize,
        dropped: Arc<AtomicUsize>,
    }

    impl Lockless {
        fn of(feed: &Arc<Feed>, dropped: &Arc<AtomicUsize>) -> Arc<Self> {
            Arc::new(Self {
                feed: Arc::downgrade(feed),
                woken: AtomicUsize::new(0),
                dropped: Arc::clone(dropped),
            })
        }

        fn look(&self) -> bool {
            let feed = self.feed.upgrade();
            feed.is_some_and(|feed| feed.state.try_lock().is_ok())
        }
    }

    impl Wake for Lockless {
        fn wake(self: Arc<Self>) {
            if self.look() {
                self.woken.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    impl Drop for Lockless {
        fn drop(&mut self) {
            if self.look() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn listeners_are_not_woken_or_dropped_while_the_feed_is_locked() {
        let feed = Arc::new(Feed::default());
        feed.begin(call().effect_id);
        let buffer = feed.buffer(call());
        let mut events = feed.listen();
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut woken = 0;
        for more in ["a", "b"] {
            let listener = Lockless::of(&feed, &dropped);
            let waker = Waker::from(Arc::clone(&listener));
            let mut context = Context::from_waker(&waker);
            while events.poll_next_unpin(&mut context).is_ready() {}
            buffer.text(Attempt(1), BlockIndex(0), LiveText::Text, more);
            feed.grown();
            woken += listener.woken.load(Ordering::Relaxed);
        }
        assert_eq!(woken, 2);
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "the first was replaced");
        drop(events);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }
}
