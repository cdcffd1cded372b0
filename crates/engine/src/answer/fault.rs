//! Faults in schemas for answers, and why a run has no answer that fits its schema.

use neuraxis_core::{FinishReason, UnboundedSchema};
use serde::{Serialize, Serializer};

/// Why a JSON Schema cannot be used for answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerSchemaError {
    /// The schema is too large to be sent with every request.
    #[error(
        "the schema has {bytes} bytes; the limit is {most}, because it is sent with every request"
    )]
    TooLarge {
        /// The schema's size in bytes.
        bytes: usize,
        /// The maximum size in bytes.
        most: usize,
    },
    /// The schema is not JSON.
    #[error("the schema is not JSON: {0}")]
    NotJson(String),
    /// The schema is JSON, but not a JSON Schema.
    #[error("the schema is not a JSON Schema: {0}")]
    NotSchema(String),
    /// Checking an answer against it has no bound.
    #[error("the schema {0}")]
    Unbounded(UnboundedSchema),
    /// The schema does not describe an object. Providers and tools accept only objects.
    #[error(
        "the schema must describe an object, with \"type\": \"object\" at its top; to ask for anything else, put it into a field"
    )]
    NotObject,
    /// The schema cannot have this name.
    #[error("invalid schema name {0:?}: use 1 to 64 letters, digits, _ or -")]
    Name(String),
}

/// Why a run has no answer that fits the schema. The reply still holds what the model said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The run is waiting for an approval or for a client's tools, and has no answer yet.
    #[error("the run is waiting and has no answer yet")]
    Waiting,
    /// The model refused, or its provider withheld the reply.
    #[error("the model refused to answer, or its provider withheld the answer")]
    Refused,
    /// The run ended without an answer: at a limit, cut off, with a question, cancelled or failed.
    #[error("the run ended without a valid answer: {0}")]
    StoppedEarly(FinishReason),
    /// The last answer is not JSON.
    #[error("the answer is not JSON: {0}")]
    NotJson(String),
    /// The last answer is JSON that does not fit; the message says where and why.
    #[error("the answer does not fit the schema: {0}")]
    NotSchema(String),
}

impl AnswerFault {
    /// Returns why a run that ended for this reason has no answer. `found` is the result of reading its text.
    pub(super) fn of(reason: &FinishReason, found: Option<Self>) -> Self {
        match (reason, found) {
            (FinishReason::ContentFilter | FinishReason::Refused, _) => Self::Refused,
            (FinishReason::Stop | FinishReason::InvalidAnswer(_), Some(fault)) => fault,
            (reason, _) => Self::StoppedEarly(reason.clone()),
        }
    }
}

/// Serialized as its message.
impl Serialize for AnswerFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
