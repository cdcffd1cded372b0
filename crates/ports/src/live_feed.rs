//! The port through which live events of a run reach listeners in processes other than the one that drives it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

/// Sends short messages between the processes of a fleet, without storing them.
///
/// The messages are live events and requests for them; neither a run nor its followers depend on them. So a message may
/// be lost, is received only by processes that listen at that moment, and need not arrive at all while the transport is
/// down.
///
/// **Order.** Messages from one feed to one recipient arrive in the order in which they were sent. The same text sent
/// twice may arrive once.
///
/// **Retries.** None. A recipient that missed something is notified if that is known ([`LiveNews::Missed`]), and asks
/// again.
pub trait LiveFeed: fmt::Debug + Send + Sync + 'static {
    /// Returns the unique address of this process, which [addresses messages to it alone](LiveRecipient::One).
    fn address(&self) -> &str;

    /// Returns the maximum length of a message, in bytes of UTF-8; at least 1,024.
    fn max_message(&self) -> usize;

    /// Sends a message, which must not contain U+0000. Never waits: the message is put into a bounded queue.
    ///
    /// # Errors
    ///
    /// [`LiveFeedError::TooLong`]; [`LiveFeedError::Full`] if too many messages are waiting to be sent. In both cases
    /// nothing is sent.
    fn send(&self, to: LiveRecipient<'_>, message: String) -> Result<(), LiveFeedError>;

    /// Starts listening, and connects in the background if needed. Requires a tokio runtime. Each inbox receives every
    /// message.
    fn join(&self) -> Box<dyn LiveInbox>;
}

/// Receives the messages that reach one process.
#[async_trait]
pub trait LiveInbox: fmt::Debug + Send {
    /// Returns the next message; `None` once no more will come. An inbox that is read too slowly misses messages, and
    /// does not hold up the feed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no message.
    async fn next(&mut self) -> Option<LiveNews>;
}

/// The recipient of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveRecipient<'a> {
    /// Every process that listens, the sender included.
    Everyone,
    /// The process at this [address](LiveFeed::address).
    One(&'a str),
}

/// What an inbox receives.
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
    /// The message is longer than allowed.
    #[error("the message has {length} bytes; the limit is {most}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The maximum length in bytes.
        most: usize,
    },
    /// The transport is down, or slower than messages arrive.
    #[error("too many messages are waiting to be sent")]
    Full,
}
