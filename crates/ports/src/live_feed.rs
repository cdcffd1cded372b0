//! The port by which live events of a run reach listeners in other processes than the one that drives it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

/// Passes short messages between the processes of a fleet, and keeps none of them.
///
/// What travels are live events and who wants which: nothing that a run, or whoever follows it, depends on. So a message may
/// be lost, is heard by those alone who listen at that moment, and need not come at all while what carries it is away.
///
/// **Order.** What one feed sends to one recipient comes in the order in which it was sent. The same text sent twice may come
/// once.
///
/// **Who repeats.** Nobody. Whoever misses something is told so where that is known ([`LiveNews::Missed`]), and asks anew.
pub trait LiveFeed: fmt::Debug + Send + Sync + 'static {
    /// Returns the address of this process, which no other has: what is sent to it alone is sent [to it](LiveRecipient::One).
    fn address(&self) -> &str;

    /// Returns how long a message may be, in bytes of UTF-8; 1,024 at the least.
    fn max_message(&self) -> usize;

    /// Sends a message, which must not hold U+0000. Never waits: it is put into a bounded queue.
    ///
    /// # Errors
    ///
    /// [`LiveFeedError::TooLong`]; [`LiveFeedError::Full`] if too many wait to be sent. Nothing is sent then.
    fn send(&self, to: LiveRecipient<'_>, message: String) -> Result<(), LiveFeedError>;

    /// Begins to listen, and to connect if that is needed, which goes on by itself. Needs a tokio runtime. Each inbox hears
    /// everything.
    fn join(&self) -> Box<dyn LiveInbox>;
}

/// What comes to one process.
#[async_trait]
pub trait LiveInbox: fmt::Debug + Send {
    /// Returns what comes next; `None` once nothing will come any more. An inbox that is read too slowly misses messages,
    /// and holds nobody up.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no message.
    async fn next(&mut self) -> Option<LiveNews>;
}

/// Whom a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveRecipient<'a> {
    /// Every process that listens, the sender included.
    Everyone,
    /// The process at this [address](LiveFeed::address).
    One(&'a str),
}

/// What comes to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveNews {
    /// A message.
    Message(Arc<str>),
    /// Messages may have been lost before this: the connection is new, or the inbox was read too slowly.
    Missed,
}

/// Why a message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LiveFeedError {
    /// It is longer than a message may be.
    #[error("a message of {length} bytes is longer than {most}")]
    TooLong {
        /// Its bytes.
        length: usize,
        /// How many it may have.
        most: usize,
    },
    /// What carries messages is away, or slower than they come.
    #[error("too many messages wait to be sent")]
    Full,
}
