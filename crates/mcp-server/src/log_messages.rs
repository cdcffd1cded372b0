//! Log messages for clients that ask for them: what goes wrong in a run and does not end it.
//!
//! Clients of an era with sessions say once how serious a message has to be, those of 2026-07-28 with each call. Whoever says
//! nothing hears nothing.
#![expect(
    deprecated,
    reason = "the newest revision is to lose log messages one day, and most clients know them"
)]

use std::sync::atomic::{AtomicU8, Ordering};

use neuraxis_core::RecordBody;
use neuraxis_engine::Event;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{Peer, RoleServer};

use crate::shown::words;

/// What the messages say that they are of.
const LOGGER: &str = "neuraxis";

/// What stands for a client that never asked.
const NEVER_ASKED: u8 = u8::MAX;

/// How serious a message has to be for a client.
#[derive(Debug)]
pub(crate) struct WantedLevel(AtomicU8);

impl Default for WantedLevel {
    fn default() -> Self {
        Self(AtomicU8::new(NEVER_ASKED))
    }
}

impl WantedLevel {
    /// Notes what a client asks for.
    pub(crate) fn set(&self, level: LoggingLevel) {
        self.0.store(rank(level), Ordering::Relaxed);
    }

    /// Returns where the warnings of a call go: nowhere, if the client does not want any. What it says with the call comes
    /// before what it said once.
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

/// Where the warnings of one call go.
#[derive(Debug)]
pub(crate) struct LogMessages(Option<Peer<RoleServer>>);

impl LogMessages {
    /// Passes a warning on. Who went away hears of nothing more.
    pub(crate) async fn hear(&mut self, event: &Event) {
        let (Some(peer), Event::Record(record)) = (&self.0, event) else {
            return;
        };
        let RecordBody::Warning(warning) = &record.body else {
            return;
        };
        let data = words(&warning.message).into();
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Warning, data);
        let told = peer
            .notify_logging_message(message.with_logger(LOGGER))
            .await;
        if told.is_err() {
            self.0 = None;
        }
    }
}

/// Returns how serious a level is, from 0 on.
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
