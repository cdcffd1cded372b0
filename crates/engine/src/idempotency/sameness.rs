//! Checks whether a request says the same as the request that started the run.

use std::fmt;

use neuraxis_core::{AgentName, Channel, ContentHash, IdempotencyKey, JsonText, Mode, Part};
use neuraxis_ports::{KeyedRequest, RunSummary, StoreError};
use serde::{Deserialize, Serialize};

use crate::request::{RequestError, UserRequest};

/// A part of a request that must be the same in a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestPart {
    /// The user's message.
    Message,
    /// The attachments.
    Attachments,
    /// How much freedom the request has.
    Mode,
    /// What kind of request it is.
    Channel,
    /// The required form of the answer.
    Answer,
    /// The agent that answers.
    Agent,
    /// What the client supplies in addition to its message.
    ClientInput,
}

impl RequestPart {
    /// Returns the part's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Attachments => "attachments",
            Self::Mode => "mode",
            Self::Channel => "channel",
            Self::Answer => "answer schema",
            Self::Agent => "agent",
            Self::ClientInput => "what the client brings",
        }
    }
}

/// The parts in which a request differs from the one that used its key before. Their content is not included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences(Vec<RequestPart>);

impl Differences {
    /// Returns the parts, at least one.
    #[must_use]
    pub fn parts(&self) -> &[RequestPart] {
        &self.0
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|part| part.name()).collect();
        let verb = if names.len() == 1 {
            "differs"
        } else {
            "differ"
        };
        write!(f, "{} {verb}", names.join(" and "))
    }
}

/// The request as it is stored with its key: enough to distinguish it from another request, but none of its text.
#[derive(Debug, Serialize, Deserialize)]
struct StoredRequest {
    message: ContentHash,
    /// `None` if nothing is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attachments: Option<ContentHash>,
    mode: Mode,
    channel: Channel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<ContentHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<AgentName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    brought: Option<ContentHash>,
}

impl StoredRequest {
    fn of(request: &UserRequest) -> Self {
        Self {
            message: ContentHash::of(request.message.as_bytes()),
            attachments: hash_of(&request.attachments),
            mode: request.mode.clone(),
            channel: request.channel.clone(),
            answer: request.answer.as_ref().map(|answer| answer.schema().hash()),
            agent: request.agent.clone(),
            brought: request.client_input.as_ref().and_then(|it| it.hash()),
        }
    }
}

fn hash_of(attachments: &[Part]) -> Option<ContentHash> {
    // Strings and numbers can always be written as JSON.
    let written = JsonText::encode(attachments).ok()?;
    (!attachments.is_empty()).then(|| ContentHash::of(written.as_str().as_bytes()))
}

/// Describes a request with its key for a store.
pub(super) fn keyed(request: &UserRequest, key: &IdempotencyKey) -> KeyedRequest {
    let key = ContentHash::of(key.as_str().as_bytes());
    // Hashes and names can always be written as JSON.
    let asked = JsonText::encode(&StoredRequest::of(request))
        .unwrap_or_else(|_| JsonText::from_text("null"));
    KeyedRequest::new(key, asked)
}

/// Checks that a request says the same as the request that started the run.
pub(super) fn check(request: &UserRequest, run: &RunSummary) -> Result<(), RequestError> {
    let asked = run.request.as_ref().map(|first| first.asked.decode());
    let Some(first) = asked else {
        return Ok(());
    };
    let unreadable = |_| {
        let run = run.run_id;
        StoreError::Damaged(format!("the request of run {run} cannot be read"))
    };
    let first: StoredRequest = first.map_err(unreadable)?;
    let now = StoredRequest::of(request);
    let parts = [
        (RequestPart::Message, first.message == now.message),
        (
            RequestPart::Attachments,
            first.attachments == now.attachments,
        ),
        (RequestPart::Mode, first.mode == now.mode),
        (RequestPart::Channel, first.channel == now.channel),
        (RequestPart::Answer, first.answer == now.answer),
        (RequestPart::Agent, first.agent == now.agent),
        (RequestPart::ClientInput, first.brought == now.brought),
    ];
    let differ: Vec<_> = parts
        .into_iter()
        .filter_map(|(part, is_same)| (!is_same).then_some(part))
        .collect();
    match differ.is_empty() {
        true => Ok(()),
        false => Err(RequestError::KeyReused(Differences(differ))),
    }
}
