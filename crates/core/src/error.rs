//! Errors exchanged between the machine and the driver, and how an error is formatted with its causes.

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::ids::{AgentId, EffectId, Seq, ToolCallId};
use crate::usage::Usage;

/// Why a model call produced no usable reply. Plain data, because it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{kind}: {message}")]
#[non_exhaustive]
pub struct LlmError {
    /// What went wrong, in a form that code can act on.
    #[serde(flatten)]
    pub kind: LlmErrorKind,
    /// What went wrong, for humans; never contains a secret.
    pub message: String,
    /// The tokens used before the failure, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// Whether there is no connection because the server's certificate was refused. Not recorded: only who configures
    /// the connection can do something about it.
    #[serde(skip)]
    pub is_certificate_refused: bool,
}

/// The causes of an [`LlmError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LlmErrorKind {
    /// Nothing arrived in time.
    #[error("the model did not answer in time")]
    Timeout,
    /// The response violates the protocol or cannot be parsed.
    #[error("the model server gave an invalid response")]
    InvalidResponse,
    /// The server cannot be reached, or the connection broke.
    #[error("no connection to the model server")]
    Connection,
    /// The server failed.
    #[error("the model server failed{}", status.map(|status| format!(" with status {status}")).unwrap_or_default())]
    Server {
        /// The HTTP status, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// How long the server asks the client to wait.
        #[serde(
            default,
            rename = "retry_after_ms",
            skip_serializing_if = "Option::is_none",
            with = "duration::optional_millis"
        )]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        retry_after: Option<Duration>,
    },
    /// The server is still loading its model.
    #[error("the model is still loading")]
    Loading,
    /// Too many requests or tokens.
    #[error("the provider's rate limit is reached")]
    RateLimited {
        /// How long the provider asks the client to wait.
        #[serde(
            default,
            rename = "retry_after_ms",
            skip_serializing_if = "Option::is_none",
            with = "duration::optional_millis"
        )]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        retry_after: Option<Duration>,
    },
    /// The key is missing or wrong, or does not permit this.
    #[error("the provider refuses the key")]
    Unauthorized,
    /// No money or quota is left.
    #[error("the provider's quota is used up")]
    QuotaExhausted,
    /// The provider has no such model.
    #[error("the provider has no such model")]
    ModelNotFound,
    /// The conversation does not fit the model.
    #[error("the conversation does not fit the model's context")]
    ContextOverflow {
        /// The context size, in tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
        /// The number of tokens the request needed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needed: Option<u64>,
    },
    /// The provider refuses the content.
    #[error("the provider refuses the content")]
    ContentFiltered,
    /// The reply was cut off in transit: its calls must not run.
    #[error("the reply was cut off")]
    Incomplete,
    /// The provider does not accept the request.
    #[error("the provider refuses the request")]
    BadRequest,
    /// A recording replaces the provider, and contains no such request.
    #[error("the recording has no answer to this request")]
    NotRecorded,
    /// The call was cancelled on our side.
    #[error("the call was cancelled")]
    Cancelled,
}

impl LlmErrorKind {
    /// Returns whether the provider may have used tokens for a call that failed this way without reporting how many.
    #[must_use]
    pub const fn may_have_used_tokens(&self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::InvalidResponse
                | Self::Server { .. }
                | Self::ContentFiltered
                | Self::Incomplete
                | Self::Cancelled
        )
    }

    /// Returns the kind for a server that failed and did not say when to retry.
    #[must_use]
    pub const fn server(status: Option<u16>) -> Self {
        Self::Server {
            status,
            retry_after: None,
        }
    }
}

impl LlmError {
    /// Creates an error with unknown usage.
    pub fn new(kind: LlmErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            usage: None,
            is_certificate_refused: false,
        }
    }

    /// Says that there is no connection because the server's certificate was refused.
    #[must_use]
    pub const fn with_refused_certificate(mut self) -> Self {
        self.is_certificate_refused = true;
        self
    }

    /// Adds the tokens used before the failure.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(Box::new(usage));
        self
    }

    /// Returns the tokens used before the failure: unknown if the provider may have used some without a reported count,
    /// and none if it used none.
    pub(crate) fn used(&self) -> Option<Usage> {
        let unknown = self.kind.may_have_used_tokens();
        let reported = self.usage.as_deref().copied();
        reported.or(unknown.then_some(Usage::UNKNOWN))
    }

    /// Returns how long the server asks to wait before the next attempt.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            LlmErrorKind::RateLimited { retry_after }
            | LlmErrorKind::Server { retry_after, .. } => retry_after,
            _ => None,
        }
    }

    /// Returns whether the same request may succeed when it is repeated.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self.kind {
            LlmErrorKind::Timeout
            | LlmErrorKind::InvalidResponse
            | LlmErrorKind::Connection
            | LlmErrorKind::Server { .. }
            | LlmErrorKind::Loading
            | LlmErrorKind::RateLimited { .. }
            | LlmErrorKind::Incomplete => true,
            LlmErrorKind::Unauthorized
            | LlmErrorKind::QuotaExhausted
            | LlmErrorKind::ModelNotFound
            | LlmErrorKind::ContextOverflow { .. }
            | LlmErrorKind::ContentFiltered
            | LlmErrorKind::BadRequest
            | LlmErrorKind::NotRecorded
            | LlmErrorKind::Cancelled => false,
        }
    }
}

/// An input that the machine cannot accept. The machine is unchanged, except after
/// [`Inconsistent`](Self::Inconsistent).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input answers an effect that was never requested.
    #[error("effect {0} was never requested")]
    UnknownEffect(EffectId),
    /// The input answers an effect with the wrong kind of answer.
    #[error("effect {effect} cannot be answered by {input}")]
    WrongAnswer {
        /// The effect.
        effect: EffectId,
        /// The kind of input.
        input: &'static str,
    },
    /// The number of verdicts does not match the calls they judge.
    #[error("effect {effect} asked about {asked} calls and got {answered} verdicts")]
    VerdictCount {
        /// The effect.
        effect: EffectId,
        /// Calls asked about.
        asked: usize,
        /// Verdicts given.
        answered: usize,
    },
    /// No call with this id waits for approval or for its client.
    #[error("call {0} is not waiting for this")]
    NotWaiting(ToolCallId),
    /// The approval was given for arguments other than the call's current ones.
    #[error("the approval of call {0} was given for other arguments")]
    ApprovalMismatch(ToolCallId),
    /// A steering message is not a user message.
    #[error("only a user message can steer a run")]
    NotFromUser,
    /// No agent of this run that is still at work has this id.
    #[error("no agent {0} is running")]
    NoSuchAgent(AgentId),
    /// The hook's advice does not apply at this point of the loop.
    #[error("effect {0} cannot be answered by this advice")]
    WrongAdvice(EffectId),
    /// The run has ended.
    #[error("the run has ended")]
    RunEnded,
    /// The clock of active time went backwards.
    #[error("active time went backwards")]
    TimeReversed,
    /// The run's state contradicts itself, which only a defect can cause. The run may have changed: restore it from its
    /// records, or abandon it.
    #[error("the state of the run contradicts itself: {0}")]
    Inconsistent(&'static str),
}

/// Why a run cannot be rebuilt from a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// There are no records, or the first is not `run_started`.
    #[error("the log does not begin with run_started")]
    NoStart,
    /// The log was written by a loop version with other rules.
    #[error("the log has loop version {found}, this is version {ours}")]
    OtherVersion {
        /// The log's version.
        found: u32,
        /// This code's version.
        ours: u32,
    },
    /// The log is incomplete because its data policy withheld something.
    #[error("the log cannot be replayed: its data policy keeps {0} out of it")]
    Withheld(&'static str),
    /// The given history is not the one the run began with.
    #[error("the history is not the one the run began with")]
    OtherHistory,
    /// Replaying produces a record that differs from the log.
    #[error("replaying gives a different record {seq}: expected {expected}, found {found}")]
    Diverged {
        /// The first record that differs.
        seq: Seq,
        /// The record that replaying produces, as JSON, or "nothing".
        expected: String,
        /// The record in the log, as JSON, or "nothing".
        found: String,
    },
    /// A record that should be the cause of a step is not a cause.
    #[error("record {0} should begin a step, but causes none")]
    NoCause(Seq),
    /// The machine refuses a recorded cause.
    #[error("record {seq} is refused: {source}")]
    Refused {
        /// The record of the cause.
        seq: Seq,
        /// Why the machine refuses it.
        source: InputError,
    },
}

/// Formats an error on one line with its chain of causes, each only once: most errors do not mention their source
/// themselves.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let message = source.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = source.source();
    }
    text
}
