//! What may be wrong with a schema for answers, and why a run has no answer that fits one.

use neuraxis_core::{FinishReason, UnboundedSchema};
use serde::{Serialize, Serializer};

/// Why a JSON Schema cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerSchemaError {
    /// It is too large to be sent with every request.
    #[error("the schema has {bytes} bytes, more than {most}: it is sent with every request")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most there may be.
        most: usize,
    },
    /// It is not JSON.
    #[error("the schema is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, and no JSON Schema.
    #[error("the schema is not a JSON Schema: {0}")]
    NotSchema(String),
    /// Checking an answer against it has no bound.
    #[error("the schema {0}")]
    Unbounded(UnboundedSchema),
    /// It describes something else than an object. Providers and tools take nothing else.
    #[error(
        "the schema has to be that of an object, with \"type\": \"object\" at its top: put what you want into a field of one"
    )]
    NotObject,
    /// It cannot have this name.
    #[error("a schema cannot be named {0:?}: take 1 to 64 letters, digits, _ and -")]
    Name(String),
}

/// Why a run has no answer that fits the schema. What the model said is in the reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The run waits, for a person or for a client's tools, and has not come to an answer.
    #[error("the run waits and has no answer yet")]
    Waiting,
    /// The model refused, or its provider withheld what it said.
    #[error("the model refused to answer, or its provider withheld the answer")]
    Refused,
    /// The run ended otherwise than with an answer: at a limit, cut off, with a question, cancelled or failed.
    #[error("the run ended before it came to a valid answer: {0}")]
    StoppedEarly(FinishReason),
    /// The last answer is not JSON.
    #[error("the answer is not JSON: {0}")]
    NotJson(String),
    /// The last answer is JSON that does not fit: where, and why not.
    #[error("the answer does not fit the schema: {0}")]
    NotSchema(String),
}

impl AnswerFault {
    /// Says why a run that ended so has no answer, where its text was read with such a result.
    pub(super) fn of(reason: &FinishReason, found: Option<Self>) -> Self {
        match (reason, found) {
            (FinishReason::ContentFilter | FinishReason::Refused, _) => Self::Refused,
            (FinishReason::Stop | FinishReason::InvalidAnswer(_), Some(fault)) => fault,
            (reason, _) => Self::StoppedEarly(reason.clone()),
        }
    }
}

/// Written as its text.
impl Serialize for AnswerFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
