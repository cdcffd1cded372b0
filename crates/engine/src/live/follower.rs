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

/// Receives what is found out about a run that another process drives, in the order in which it is to be shown.
pub(crate) trait RunListener {
    /// Returns the buffer for what a call shows; by default one that only this listener reads.
    fn open(&mut self, call: LiveCall) -> Arc<CallBuffer> {
        Arc::new(CallBuffer::new(call))
    }

    /// Shows what the buffers of calls hold by now, after a record and before the next one; by default nothing.
    fn show_calls(&mut self, _changed: &[Arc<CallBuffer>], _after: Seq) {}

    /// Shows the next record.
    fn show_record(&mut self, record: Arc<Record>);
}

/// What the calls of a run in another process show.
#[derive(Debug)]
pub(crate) struct RemoteLive {
    follower: LiveFollower,
    replica: Replica,
    /// Pieces that arrived before the records that were committed before them.
    early: Vec<Arc<Piece>>,
}

impl RemoteLive {
    /// Follows a run after one of its records.
    pub(crate) fn new(exchange: &Arc<LiveExchange>, run: RunId, from: Seq) -> Self {
        Self {
            follower: exchange.follow(run),
            replica: Replica::new(from),
            early: Vec::new(),
        }
    }

    /// Waits for pieces and shows them, given the last record that was read. Returns whether records must be read
    /// before all of them can be shown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no piece.
    pub(crate) async fn show_next_pieces(
        &mut self,
        last: Seq,
        listener: &mut impl RunListener,
    ) -> bool {
        let mut pieces = Vec::new();
        match self.follower.pieces.recv_many(&mut pieces, QUEUE).await {
            0 => pending().await,
            _ => self.show_pieces(pieces, last, listener),
        }
    }

    /// Shows the pieces that arrived before the records that were read since.
    pub(crate) fn show_early_pieces(&mut self, last: Seq, listener: &mut impl RunListener) {
        let early = std::mem::take(&mut self.early);
        self.show_pieces(early, last, listener);
    }

    fn show_pieces(
        &mut self,
        pieces: Vec<Arc<Piece>>,
        last: Seq,
        listener: &mut impl RunListener,
    ) -> bool {
        let mut changed = Vec::new();
        let (mut needs_records, mut misses_something) = (false, false);
        for piece in pieces {
            match self.replica.take(&piece, last, |call| listener.open(call)) {
                Taken::Shown(buffer) => changed.push(buffer),
                Taken::Known => {}
                Taken::Gap => misses_something = true,
                Taken::Early => {
                    needs_records = true;
                    // If a piece does not fit, the missing part is noticed later.
                    if self.early.len() < MAX_EARLY {
                        self.early.push(piece);
                    }
                }
            }
        }
        if misses_something {
            self.follower.request_resync();
        }
        listener.show_calls(&changed, last);
        needs_records
    }

    /// Shows a record that was read after another one, and before it what it says about calls and no piece supplied.
    pub(crate) fn show_record(
        &mut self,
        record: Arc<Record>,
        before: Seq,
        listener: &mut impl RunListener,
    ) {
        listener.show_calls(&self.replica.settle(&record), before);
        listener.show_record(record);
    }
}
