//! Exchanges live events of runs between processes: events of runs that are driven here go to their followers in other
//! processes, and events of runs that are driven elsewhere come to their followers here.
//!
//! Nothing is sent about a run without followers. A follower's process announces repeatedly to all processes what it
//! follows; it is then sent what the run's calls in progress have shown so far, and what they show from then on. Text
//! that accumulates meanwhile becomes one message, so a process sends at most ten times a second, however many pieces
//! its models produce. There is no queue of text: what is not sent yet stays in the buffers of the calls, which exist
//! anyway, and a run never waits.
//!
//! - `message` is what is sent, cut to the size of a message.
//! - `subscribers` are the followers in other processes of runs that are driven here.
//! - `follower` follows a run that is driven elsewhere.

mod follower;
mod message;
mod subscribers;

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::RunId;
use neuraxis_ports::{LiveFeed, LiveNews, LiveRecipient};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) use follower::{RemoteLive, RunListener};
pub(crate) use message::Piece;

use crate::runs::{ActiveRuns, Runs};
use message::{Message, wants};
use subscribers::Subscribers;

/// The minimum time between two sends of what runs show, and between two announcements of what is followed.
const TICK: Duration = Duration::from_millis(100);

/// How often a follower's process repeats its announcement.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// How long an announcement is valid.
const LAPSES_AFTER: Duration = Duration::from_secs(30);

impl Runs {
    /// Sends the live events of runs in progress here to other processes that follow them, and receives theirs for runs
    /// that are followed here, over the [feed](crate::OrchestratorBuilder::live_feed), until the engine shuts down and
    /// no run is in progress or followed here. Without a feed nothing is exchanged.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, runs of other processes are followed record by record.
    pub async fn keep_live_exchange(&self) {
        let (engine, active) = (&self.parts.engine, &self.parts.active);
        let (closing, shutdown) = (&engine.closing, &engine.shutdown);
        let Some(exchange) = &self.parts.live else {
            return closing.cancelled().await;
        };
        let over = async {
            closing.cancelled().await;
            // Once the engine has let go of its runs, followers are sent nothing more.
            while !active.is_empty() || (exchange.is_followed() && !shutdown.is_cancelled()) {
                sleep(TICK).await;
            }
        };
        tokio::select! {
            () = over => {}
            () = exchange.run(active) => {}
        }
    }
}

/// The connection to the other processes, and the followers here of their runs.
#[derive(Debug)]
pub(crate) struct LiveExchange {
    feed: Arc<dyn LiveFeed>,
    followed: Mutex<Followed>,
    /// Notified when an announcement of what is followed here is due.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Followed {
    runs: HashMap<RunId, Vec<FollowerLink>>,
    /// The runs whose calls in progress must be sent from their beginning.
    to_resync: HashSet<RunId>,
    /// How many followers there have ever been; used to number them.
    count: u64,
}

/// The connection to one follower.
#[derive(Debug)]
struct FollowerLink {
    number: u64,
    pieces: mpsc::Sender<Arc<Piece>>,
}

impl LiveExchange {
    pub(crate) fn new(feed: Arc<dyn LiveFeed>) -> Self {
        Self {
            feed,
            followed: Mutex::default(),
            changed: Notify::new(),
        }
    }

    async fn run(&self, active: &ActiveRuns) {
        let mut inbox = self.feed.join();
        let mut subscribers = Subscribers::default();
        let mut next_tick = Instant::now();
        let (mut announced, mut renewed) = (Instant::now(), Instant::now());
        loop {
            let due = self.due(announced, renewed);
            tokio::select! {
                news = inbox.next() => match news {
                    Some(LiveNews::Message(text)) => self.process(&text, &mut subscribers),
                    Some(_) => self.resync_all(),
                    None => return pending().await,
                },
                () = self.changed.notified() => {}
                () = until(due) => {
                    let now = Instant::now();
                    announced = now;
                    if now >= renewed + RENEW_EVERY {
                        renewed = now;
                        self.renew();
                    }
                    self.announce_resyncs();
                }
                () = sleep_until(next_tick), if !subscribers.is_empty() => {
                    subscribers.pass_on(active, self.feed.as_ref());
                    next_tick = Instant::now() + TICK;
                }
            }
        }
    }

    /// Returns when the next announcement of what is followed here is due.
    fn due(&self, announced: Instant, renewed: Instant) -> Option<Instant> {
        let followed = self.lock();
        let renewal = (!followed.runs.is_empty()).then(|| renewed + RENEW_EVERY);
        let resync = (!followed.to_resync.is_empty()).then(|| announced + TICK);
        resync.into_iter().chain(renewal).min()
    }

    /// Processes a message.
    fn process(&self, text: &str, subscribers: &mut Subscribers) {
        match Message::read(text) {
            Ok(Message::Wants { reader, runs, anew }) => subscribers.note(&reader, runs, anew),
            Ok(Message::Pieces { pieces }) => self.deliver(pieces),
            // A later version may send what this one does not know.
            Err(error) => tracing::debug!(%error, "could not parse a message from another process"),
        }
    }

    /// Passes pieces to the followers here of their runs. A follower whose queue is full misses them, and notices.
    fn deliver(&self, pieces: Vec<Piece>) {
        let followed = self.lock();
        for piece in pieces {
            let Some(followers) = followed.runs.get(&piece.event.run_id) else {
                continue;
            };
            let piece = Arc::new(piece);
            for follower in followers {
                // The queue is full, or the follower is about to be dropped.
                let _ = follower.pieces.try_send(Arc::clone(&piece));
            }
        }
    }

    fn renew(&self) {
        let runs: Vec<RunId> = self.lock().runs.keys().copied().collect();
        self.announce_followed(&runs, false);
    }

    fn announce_resyncs(&self) {
        let runs: Vec<RunId> = self.lock().to_resync.drain().collect();
        self.announce_followed(&runs, true);
    }

    fn resync_all(&self) {
        let mut followed = self.lock();
        let Followed {
            runs, to_resync, ..
        } = &mut *followed;
        to_resync.extend(runs.keys().copied());
        drop(followed);
        self.changed.notify_one();
    }

    fn announce_followed(&self, runs: &[RunId], anew: bool) {
        for message in wants(self.feed.address(), runs, anew, self.feed.max_message()) {
            if let Err(error) = self.feed.send(LiveRecipient::Everyone, message) {
                // It is announced again at the next renewal.
                tracing::debug!(%error, "could not announce which runs are followed here");
            }
        }
    }

    /// Returns whether any run of another process is followed here.
    fn is_followed(&self) -> bool {
        !self.lock().runs.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
