//! Live events between engines of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_ports::{LiveFeed, LiveFeedError, LiveInbox, LiveNews, LiveRecipient, async_trait};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// The maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 16 * 1024;

/// The maximum number of unread messages in an inbox.
const INBOX_SIZE: usize = 256;

/// Passes messages between engines of one process as if each ran in a process of its own.
///
/// ```
/// use neuraxis_memory::MemoryLiveFeed;
/// use neuraxis_ports::{LiveFeed, LiveNews, LiveRecipient};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), neuraxis_ports::LiveFeedError> {
/// let one = MemoryLiveFeed::new();
/// let other = one.sibling();
/// let mut inbox = other.join();
/// one.send(LiveRecipient::One(other.address()), "hello".to_owned())?;
/// assert_eq!(inbox.next().await, Some(LiveNews::Message("hello".into())));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryLiveFeed {
    address: String,
    shared: Arc<Mutex<Members>>,
    inboxes: broadcast::Sender<LiveNews>,
}

/// All feeds that receive each other's messages.
#[derive(Debug, Default)]
struct Members {
    inboxes: HashMap<String, broadcast::Sender<LiveNews>>,
    /// How many feeds have ever joined; used for their addresses.
    joined: u64,
}

impl MemoryLiveFeed {
    /// Creates a feed that receives only its own messages and those of [others](Self::sibling) created from it.
    #[must_use]
    pub fn new() -> Self {
        Self::with_shared(Arc::default())
    }

    /// Creates another feed with its own address. The two receive each other's messages.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self::with_shared(Arc::clone(&self.shared))
    }

    fn with_shared(shared: Arc<Mutex<Members>>) -> Self {
        let inboxes = broadcast::Sender::new(INBOX_SIZE);
        let mut members = locked(&shared);
        members.joined += 1;
        let address = format!("memory-{}", members.joined);
        members.inboxes.insert(address.clone(), inboxes.clone());
        drop(members);
        Self {
            address,
            shared,
            inboxes,
        }
    }
}

impl Default for MemoryLiveFeed {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for MemoryLiveFeed {
    fn drop(&mut self) {
        locked(&self.shared).inboxes.remove(&self.address);
    }
}

impl LiveFeed for MemoryLiveFeed {
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
        let news = LiveNews::Message(message.into());
        // A message without listeners is dropped.
        let pass = |inboxes: &broadcast::Sender<LiveNews>| drop(inboxes.send(news.clone()));
        let members = locked(&self.shared);
        match to {
            LiveRecipient::Everyone => members.inboxes.values().for_each(pass),
            LiveRecipient::One(address) => members.inboxes.get(address).into_iter().for_each(pass),
        }
        Ok(())
    }

    fn join(&self) -> Box<dyn LiveInbox> {
        Box::new(Inbox(self.inboxes.subscribe()))
    }
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

fn locked(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}
