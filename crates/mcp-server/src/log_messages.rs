//! Log messages for clients that ask for them: problems that occur in a run without ending it.
//!
//! Clients of an era with sessions set the minimum level once; those of 2026-07-28 set it with each call. A client that
//! sets no level receives no messages.
#![expect(
    deprecated,
    reason = "the newest revision deprecates log messages, but most clients still use them"
)]

use std::sync::atomic::{AtomicU8, Ordering};

use neuraxis_core::RecordBody;
use neuraxis_engine::Event;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{Peer, RoleServer};

use crate::shown::one_line;

/// The logger that the messages name.
const LOGGER: &str = "neuraxis";

/// Represents a client that never set a level.
const NEVER_ASKED: u8 = u8::MAX;

/// The minimum level of messages that a client wants.
#[derive(Debug)]
pub(crate) struct WantedLevel(AtomicU8);

impl Default for WantedLevel {
    fn default() -> Self {
        Self(AtomicU8::new(NEVER_ASKED))
    }
}

impl WantedLevel {
    /// Stores the level that a client asks for.
    pub(crate) fn set(&self, level: LoggingLevel) {
        self.0.store(rank(level), Ordering::Relaxed);
    }

    /// Returns the destination of a call's warnings: none, if the client wants none. A level given with the call takes
    /// precedence over the one set earlier.
    pub(crate) fn messages(
        &self,
        peer: &Peer<RoleServer>,
        of_call: Option<LoggingLevel>,
    ) -> LogMessages {
        let least = of_call.map_or_else(|| self.0.load(Ordering::Relaxed), rank);
        let is_wanted = least <= rank(LoggingLevel::Warning);
        LogMessages(is_wanted.then(|| peer.clone()))
    }
}

/// The destination of one call's warnings.
#[derive(Debug)]
pub(crate) struct LogMessages(Option<Peer<RoleServer>>);

impl LogMessages {
    /// Passes a warning on. A client that has disconnected receives nothing more.
    pub(crate) async fn forward(&mut self, event: &Event) {
        let (Some(peer), Event::Record(record)) = (&self.0, event) else {
            return;
        };
        let RecordBody::Warning(warning) = &record.body else {
            return;
        };
        let data = one_line(&warning.message).into();
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Warning, data);
        let sent = peer
            .notify_logging_message(message.with_logger(LOGGER))
            .await;
        if sent.is_err() {
            self.0 = None;
        }
    }
}

/// Returns the severity of a level, starting at 0.
const fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
