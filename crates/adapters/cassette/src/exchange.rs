//! One recorded call: what was asked, what came back, and when.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{LlmError, ModelRef, ModelRequest, Reply, ReplyDelta, Role};
use serde::{Deserialize, Serialize};

/// What a cassette says of itself in its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) recorded_at: Timestamp,
    pub(crate) recorded_by: String,
    pub(crate) not_captured: Vec<String>,
}

/// One recorded call of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exchange {
    /// Its number, from 1, in the order in which the calls began.
    pub(crate) number: u32,
    /// The line of the file that it begins at.
    pub(crate) line: usize,
    pub(crate) role: Role,
    /// The model that was asked.
    pub(crate) model: ModelRef,
    /// Its context size in tokens, as far as it was known then: what it was asked depends on it.
    pub(crate) context_tokens: Option<u64>,
    pub(crate) mode: Mode,
    /// When the call began, in milliseconds of the recording.
    pub(crate) started_ms: u64,
    pub(crate) request: ModelRequest,
    /// What came, each with its milliseconds since the call began.
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) ended_ms: u64,
    pub(crate) ended: Ended,
}

/// How the reply was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// At once, by `respond`.
    Whole,
    /// In pieces, by `stream_respond`.
    Streamed,
}

/// Something that came back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// `stream_respond` gave a stream.
    Open,
    /// The stream gave a piece.
    Delta(ReplyDelta),
    /// `respond` gave a reply.
    Reply(Reply),
    /// `respond` or the stream failed.
    Error(LlmError),
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// The client had no more to say.
    Ended,
    /// Its caller gave up before that.
    Abandoned,
}
