//! Records: what happened in a run, durable and numbered without gaps.
//!
//! One log serves as journal, stream, audit trail and usage record. A step of the machine is one `start` or `advance`.
//! The first record of a step is its cause, contains the whole input and carries `active_ms`. A record is one flat JSON
//! object.

mod body;
mod cause;
mod conversation;
mod kept;
mod limit;
mod model_call;
mod tool_call;
mod waiting;
mod withhold;

use std::ops::RangeInclusive;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

pub use body::{RecordBody, RunStarted, Warning};
pub use conversation::{
    ContextTrimmed, HistoryRepaired, PromptInjected, PromptReason, Span, Summarized,
};
pub use limit::{LimitKind, LimitReachedRecord, MaxTurnsPromptInjected, MaxTurnsReached};
pub use model_call::{Escalated, LlmCall, LlmFailed, RoleDowngraded};
pub use tool_call::{Origin, PlanChanged, ToolCallFailed, ToolCallStarted, ToolResult, ToolStatus};
pub use waiting::{ApprovalRequested, Pending, PendingKind, Waiting};
pub use withhold::is_withheld;

use crate::ids::{AgentId, ContentIndex, RunId, Seq, Turn};

/// The version of the rules by which the loop produces records.
pub const LOOP_VERSION: u32 = 4;

/// The versions whose rules the loop implements: a log of one of them is replayed, and continued, by the rules that it
/// was recorded under. `docs/loop-rules.md` describes the differences between versions.
pub const LOOP_VERSIONS: RangeInclusive<u32> = 1..=LOOP_VERSION;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// Its position in the run.
    pub seq: Seq,
    /// The model call or tool batch it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_index: Option<ContentIndex>,
    /// The run.
    pub run_id: RunId,
    /// The agent.
    pub agent: AgentId,
    /// The agent's turn.
    pub turn: Turn,
    /// The wall-clock time.
    pub at: Timestamp,
    /// Set on the first record of a step, its cause: the active time of the run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_ms: Option<u64>,
    /// What happened: in JSON, its fields are beside the ones above, with `type`.
    #[serde(flatten)]
    pub body: RecordBody,
}

/// The fields of every record, and its type.
#[derive(Deserialize)]
struct Envelope {
    seq: Seq,
    content_index: Option<ContentIndex>,
    run_id: RunId,
    agent: AgentId,
    turn: Turn,
    at: Timestamp,
    active_ms: Option<u64>,
    #[serde(rename = "type")]
    kind: String,
}

impl Record {
    /// Returns how the run began, if this is the first record of its log.
    #[must_use]
    pub fn run_started(&self) -> Option<&RunStarted> {
        match &self.body {
            RecordBody::RunStarted(started) => Some(started),
            _ => None,
        }
    }

    /// Returns the record as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Records consist of strings, numbers, lists and valid JSON texts: encoding one cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a record from one JSON object.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, lacks a field, or has a type unknown to this version.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        // Parses the text twice instead of buffering it as a tree, so values keep their exact bytes.
        let envelope: Envelope = serde_json::from_str(text)?;
        let body = RecordBody::from_json(&envelope.kind, text)?;
        let Envelope {
            seq,
            content_index,
            run_id,
            agent,
            turn,
            at,
            active_ms,
            kind: _,
        } = envelope;
        Ok(Self {
            seq,
            content_index,
            run_id,
            agent,
            turn,
            at,
            active_ms,
            body,
        })
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(raw.get()).map_err(de::Error::custom)
    }
}

/// Writes inputs that name an agent as part of a record. The record already names the agent, so it is written only
/// once.
mod addressed {
    use serde::{Serialize, Serializer};

    use crate::ids::AgentId;
    use crate::input::{Cancelled, Steered};

    pub(super) fn steered<S: Serializer>(
        input: &Steered,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let agent = AgentId::ROOT;
        let input = Steered {
            agent,
            ..input.clone()
        };
        input.serialize(serializer)
    }

    pub(super) fn cancelled<S: Serializer>(
        input: &Cancelled,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let agent = AgentId::ROOT;
        let input = Cancelled {
            agent,
            ..input.clone()
        };
        input.serialize(serializer)
    }
}
