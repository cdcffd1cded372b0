//! Live events of runs between processes: those of runs that are driven here go to who follows them elsewhere, and those of
//! runs that are driven elsewhere come to who follows them here.
//!
//! Nothing is sent of a run that nobody follows: whoever does says so to everyone, again and again, and is sent what its calls
//! under way have shown so far and what they show from then on. Text that came meanwhile is one message, so that a process
//! sends ten times a second at the most, however many pieces its models give. There is no queue of text: what is not read yet
//! stands in the buffers of the calls, which are there anyway, and a run never waits.
//!
//! - `message` is what is sent, cut to what a message may hold.
//! - `subscribers` are those elsewhere who follow runs that are driven here.
//! - `follower` is one who follows a run that is driven elsewhere.

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

pub(crate) use follower::RemoteLive;
pub(crate) use message::Piece;

use crate::runs::{ActiveRuns, Runs};
use message::{Message, wants};
use subscribers::Subscribers;

/// How often what runs show is sent, and how often anybody says anew what it follows, at the most.
const TICK: Duration = Duration::from_millis(100);

/// How often whoever follows a run says so.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// How long that holds.
const LAPSES_AFTER: Duration = Duration::from_secs(30);

impl Runs {
    /// Passes the live events of runs at work here on to other processes that follow them, and takes theirs in for runs that
    /// are followed here, over the [feed](crate::OrchestratorBuilder::live_feed), until the engine shuts down and nothing is at
    /// work or followed here any more. Without a feed nothing is passed on.
    ///
    /// # Cancel safety
    ///
    /// Dropped, runs of other processes are followed record by record.
    pub async fn keep_live_exchange(&self) {
        let (engine, active) = (&self.parts.engine, &self.parts.active);
        let (closing, shutdown) = (&engine.closing, &engine.shutdown);
        let Some(exchange) = &self.parts.live else {
            return closing.cancelled().await;
        };
        let over = async {
            closing.cancelled().await;
            // Who follows a run is told no more of it once all are let go of.
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

/// The way to the other processes, and who follows their runs here.
#[derive(Debug)]
pub(crate) struct LiveExchange {
    feed: Arc<dyn LiveFeed>,
    followed: Mutex<Followed>,
    /// Somebody is to be told what is followed here.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Followed {
    runs: HashMap<RunId, Vec<FollowerLink>>,
    /// Those whose calls under way are to be told from their beginning.
    anew: HashSet<RunId>,
    /// How many followers there ever were, for their numbers.
    count: u64,
}

/// The way to one follower.
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
        let (mut told, mut renewed) = (Instant::now(), Instant::now());
        loop {
            let due = self.due(told, renewed);
            tokio::select! {
                news = inbox.next() => match news {
                    Some(LiveNews::Message(text)) => self.hear(&text, &mut subscribers),
                    Some(_) => self.ask_all_anew(),
                    None => return pending().await,
                },
                () = self.changed.notified() => {}
                () = until(due) => {
                    let now = Instant::now();
                    told = now;
                    if now >= renewed + RENEW_EVERY {
                        renewed = now;
                        self.renew();
                    }
                    self.ask_anew();
                }
                () = sleep_until(next_tick), if !subscribers.is_empty() => {
                    subscribers.pass_on(active, self.feed.as_ref());
                    next_tick = Instant::now() + TICK;
                }
            }
        }
    }

    /// Returns when others are to be told what is followed here.
    fn due(&self, told: Instant, renewed: Instant) -> Option<Instant> {
        let followed = self.lock();
        let renewal = (!followed.runs.is_empty()).then(|| renewed + RENEW_EVERY);
        let anew = (!followed.anew.is_empty()).then(|| told + TICK);
        anew.into_iter().chain(renewal).min()
    }

    /// Takes in what came.
    fn hear(&self, text: &str, subscribers: &mut Subscribers) {
        match Message::read(text) {
            Ok(Message::Wants { reader, runs, anew }) => subscribers.note(&reader, runs, anew),
            Ok(Message::Pieces { pieces }) => self.deliver(pieces),
            // A later version may say what this one does not know.
            Err(error) => tracing::debug!(%error, "what came of another process is not understood"),
        }
    }

    /// Gives pieces to those who follow their runs here. Whoever takes nothing misses them, and notices.
    fn deliver(&self, pieces: Vec<Piece>) {
        let followed = self.lock();
        for piece in pieces {
            let Some(followers) = followed.runs.get(&piece.event.run_id) else {
                continue;
            };
            let piece = Arc::new(piece);
            for follower in followers {
                // Full, or just about to go.
                let _ = follower.pieces.try_send(Arc::clone(&piece));
            }
        }
    }

    fn renew(&self) {
        let runs: Vec<RunId> = self.lock().runs.keys().copied().collect();
        self.tell_wants(&runs, false);
    }

    fn ask_anew(&self) {
        let runs: Vec<RunId> = self.lock().anew.drain().collect();
        self.tell_wants(&runs, true);
    }

    fn ask_all_anew(&self) {
        let mut followed = self.lock();
        let Followed { runs, anew, .. } = &mut *followed;
        anew.extend(runs.keys().copied());
        drop(followed);
        self.changed.notify_one();
    }

    fn tell_wants(&self, runs: &[RunId], anew: bool) {
        for message in wants(self.feed.address(), runs, anew, self.feed.max_message()) {
            if let Err(error) = self.feed.send(LiveRecipient::Everyone, message) {
                // It is said again when it is renewed.
                tracing::debug!(%error, "nobody was told which runs are followed here");
            }
        }
    }

    /// Tells whether anybody here follows a run of another process.
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
