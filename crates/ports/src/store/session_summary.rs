//! What a list shows of a session, without reading its records.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::LogSummary;
use neuraxis_core::{RunId, RunStatus, clip};
use serde::Serialize;

use super::Session;

/// The maximum number of characters of a first message.
const MAX_FIRST_CHARS: usize = 200;

/// A session as a list shows it: with how it began, and how its last run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionSummary {
    /// The session itself, without its seed.
    #[serde(flatten)]
    pub session: Session,
    /// The beginning of the user's message of its first run, at most 200 characters; absent if there is no run yet, or
    /// no text that a data policy let into the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_message: Option<String>,
    /// Its last run; absent if there is no run yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
}

/// The last run of a session, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LastRun {
    /// The run.
    pub run_id: RunId,
    /// Whether it is in progress or waits, or how it ended.
    pub status: RunStatus,
    /// When its first record was created.
    pub started_at: Option<Timestamp>,
    /// When it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl SessionSummary {
    /// Creates the summary of a session without runs; for implementations of [`SessionStore`](super::SessionStore).
    #[must_use]
    pub const fn new(session: Session) -> Self {
        Self {
            session,
            first_message: None,
            last_run: None,
        }
    }

    /// Adds what the summary of the first run's log says.
    #[must_use]
    pub fn beginning_with(mut self, first: &LogSummary) -> Self {
        let text = first.readable_text();
        self.first_message = text.map(|text| clip(text, MAX_FIRST_CHARS));
        self
    }

    /// Adds what the summary of the last run's log says.
    #[must_use]
    pub const fn ending_with(mut self, run: RunId, last: &LogSummary) -> Self {
        self.last_run = Some(LastRun {
            run_id: run,
            status: last.status,
            started_at: last.started_at,
            ended_at: last.ended_at,
        });
        self
    }
}
