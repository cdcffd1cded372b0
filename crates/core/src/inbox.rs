//! Unsolicited inputs to a run, in a form that can be stored until the run takes them.
//!
//! Any process may put such an entry into a run's inbox and confirm it to the sender. The process that drives the run
//! takes the entry with its next step. Inputs that the driver itself produces, such as a model's reply, do not go
//! through the inbox.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::ids::{Attempt, EffectId, InputId};
use crate::input::{ApprovalDecided, Cancelled, Input, Steered, ToolFinished};
use crate::json::JsonText;
use crate::message::Message;
use crate::outcome::{ToolFailure, ToolOutcome, ToolOutput};
use crate::record::{Record, RecordBody};

/// An input for a run, waiting to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxEntry {
    /// The input's id, which identifies a repeated entry. See [`InboxInput::id`].
    pub id: InputId,
    /// The message, the decision, the result or the cancellation itself.
    pub input: InboxInput,
}

impl InboxEntry {
    /// Wraps an input under its own id.
    #[must_use]
    pub fn new(input: InboxInput) -> Self {
        Self {
            id: input.id(),
            input,
        }
    }
}

/// The inputs that an inbox may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InboxInput {
    /// A decision about a call.
    ApprovalDecided(ApprovalDecided),
    /// A message for a run in progress.
    Steered(Steered),
    /// A request to end the run.
    Cancelled(Cancelled),
    /// The result of a tool that the caller ran.
    ClientResult(ClientResult),
}

/// The result of a tool that the caller ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientResult {
    /// The effect that the run named when it began to wait.
    pub effect_id: EffectId,
    /// The attempt that ended.
    pub attempt: Attempt,
    /// The result, or the message of the failure, as JSON.
    pub value: JsonText,
    /// Why there is no value, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ToolFailure>,
    /// How long it took, as reported by the caller.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    pub duration: Duration,
    /// Who sent it, if known: a note, not proof of identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl ClientResult {
    /// Returns the id of the entry with the result of an effect's attempt. There is only one result, regardless of who
    /// sends it.
    #[must_use]
    pub fn input_id(effect_id: EffectId, attempt: Attempt) -> InputId {
        InputId::new(format!("{effect_id}.{attempt}"))
    }
}

impl From<ToolFinished> for ClientResult {
    fn from(finished: ToolFinished) -> Self {
        Self {
            effect_id: finished.effect_id,
            attempt: finished.attempt,
            value: finished.outcome.output.value,
            failure: finished.outcome.failure,
            duration: finished.duration,
            by: finished.by,
        }
    }
}

impl InboxInput {
    /// Converts an input to its inbox form; `None` if it is a kind that does not come from outside.
    #[must_use]
    pub fn of(input: Input) -> Option<Self> {
        Some(match input {
            Input::ApprovalDecided(decided) => Self::ApprovalDecided(decided),
            Input::Steered(steered) => Self::Steered(steered),
            Input::Cancelled(cancelled) => Self::Cancelled(cancelled),
            Input::ToolFinished(finished) => Self::ClientResult(finished.into()),
            _ => return None,
        })
    }

    /// Returns the id by which the record of this input refers to it.
    #[must_use]
    pub fn id(&self) -> InputId {
        match self {
            Self::ApprovalDecided(decided) => decided.id.clone(),
            Self::Steered(steered) => steered.id.clone(),
            Self::Cancelled(cancelled) => cancelled.id.clone(),
            Self::ClientResult(result) => ClientResult::input_id(result.effect_id, result.attempt),
        }
    }

    /// Returns the input for the machine.
    #[must_use]
    pub fn input(&self) -> Input {
        match self {
            Self::ApprovalDecided(decided) => Input::ApprovalDecided(decided.clone()),
            Self::Steered(steered) => Input::Steered(steered.clone()),
            Self::Cancelled(cancelled) => Input::Cancelled(cancelled.clone()),
            Self::ClientResult(result) => Input::ToolFinished(ToolFinished {
                effect_id: result.effect_id,
                attempt: result.attempt,
                outcome: ToolOutcome {
                    output: ToolOutput::new(result.value.clone()),
                    failure: result.failure,
                },
                duration: result.duration,
                by: result.by.clone(),
            }),
        }
    }

    /// Creates a user message for the agent that answers.
    pub fn steered(id: InputId, text: &str) -> Self {
        Self::Steered(Steered::new(id, Arc::new(Message::user(text))))
    }
}

impl Record {
    /// Returns the id of the inbox entry that this record took in, if any. The result of a tool that ran locally has
    /// such an id too, but no entry has it.
    #[must_use]
    pub fn inbox_id(&self) -> Option<InputId> {
        match &self.body {
            RecordBody::ApprovalDecided(decided) => Some(decided.id.clone()),
            RecordBody::Steered(steered) => Some(steered.id.clone()),
            RecordBody::Cancelled(cancelled) => Some(cancelled.id.clone()),
            RecordBody::ToolResult(result) => {
                Some(ClientResult::input_id(result.effect_id?, result.attempt?))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::RunId;

    #[test]
    fn an_entry_is_read_back_as_it_was_written() {
        let ada = Some("ada".to_owned());
        let result = InboxInput::ClientResult(ClientResult {
            by: ada.clone(),
            effect_id: EffectId {
                run: RunId(Uuid::nil()),
                number: 3,
            },
            attempt: Attempt(1),
            value: JsonText::from_text("{\"a\": 1.50}"),
            failure: None,
            duration: Duration::from_millis(7),
        });
        for input in [
            result,
            InboxInput::steered(InputId::new("s1"), "wait\0"),
            InboxInput::Cancelled(Cancelled::new(InputId::new("c1"), "enough")),
            InboxInput::Cancelled(Cancelled::new(InputId::new("c1"), "enough").by(ada)),
        ] {
            let entry = InboxEntry::new(input);
            let text = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<InboxEntry>(&text).unwrap(), entry);
        }
    }

    #[test]
    fn a_client_result_becomes_the_tool_result_of_its_effect() {
        let effect_id = EffectId {
            run: RunId(Uuid::nil()),
            number: 3,
        };
        let entry = InboxEntry::new(InboxInput::ClientResult(ClientResult {
            by: None,
            effect_id,
            attempt: Attempt(2),
            value: JsonText::from_text("7"),
            failure: None,
            duration: Duration::ZERO,
        }));
        assert_eq!(entry.id.as_str(), format!("{effect_id}.2"));
        let Input::ToolFinished(finished) = entry.input.input() else {
            panic!("a result answers a tool call")
        };
        assert_eq!((finished.effect_id, finished.attempt.0), (effect_id, 2));
        assert!(finished.outcome.is_done());
    }
}
