//! Live events of runs as notifications of a Postgres server (`LISTEN`, `NOTIFY`), which stores nothing.
//!
//! One dedicated connection sends and listens. A listener that is disconnected while an event is sent never receives
//! it.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuraxis_ports::{LiveFeed, LiveFeedError, LiveInbox, LiveNews, LiveRecipient, async_trait};
use sqlx::postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions};
use sqlx::{Error, PgConnection};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::database::Database;
use crate::store::SqlStore;

/// The channel for messages to all processes. A single process's channel adds its address.
const EVERYONE: &str = "neuraxis_live";

/// The maximum length of a message in bytes: Postgres accepts less than 8,000.
const MAX_MESSAGE: usize = 7_900;

/// The maximum number of messages waiting to be sent; more are refused.
const QUEUE: usize = 64;

/// The maximum number of unread messages in an inbox.
const INBOX_SIZE: usize = 256;

/// How long the connection may be silent before it is tested.
const QUIET: Duration = Duration::from_secs(30);

/// The pause before reconnecting, doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Sends messages, each to its channel, in one transaction.
const SEND: &str = "SELECT pg_notify(channel, message) FROM unnest($1::text[], $2::text[]) AS sent (channel, message)";

/// Passes live events between processes that share a database of a Postgres server. Created by [`SqlStore::live_feed`].
///
/// It connects on the first [`join`](LiveFeed::join), with a connection of its own that stays open until the feed is
/// dropped. After the server was unavailable it reconnects, with growing pauses. A pooler in between must pool
/// sessions, not transactions.
pub struct PostgresLiveFeed {
    address: String,
    outgoing: mpsc::Sender<Outgoing>,
    inboxes: broadcast::Sender<LiveNews>,
    /// The task, until the first `join` starts it.
    task: Mutex<Option<Task>>,
}

#[derive(Debug)]
struct Outgoing {
    channel: String,
    message: String,
}

impl SqlStore {
    /// Creates a feed for live events between the processes that share the database; `None` for a SQLite file. It does
    /// not connect yet.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use neuraxis_sql::{SqlConfig, SqlStore};
    ///
    /// # async fn example() -> Result<(), neuraxis_sql::OpenError> {
    /// let store = SqlStore::open(&SqlConfig::new("postgres://me@db.internal/app")).await?;
    /// let feed = store.live_feed().map(Arc::new);
    /// assert!(feed.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn live_feed(&self) -> Option<PostgresLiveFeed> {
        PostgresLiveFeed::of(self.database())
    }
}

impl PostgresLiveFeed {
    fn of(database: &Database) -> Option<Self> {
        let address = Uuid::new_v4().simple().to_string();
        let (outgoing, to_send) = mpsc::channel(QUEUE);
        let inboxes = broadcast::Sender::new(INBOX_SIZE);
        let task = Task {
            place: database.place.clone(),
            options: database.postgres()?,
            patience: database.patience(),
            own_channel: channel_of(&address)?,
            to_send,
            inboxes: inboxes.clone(),
        };
        Some(Self {
            address,
            outgoing,
            inboxes,
            task: Mutex::new(Some(task)),
        })
    }
}

impl fmt::Debug for PostgresLiveFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLiveFeed")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl LiveFeed for PostgresLiveFeed {
    fn address(&self) -> &str {
        &self.address
    }

    fn max_message(&self) -> usize {
        MAX_MESSAGE
    }

    fn send(&self, to: LiveRecipient<'_>, message: String) -> Result<(), LiveFeedError> {
        let (length, most) = (message.len(), MAX_MESSAGE);
        if length > most {
            return Err(LiveFeedError::TooLong { length, most });
        }
        let channel = match to {
            LiveRecipient::Everyone => Some(EVERYONE.to_owned()),
            LiveRecipient::One(address) => channel_of(address),
        };
        // An address of any other form belongs to no process.
        let Some(channel) = channel else {
            return Ok(());
        };
        let sent = self.outgoing.try_send(Outgoing { channel, message });
        sent.map_err(|_| LiveFeedError::Full)
    }

    fn join(&self) -> Box<dyn LiveInbox> {
        let inbox = Inbox(self.inboxes.subscribe());
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            tokio::spawn(task.work());
        }
        Box::new(inbox)
    }
}

/// Turns off `synchronous_commit`: notifications are lost with the server anyway.
async fn turn_off_synchronous_commit(connection: &mut PgConnection) -> Result<(), Error> {
    let set = sqlx::raw_sql("SET synchronous_commit = off");
    set.execute(connection).await.map(drop)
}

/// Returns the channel of an address; `None` if the address is invalid.
fn channel_of(address: &str) -> Option<String> {
    let is_one = address.len() == 32 && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| format!("{EVERYONE}_{address}"))
}

#[derive(Debug)]
struct Inbox(broadcast::Receiver<LiveNews>);

#[async_trait]
impl LiveInbox for Inbox {
    async fn next(&mut self) -> Option<LiveNews> {
        match self.0.recv().await {
            Ok(news) => Some(news),
            Err(RecvError::Lagged(_)) => Some(LiveNews::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Sends and listens until every sender is gone.
struct Task {
    place: String,
    options: PgConnectOptions,
    patience: Duration,
    /// The channel for messages to this process.
    own_channel: String,
    to_send: mpsc::Receiver<Outgoing>,
    inboxes: broadcast::Sender<LiveNews>,
}

impl Task {
    async fn work(mut self) {
        let mut pause = FIRST_PAUSE;
        while !self.to_send.is_closed() {
            match self.connect().await {
                Ok(listener) => {
                    pause = FIRST_PAUSE;
                    // Drop what was not sent in time: it is requested again.
                    while self.to_send.try_recv().is_ok() {}
                    self.deliver(LiveNews::Missed);
                    match self.serve(listener).await {
                        Ok(()) => return,
                        Err(error) => self.note(&error),
                    }
                }
                Err(error) => self.note(&error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn connect(&self) -> Result<PgListener, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(self.patience)
            .after_connect(|connection, _| Box::pin(turn_off_synchronous_commit(connection)))
            .connect_lazy_with(self.options.clone());
        let connecting = async {
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.eager_reconnect(false);
            listener
                .listen_all([EVERYONE, self.own_channel.as_str()])
                .await?;
            Ok(listener)
        };
        self.in_time(connecting).await
    }

    /// Sends and listens over one connection until it is lost; returns `Ok` once every sender is gone.
    async fn serve(&mut self, mut listener: PgListener) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(QUEUE);
        loop {
            tokio::select! {
                count = self.to_send.recv_many(&mut batch, QUEUE) => {
                    if count == 0 {
                        return Ok(());
                    }
                    self.send(&mut listener, &mut batch).await?;
                }
                received = listener.try_recv() => match received? {
                    Some(notification) => self.deliver_notification(&notification),
                    None => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
                },
                () = sleep(QUIET) => {
                    let test = sqlx::query("SELECT 1").execute(&mut listener);
                    self.in_time(test).await?;
                }
            }
        }
    }

    async fn send(
        &self,
        listener: &mut PgListener,
        batch: &mut Vec<Outgoing>,
    ) -> Result<(), Error> {
        let batch = batch.drain(..).map(|sent| (sent.channel, sent.message));
        let (channels, messages): (Vec<String>, Vec<String>) = batch.unzip();
        let sent = sqlx::query(SEND)
            .bind(channels)
            .bind(messages)
            .execute(listener);
        self.in_time(sent).await.map(drop)
    }

    async fn in_time<T>(&self, query: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let answered = timeout(self.patience, query).await;
        answered.map_err(|_| Error::PoolTimedOut)?
    }

    fn deliver_notification(&self, notified: &PgNotification) {
        self.deliver(LiveNews::Message(Arc::from(notified.payload())));
    }

    fn deliver(&self, news: LiveNews) {
        // Without listeners the news is dropped.
        let _ = self.inboxes.send(news);
    }

    fn note(&self, error: &Error) {
        let place = &self.place;
        tracing::debug!(%error, "live events from {place} are unavailable for now");
    }
}
