//! A follower of a run that another process drives.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Record, RunId, Seq};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{FollowerLink, LiveExchange, Piece};
use crate::feed::{CallBuffer, LiveCall, Replica, Taken};

/// The maximum number of pieces that wait for one follower.
const QUEUE: usize = 256;

/// The minimum time between two requests for missing pieces.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The maximum number of pieces that wait for the records before them.
const MAX_EARLY: usize = 256;

/// Receives the pieces of one run, until it is dropped.
#[derive(Debug)]
pub(crate) struct LiveFollower {
    exchange: Arc<LiveExchange>,
    run: RunId,
    number: u64,
    pieces: mpsc::Receiver<Arc<Piece>>,
    /// When everything was last requested.
    requested: Instant,
}

impl LiveExchange {
    /// Starts following a run.
    fn follow(self: &Arc<Self>, run: RunId) -> LiveFollower {
        let (pieces, receiver) = mpsc::channel(QUEUE);
        let mut followed = self.lock();
        followed.count += 1;
        let number = followed.count;
        let link = FollowerLink { number, pieces };
        followed.runs.entry(run).or_default().push(link);
        followed.to_resync.insert(run);
        drop(followed);
        self.changed.notify_one();
        LiveFollower {
            exchange: Arc::clone(self),
            run,
            number,
            pieces: receiver,
            requested: Instant::now(),
        }
    }
}

impl LiveFollower {
    /// Requests everything that calls in progress have shown, since something is missing.
    fn request_resync(&mut self) {
        if self.requested.elapsed() < ASK_EVERY {
            return;
        }
        self.requested = Instant::now();
        self.exchange.lock().to_resync.insert(self.run);
        self.exchange.changed.notify_one();
    }
}

impl Drop for LiveFollower {
    fn drop(&mut self) {
        let mut followed = self.exchange.lock();
        let Some(followers) = followed.runs.get_mut(&self.run) else {
            return;
        };
        followers.retain(|follower| follower.number != self.number);
        if followers.is_empty() {
            followed.runs.remove(&self.run);
            followed.to_resync.remove(&self.run);
        }
    }
}

/// What the calls of a run in another process show, as far as it is exchanged.
#[derive(Debug)]
pub(crate) struct RemoteLive {
    /// `None` if live events are not exchanged.
    follower: Option<LiveFollower>,
    replica: Replica,
    /// Pieces that arrived before the records that were committed before them.
    early: Vec<Arc<Piece>>,
}

/// The result of processing pieces.
#[derive(Debug, Default)]
pub(crate) struct Processed {
    /// The buffers that show more now.
    pub(crate) shown: Vec<Arc<CallBuffer>>,
    /// Whether records must be read first.
    pub(crate) needs_records: bool,
}

impl RemoteLive {
    /// Follows a run after one of its records.
    pub(crate) fn new(exchange: Option<&Arc<LiveExchange>>, run: RunId, from: Seq) -> Self {
        Self {
            follower: exchange.map(|exchange| exchange.follow(run)),
            replica: Replica::new(from),
            early: Vec::new(),
        }
    }

    /// Waits for pieces; forever if live events are not exchanged.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no piece.
    pub(crate) async fn next(&mut self) -> Vec<Arc<Piece>> {
        let mut pieces = Vec::new();
        if let Some(follower) = &mut self.follower {
            follower.pieces.recv_many(&mut pieces, QUEUE).await;
        }
        match pieces.is_empty() {
            true => pending().await,
            false => pieces,
        }
    }

    /// Processes pieces, given the last record that was read. The buffer of a call is created when its first piece
    /// arrives.
    pub(crate) fn process(
        &mut self,
        pieces: Vec<Arc<Piece>>,
        last: Seq,
        open: impl Fn(LiveCall) -> Arc<CallBuffer>,
    ) -> Processed {
        let mut processed = Processed::default();
        let mut misses_something = false;
        for piece in pieces {
            match self.replica.take(&piece, last, &open) {
                Taken::Shown(buffer) => processed.shown.push(buffer),
                Taken::Known => {}
                Taken::Gap => misses_something = true,
                Taken::Early if self.early.len() < MAX_EARLY => {
                    processed.needs_records = true;
                    self.early.push(piece);
                }
                // If a piece does not fit, the missing part is noticed later.
                Taken::Early => processed.needs_records = true,
            }
        }
        if let Some(follower) = self.follower.as_mut().filter(|_| misses_something) {
            follower.request_resync();
        }
        processed
    }

    /// Like [`process`](Self::process), for pieces that arrived too early, once more records have been read.
    pub(crate) fn process_early(
        &mut self,
        last: Seq,
        open: impl Fn(LiveCall) -> Arc<CallBuffer>,
    ) -> Processed {
        let early = std::mem::take(&mut self.early);
        self.process(early, last, open)
    }

    /// Makes what calls show agree with a record, before the record is delivered. Returns the buffers that changed.
    pub(crate) fn settle(&mut self, record: &Record) -> Vec<Arc<CallBuffer>> {
        self.replica.settle(record)
    }
}
