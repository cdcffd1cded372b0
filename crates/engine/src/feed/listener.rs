//! One listener: its place among the records and in each call's buffer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use neuraxis_core::{BlockIndex, EffectId, LiveBody, LiveEvent, LlmCall, Record, RecordBody, Seq};

use crate::event::Event;
use crate::feed::Feed;
use crate::feed::buffer::{CallBuffer, Place};

/// Reads a feed from its first record on.
#[derive(Debug)]
pub(super) struct Listener {
    feed: Arc<Feed>,
    next_record: usize,
    after: Seq,
    /// The calls it reads along with. A buffer stays here until its call's record was heard, so that the text is whole.
    reading: HashMap<EffectId, (Arc<CallBuffer>, Place)>,
    ready: VecDeque<Event>,
}

/// Returns the call whose buffer a record closes: the record holds everything the buffer showed.
pub(super) fn closed_call(record: &Record) -> Option<EffectId> {
    match &record.body {
        RecordBody::LlmCall(call) => Some(call.effect_id),
        RecordBody::ToolResult(result) => result.effect_id,
        _ => None,
    }
}

impl Listener {
    pub(super) fn new(feed: Arc<Feed>) -> Self {
        Self {
            feed,
            next_record: 0,
            after: Seq(0),
            reading: HashMap::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Event> + Send {
        stream::unfold(self, |mut listener| async move {
            let event = listener.next().await?;
            Some((event, listener))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let feed = Arc::clone(&self.feed);
            let changed = feed.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed, even one that comes before the wait.
            changed.as_mut().enable();
            let ended = self.read();
            if self.ready.is_empty() {
                if ended {
                    return None;
                }
                changed.await;
            }
        }
    }

    /// Takes over what is new: first the records, each after the rest of the text it closes, then the open calls' text.
    fn read(&mut self) -> bool {
        let (records, open, ended) = {
            let state = self.feed.lock();
            let records = state
                .records
                .get(self.next_record..)
                .unwrap_or_default()
                .to_vec();
            (records, state.open.clone(), state.ended)
        };
        self.next_record += records.len();
        for record in records {
            self.close(&record);
            self.after = record.seq;
            self.ready.push_back(Event::Record(record));
        }
        for buffer in open {
            let id = buffer.call.effect_id;
            let (_, place) = self
                .reading
                .entry(id)
                .or_insert_with(|| (Arc::clone(&buffer), Place::default()));
            self.ready
                .extend(buffer.read(place, self.after).into_iter().map(Event::Live));
        }
        ended
    }

    fn close(&mut self, record: &Record) {
        let Some(call) = closed_call(record) else {
            return;
        };
        if let Some((buffer, mut place)) = self.reading.remove(&call) {
            self.ready.extend(
                buffer
                    .read(&mut place, self.after)
                    .into_iter()
                    .map(Event::Live),
            );
        } else if let RecordBody::LlmCall(call) = &record.body {
            self.ready
                .extend(whole_text(record, call, self.after).map(Event::Live));
        }
    }
}

/// The text of a call whose buffer this listener never saw, so that whoever puts deltas together has it all the same.
fn whole_text(record: &Record, call: &LlmCall, after: Seq) -> Option<LiveEvent> {
    // Only calls that a person reads along with have a buffer at all.
    call.first_delta?;
    let text = call.reply.text();
    let event = LiveEvent {
        after,
        content_index: record.content_index?,
        run_id: record.run_id,
        agent: record.agent,
        call: call.effect_id,
        attempt: call.attempt,
        block: BlockIndex(0),
        offset: 0,
        body: LiveBody::TextDelta { text: text.clone() },
    };
    (!text.is_empty()).then_some(event)
}
