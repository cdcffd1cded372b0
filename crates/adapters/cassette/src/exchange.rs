//! A recorded call: the request, what came back, and when.

use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    LlmError, MediaPart, MediaSource, Message, ModelRef, ModelRequest, Part, Reply, ReplyDelta,
    Role,
};
use serde::{Deserialize, Serialize};

/// The content of a cassette's first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) recorded_at: Timestamp,
    pub(crate) recorded_by: String,
    pub(crate) not_captured: Vec<String>,
}

/// A recorded call of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exchange {
    /// Its number, from 1, in the order in which the calls began.
    pub(crate) number: u32,
    /// The line of the file where it begins.
    pub(crate) line: usize,
    pub(crate) role: Role,
    /// The model that was called.
    pub(crate) model: ModelRef,
    /// Its context size in tokens, if it was known then: requests depend on it.
    pub(crate) context_tokens: Option<u64>,
    pub(crate) mode: Mode,
    /// When the call began, in milliseconds since the recording started.
    pub(crate) started_ms: u64,
    pub(crate) request: ModelRequest,
    /// What came back, with milliseconds since the call began.
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) ended_ms: u64,
    pub(crate) ended: Ended,
}

/// How the reply was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Whole, by `respond`.
    Whole,
    /// Streamed, by `stream_respond`.
    Streamed,
}

/// Something that came back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// `stream_respond` returned a stream.
    Open,
    /// The stream returned a piece.
    Delta(ReplyDelta),
    /// `respond` returned a reply.
    Reply(Reply),
    /// `respond` or the stream failed.
    Error(LlmError),
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// The client had nothing more to return.
    Ended,
    /// Its caller gave up before that.
    Abandoned,
}

/// Returns the contents of the media embedded in a message, in base64.
pub(crate) fn contents(message: &Message) -> impl Iterator<Item = &Arc<str>> {
    let (parts, media): (&[Part], &[MediaPart]) = match message {
        Message::System { .. } => (&[], &[]),
        Message::User { parts } => (parts.as_slice(), &[]),
        Message::Assistant(message) => (message.parts.as_slice(), &[]),
        Message::Tool(result) => (&[], result.media.as_slice()),
    };
    let parts = parts.iter().filter_map(|part| match part {
        Part::Media(media) => Some(media),
        _ => None,
    });
    parts.chain(media).filter_map(|media| match &media.source {
        MediaSource::Base64(content) => Some(content),
        MediaSource::Url(_) => None,
    })
}
