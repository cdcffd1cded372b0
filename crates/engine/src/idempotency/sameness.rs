//! Whether a request says what the one said that began the run.

use std::fmt;
use std::sync::Arc;

use neuraxis_core::log::RunView;
use neuraxis_core::{Message, Record, RecordBody};

use crate::request::{RequestError, UserRequest};

/// A part of a request that a repetition has to say again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestPart {
    /// What the user says.
    Message,
    /// How much freedom the request has.
    Mode,
    /// Where it comes from.
    Channel,
}

impl RequestPart {
    /// Returns the part's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Mode => "mode",
            Self::Channel => "channel",
        }
    }
}

/// In which parts a request differs from the one that used its key before. What they said is not repeated.
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
        write!(f, "{} differs", names.join(" and "))
    }
}

/// How records came to be known.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    /// As they were made.
    Whole,
    /// As the data policy of their run lets them be stored.
    UnderPolicy,
}

/// Makes sure that a request says what the one said that began the run.
pub(super) fn check(
    request: &UserRequest,
    records: &[Arc<Record>],
    kept: Kept,
) -> Result<(), RequestError> {
    let mut differences = Vec::new();
    if let Some(RecordBody::RunStarted(started)) = records.first().map(|first| &first.body) {
        let said = Arc::new(Message::user(request.message.as_str()));
        let said = match kept {
            Kept::Whole => said,
            Kept::UnderPolicy => said.withheld(started.spec.data_policy()),
        };
        if started.spec.messages.last() != Some(&said) {
            differences.push(RequestPart::Message);
        }
    }
    let view = RunView::of(records.get(..2).unwrap_or(records));
    if let Some(decision) = view.decision() {
        if decision.mode != request.mode {
            differences.push(RequestPart::Mode);
        }
        if decision.channel != request.channel {
            differences.push(RequestPart::Channel);
        }
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(RequestError::KeyReused(Differences(differences))),
    }
}
