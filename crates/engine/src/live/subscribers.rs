//! The processes that follow runs that are driven here, and what each of them was sent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use neuraxis_core::{DataPolicy, EffectId, LiveBody, RunId};
use neuraxis_ports::{LiveFeed, LiveFeedError, LiveRecipient};
use tokio::time::Instant;

use super::LAPSES_AFTER;
use super::message::{Batch, Piece};
use crate::feed::{CallBuffer, Feed, Position};
use crate::runs::{ActiveRuns, Reachability};

/// The maximum number of subscribers, over all processes and runs. Any others follow record by record.
const MAX_SUBSCRIBERS: usize = 4_096;

/// The number of bytes, over all processes and runs, after which the rest waits for the next time.
const MAX_BYTES: usize = 256 * 1024;

/// All subscribers of runs that are, or may later be, driven here.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// In the order in which they are served next.
    list: VecDeque<Subscriber>,
    /// Messages that the feed has not accepted yet, with their recipients. While there are any, nothing more is read of
    /// what runs show: it is merged there.
    unsent: VecDeque<(Arc<str>, String)>,
}

/// A process that follows a run.
#[derive(Debug)]
struct Subscriber {
    run: RunId,
    reader: Arc<str>,
    until: Instant,
    /// What it was sent of the calls in progress.
    calls: HashMap<EffectId, Sent>,
}

#[derive(Debug)]
struct Sent {
    buffer: Arc<CallBuffer>,
    position: Position,
    /// How much of the call the reader knows, counted as in [`Piece::at`].
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
                tracing::debug!(%run, "too many subscribers in other processes; one of them receives no live text");
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

    /// Sends what runs that are driven here have shown since the last time, and forgets subscribers that have not
    /// renewed for too long.
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

    /// Sends the unsent messages. Returns `false` if the feed accepts no more for now.
    fn send(&mut self, feed: &dyn LiveFeed) -> bool {
        while let Some((reader, message)) = self.unsent.front() {
            match feed.send(LiveRecipient::One(reader), message.clone()) {
                Err(LiveFeedError::Full) => return false,
                // By construction, no message is too long.
                Ok(()) | Err(_) => drop(self.unsent.pop_front()),
            }
        }
        true
    }
}

impl Subscriber {
    /// Adds what the run has shown and this subscriber was not sent yet.
    fn add(&mut self, active: &ActiveRuns, batch: &mut Batch, most: usize) {
        let Reachability::Here(handle) = active.reach(self.run) else {
            // The run may begin here, or be resumed, and then nothing of it has been sent.
            self.calls.clear();
            return;
        };
        let feed: &Feed = &handle.link.feed;
        let Some(driven_here) = feed.driven_here() else {
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
                if !may_leave(&event.body, driven_here.policy) {
                    return;
                }
                let piece = Piece {
                    lease: driven_here.lease,
                    at: *known,
                    begins: *last != Some(item),
                    event,
                };
                let end = piece.end();
                // A piece that is left out is left out for every reader, and does not count.
                if batch.add(piece, most) {
                    (*known, *last) = (end, Some(item));
                }
            });
        }
    }
}

/// Returns whether a live event contains nothing that must not be stored: what is kept out of the store does not leave
/// the process.
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
