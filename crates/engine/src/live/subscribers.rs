//! Those in other processes who follow runs that are driven here, and what each of them was sent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use neuraxis_core::{DataPolicy, EffectId, LiveBody, RunId};
use neuraxis_ports::{LiveFeed, LiveFeedError, LiveRecipient};
use tokio::time::Instant;

use super::LAPSES_AFTER;
use super::message::{Batch, Piece};
use crate::feed::{CallBuffer, Feed, Position};
use crate::runs::{ActiveRuns, Reached};

/// The most who are remembered, over all processes and runs. More follow record by record.
const MAX_SUBSCRIBERS: usize = 4_096;

/// From so many bytes on, over all processes and runs, the rest waits for the next time.
const MAX_BYTES: usize = 256 * 1024;

/// All who follow runs that are, or may come to be, driven here.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// The next to be served first.
    list: VecDeque<Subscriber>,
    /// What the feed did not take yet, and for whom. As long as there is any, nothing more is read of what runs show: there it
    /// is merged.
    unsent: VecDeque<(Arc<str>, String)>,
}

/// A process that follows a run.
#[derive(Debug)]
struct Subscriber {
    run: RunId,
    reader: Arc<str>,
    until: Instant,
    /// What it was sent of the calls under way.
    calls: HashMap<EffectId, Sent>,
}

#[derive(Debug)]
struct Sent {
    buffer: Arc<CallBuffer>,
    position: Position,
    /// How much of the call the reader knows, as [`Piece::at`] counts.
    known: u64,
    /// The item that was sent last.
    item: Option<usize>,
}

impl Subscribers {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Notes that a process follows runs.
    pub(super) fn note(&mut self, reader: &str, runs: Vec<RunId>, anew: bool) {
        let until = Instant::now() + LAPSES_AFTER;
        let wanted: HashSet<RunId> = runs.iter().copied().collect();
        let mut known = HashSet::new();
        for subscriber in &mut self.list {
            if &*subscriber.reader == reader && wanted.contains(&subscriber.run) {
                known.insert(subscriber.run);
                subscriber.until = until;
                if anew {
                    subscriber.calls.clear();
                }
            }
        }
        let reader: Arc<str> = reader.into();
        for run in runs.into_iter().filter(|run| !known.contains(run)) {
            if self.list.len() >= MAX_SUBSCRIBERS {
                tracing::debug!(%run, "too many follow runs elsewhere: one hears no live text");
                return;
            }
            self.list.push_back(Subscriber {
                run,
                reader: Arc::clone(&reader),
                until,
                calls: HashMap::new(),
            });
        }
    }

    /// Sends what runs that are driven here have shown since the last time, and forgets who said nothing for long.
    pub(super) fn pass_on(&mut self, active: &ActiveRuns, feed: &dyn LiveFeed) {
        let now = Instant::now();
        self.list.retain(|subscriber| subscriber.until > now);
        if !self.send(feed) {
            return;
        }
        let most = feed.max_message();
        let mut batches: HashMap<Arc<str>, Batch> = HashMap::new();
        let mut bytes = 0;
        for _ in 0..self.list.len() {
            let Some(mut subscriber) = self.list.pop_front() else {
                break;
            };
            let batch = batches.entry(Arc::clone(&subscriber.reader)).or_default();
            let before = batch.bytes;
            subscriber.add(active, batch, most);
            bytes += batch.bytes - before;
            self.list.push_back(subscriber);
            if bytes >= MAX_BYTES {
                break;
            }
        }
        for (reader, batch) in batches {
            let messages = batch.into_messages().into_iter();
            self.unsent
                .extend(messages.map(|message| (Arc::clone(&reader), message)));
        }
        self.send(feed);
    }

    /// Sends what is unsent. False if the feed takes no more for now.
    fn send(&mut self, feed: &dyn LiveFeed) -> bool {
        while let Some((reader, message)) = self.unsent.front() {
            match feed.send(LiveRecipient::One(reader), message.clone()) {
                Err(LiveFeedError::Full) => return false,
                // None is too long, by how they are made.
                Ok(()) | Err(_) => drop(self.unsent.pop_front()),
            }
        }
        true
    }
}

impl Subscriber {
    /// Adds what the run has shown and this one was not sent.
    fn add(&mut self, active: &ActiveRuns, batch: &mut Batch, most: usize) {
        let Reached::Here(handle) = active.reach(self.run) else {
            // It may begin here, or be taken up again, and then nothing was sent of it.
            self.calls.clear();
            return;
        };
        let feed: &Feed = &handle.link.feed;
        let Some(origin) = feed.origin() else {
            return;
        };
        let (after, open) = feed.open_calls();
        self.calls
            .retain(|call, _| open.iter().any(|buffer| buffer.call.effect_id == *call));
        for buffer in open {
            let sent = self.calls.entry(buffer.call.effect_id);
            let sent = sent.or_insert_with(|| Sent {
                buffer: Arc::clone(&buffer),
                position: Position::default(),
                known: 0,
                item: None,
            });
            let Sent {
                buffer,
                position,
                known,
                item: last,
            } = sent;
            buffer.read_items(position, after, |item, event| {
                if !may_leave(&event.body, origin.policy) {
                    return;
                }
                let piece = Piece {
                    lease: origin.lease,
                    at: *known,
                    begins: *last != Some(item),
                    event,
                };
                let end = piece.end();
                // What is left out is left out for every reader, and counts for none.
                if batch.add(piece, most) {
                    (*known, *last) = (end, Some(item));
                }
            });
        }
    }
}

/// Tells whether a live event says nothing that must not be stored: what is kept out of the store does not leave the process.
const fn may_leave(body: &LiveBody, policy: DataPolicy) -> bool {
    match body {
        LiveBody::ReasoningDelta { .. } => policy.reasoning,
        LiveBody::TextDelta { .. } => policy.text,
        LiveBody::ToolCallDelta { .. } => policy.tool_calls,
        LiveBody::ToolProgress { .. } | LiveBody::ToolOutput { .. } => policy.tool_results,
        LiveBody::TextRetracted | LiveBody::ToolStart { .. } => true,
        _ => false,
    }
}
