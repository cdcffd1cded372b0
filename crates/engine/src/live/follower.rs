//! One who follows a run that another process drives.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Record, RunId, Seq};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{FollowerLink, LiveExchange, Piece};
use crate::feed::{CallBuffer, LiveCall, Replica, Taken};

/// How many pieces wait for one who follows a run.
const QUEUE: usize = 256;

/// How often it asks for what it misses, at the most.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The most pieces that wait for the records before them.
const MAX_EARLY: usize = 256;

/// Gets the pieces of one run, until it is dropped.
#[derive(Debug)]
pub(crate) struct LiveFollower {
    exchange: Arc<LiveExchange>,
    run: RunId,
    number: u64,
    pieces: mpsc::Receiver<Arc<Piece>>,
    asked: Instant,
}

impl LiveExchange {
    /// Begins to follow a run.
    fn follow(self: &Arc<Self>, run: RunId) -> LiveFollower {
        let (pieces, receiver) = mpsc::channel(QUEUE);
        let mut followed = self.lock();
        followed.count += 1;
        let number = followed.count;
        let link = FollowerLink { number, pieces };
        followed.runs.entry(run).or_default().push(link);
        followed.anew.insert(run);
        drop(followed);
        self.changed.notify_one();
        LiveFollower {
            exchange: Arc::clone(self),
            run,
            number,
            pieces: receiver,
            asked: Instant::now(),
        }
    }
}

impl LiveFollower {
    /// Asks for all that calls under way have shown, since something is missing.
    fn ask_anew(&mut self) {
        if self.asked.elapsed() < ASK_EVERY {
            return;
        }
        self.asked = Instant::now();
        self.exchange.lock().anew.insert(self.run);
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
            followed.anew.remove(&self.run);
        }
    }
}

/// What the calls of a run show that another process drives, as far as it is passed on.
#[derive(Debug)]
pub(crate) struct RemoteLive {
    /// `None` where nothing is passed on.
    follower: Option<LiveFollower>,
    replica: Replica,
    /// What came before the records that were committed before it.
    early: Vec<Arc<Piece>>,
}

/// What pieces led to.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// These show more now.
    pub(crate) shown: Vec<Arc<CallBuffer>>,
    /// There are records that have to be read first.
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

    /// Waits for pieces; for good where nothing is passed on.
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

    /// Takes pieces, with the last record that was read. What a call shows is opened when its first piece comes.
    pub(crate) fn hear(
        &mut self,
        pieces: Vec<Arc<Piece>>,
        last: Seq,
        open: impl Fn(LiveCall) -> Arc<CallBuffer>,
    ) -> Heard {
        let mut heard = Heard::default();
        let mut misses_something = false;
        for piece in pieces {
            match self.replica.take(&piece, last, &open) {
                Taken::Shown(buffer) => heard.shown.push(buffer),
                Taken::Known => {}
                Taken::Gap => misses_something = true,
                Taken::Early if self.early.len() < MAX_EARLY => {
                    heard.needs_records = true;
                    self.early.push(piece);
                }
                // What is missing then is noticed.
                Taken::Early => heard.needs_records = true,
            }
        }
        if let Some(follower) = self.follower.as_mut().filter(|_| misses_something) {
            follower.ask_anew();
        }
        heard
    }

    /// As [`hear`](Self::hear), for what came too early, once more records were read.
    pub(crate) fn hear_early(
        &mut self,
        last: Seq,
        open: impl Fn(LiveCall) -> Arc<CallBuffer>,
    ) -> Heard {
        let early = std::mem::take(&mut self.early);
        self.hear(early, last, open)
    }

    /// Brings what calls show to what a record says of them, before it is heard. Returns what changed by that.
    pub(crate) fn settle(&mut self, record: &Record) -> Vec<Arc<CallBuffer>> {
        self.replica.settle(record)
    }
}
