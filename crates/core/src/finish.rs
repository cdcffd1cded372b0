//! How a run ends.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::citations::Source;
use crate::ids::{AgentId, EffectId};
use crate::interruption::Interruption;
use crate::json::is_default;
use crate::limits::BudgetMeasure;
use crate::log::root_records;
use crate::record::{LlmFailed, Record, RecordBody};
use crate::usage::RunUsage;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It is in progress.
    Running,
    /// It waits for an approval or for tools that the client runs. Nothing runs, and its clock of active time is
    /// stopped.
    Waiting,
    /// It ended with an answer.
    Done,
    /// It ended without one.
    Failed,
    /// It was cancelled, or its process died and it cannot continue.
    Interrupted,
}

impl RunStatus {
    /// Returns the name used in records and lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns whether nothing more can happen.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Interrupted)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model finished its answer.
    Stop,
    /// The turn limit was reached; the answer is the last answer.
    MaxTurns,
    /// The model's answer reached its output limit.
    Length,
    /// The provider withheld content.
    ContentFilter,
    /// The model, or the program's own code, refused the request or the answer; the reply is its text.
    Refused,
    /// A nonexistent tool was called, and the profile says to stop.
    UnknownTool(String),
    /// A tool failed, and the profile says to stop.
    ToolError,
    /// A limit other than turns and time was reached.
    Budget(BudgetKind),
    /// The time limit was reached.
    Deadline,
    /// The answer was rejected for the last time; the string says why.
    InvalidAnswer(String),
    /// The run was cancelled.
    Cancelled,
    /// The reply is a question to the user.
    Clarify,
    /// The caller must run the calls.
    ClientTools,
    /// It could not continue; the string says why.
    Failed(String),
    /// Its process ended, and no other process can continue it; the string says why.
    Interrupted(String),
}

impl FinishReason {
    /// The names that [`name`](Self::name) can return, in the order of the variants.
    pub const NAMES: [&'static str; 15] = [
        "stop",
        "max_turns",
        "length",
        "content_filter",
        "refused",
        "unknown_tool",
        "tool_error",
        "budget",
        "deadline",
        "invalid_answer",
        "cancelled",
        "clarify",
        "client_tools",
        "failed",
        "interrupted",
    ];

    /// Returns the name used in records, without the variant's content; suitable for a label or a filter.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::MaxTurns => "max_turns",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Refused => "refused",
            Self::UnknownTool(_) => "unknown_tool",
            Self::ToolError => "tool_error",
            Self::Budget(_) => "budget",
            Self::Deadline => "deadline",
            Self::InvalidAnswer(_) => "invalid_answer",
            Self::Cancelled => "cancelled",
            Self::Clarify => "clarify",
            Self::ClientTools => "client_tools",
            Self::Failed(_) => "failed",
            Self::Interrupted(_) => "interrupted",
        }
    }

    /// Returns whether a limit ended the run, so that its answer was requested as the last answer.
    #[must_use]
    pub const fn ends_at_a_limit(&self) -> bool {
        matches!(self, Self::MaxTurns | Self::Deadline | Self::Budget(_))
    }
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop => f.write_str("stop"),
            Self::MaxTurns => f.write_str("max turns"),
            Self::Length => f.write_str("length"),
            Self::ContentFilter => f.write_str("content filter"),
            Self::Refused => f.write_str("refused"),
            Self::UnknownTool(name) => write!(f, "unknown tool {name:?}"),
            Self::ToolError => f.write_str("tool error"),
            Self::Budget(kind) => write!(f, "{kind} used up"),
            Self::Deadline => f.write_str("deadline"),
            Self::InvalidAnswer(why) => write!(f, "no valid answer: {why}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Clarify => f.write_str("a question"),
            Self::ClientTools => f.write_str("client tools"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Interrupted(why) => write!(f, "interrupted: {why}"),
        }
    }
}

// Not `#[non_exhaustive]`: code that describes limits or acts on them has to decide about a new one.
/// A limit other than turns and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Tool calls.
    ToolCalls,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// The time of a session or a day. A run's own time limit ends it as [`FinishReason::Deadline`].
    Time,
    /// Model calls, when turns did not count (loop rule 7).
    ModelCalls,
    /// The tolerance for unknown tools (loop rule 4).
    UnknownTools,
    /// The tolerance for repeating the same call (loop rule 14).
    RepeatedCalls,
    /// The maximum size of a run's log.
    Log,
}

impl BudgetKind {
    /// All of them, in the order in which an agent that reached several reports them.
    pub const ALL: [Self; 8] = [
        Self::ToolCalls,
        Self::Tokens,
        Self::Cost,
        Self::Time,
        Self::ModelCalls,
        Self::UnknownTools,
        Self::RepeatedCalls,
        Self::Log,
    ];
}

/// A run that finds a budget used up reports the limit of the same name. This is the only conversion between the two.
impl From<BudgetMeasure> for BudgetKind {
    fn from(measure: BudgetMeasure) -> Self {
        match measure {
            BudgetMeasure::Tokens => Self::Tokens,
            BudgetMeasure::Cost => Self::Cost,
            BudgetMeasure::Time => Self::Time,
            BudgetMeasure::ToolCalls => Self::ToolCalls,
        }
    }
}

impl fmt::Display for BudgetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToolCalls => "the tool calls",
            Self::Tokens => "the tokens",
            Self::Cost => "the money",
            Self::Time => "the time",
            Self::ModelCalls => "the model calls",
            Self::UnknownTools => "the patience with unknown tools",
            Self::RepeatedCalls => "the patience with the same call",
            Self::Log => "the room for the log",
        })
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunOutcome {
    /// The answer, or the part of it that exists.
    pub content: String,
    /// Whether it ended with an answer, at a limit, by cancellation or by an error.
    pub finish_reason: FinishReason,
    /// The number of turns that counted.
    pub turns: u32,
    /// Its usage, including sub-agents.
    pub usage: RunUsage,
    /// The pages that the answer cites, in the order of their numbers, if they were [checked](crate::Citations).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// How many messages arrived while the run was in progress and were never sent to a model; its history ends with
    /// them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unheard: u32,
    /// The model call whose last failed attempt ended it, if one did; absent in logs of earlier programs. See
    /// [`model_failure`](Self::model_failure).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_call: Option<EffectId>,
    /// Why it was ended without being continued, if it [was](FinishReason::Interrupted); absent in logs of earlier
    /// programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption: Option<Interruption>,
}

impl RunOutcome {
    /// Returns the failed attempt of a model call that ended the root agent with this outcome, from the records of its
    /// run; `None` if it ended for another reason.
    #[must_use]
    pub fn model_failure<'a>(&self, records: &'a [Arc<Record>]) -> Option<&'a LlmFailed> {
        let FinishReason::Failed(why) = &self.finish_reason else {
            return None;
        };
        let mut failures = root_records(records)
            .rev()
            .filter_map(|record| match &record.body {
                RecordBody::LlmFailed(failed) => Some(&**failed),
                _ => None,
            });
        match self.failed_call {
            Some(call) => failures.find(|failed| failed.effect_id == call),
            // Logs of earlier programs do not name the call. If the last failed one ended the run, its error is the
            // reason, also if a data policy replaced both texts.
            None => failures
                .next()
                .filter(|failed| failed.error.to_string() == *why),
        }
    }

    /// Returns the status of a run with this outcome.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        match self.finish_reason {
            FinishReason::Failed(_)
            | FinishReason::ToolError
            | FinishReason::UnknownTool(_)
            | FinishReason::InvalidAnswer(_) => RunStatus::Failed,
            FinishReason::Cancelled | FinishReason::Interrupted(_) => RunStatus::Interrupted,
            _ => RunStatus::Done,
        }
    }
}

/// A sub-agent that a limit ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentAtLimit {
    /// The sub-agent.
    pub agent: AgentId,
    /// Which limit: the turn limit, the time limit, or one of its budgets.
    pub reason: FinishReason,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LimitKind;

    #[test]
    fn a_limit_in_a_record_is_only_a_name_and_a_budget_has_the_same_one_there() {
        let json = |limit| serde_json::to_string(&limit).unwrap();
        for kind in BudgetKind::ALL {
            let limit = LimitKind::Budget(kind);
            assert_eq!(json(limit), serde_json::to_string(&kind).unwrap());
            assert_eq!(
                serde_json::from_str::<LimitKind>(&json(limit)).unwrap(),
                limit
            );
        }
        for (limit, name) in [
            (LimitKind::DeadlineReserve, "\"deadline_reserve\""),
            (LimitKind::Deadline, "\"deadline\""),
            (LimitKind::Budget(BudgetKind::ToolCalls), "\"tool_calls\""),
            (LimitKind::Budget(BudgetKind::Log), "\"log\""),
        ] {
            assert_eq!(json(limit), name);
            assert_eq!(serde_json::from_str::<LimitKind>(name).unwrap(), limit);
        }
        assert!(serde_json::from_str::<LimitKind>("\"other\"").is_err());
    }

    #[test]
    fn every_budget_is_listed_once() {
        let unknown = serde_json::from_str::<BudgetKind>("\"other\"").unwrap_err();
        let name = |kind| serde_json::to_string(&kind).unwrap().replace('"', "`");
        let listed = BudgetKind::ALL.map(name).join(", ");
        let expected = format!("unknown variant `other`, expected one of {listed} at ");
        assert!(unknown.to_string().starts_with(&expected), "{unknown}");
    }

    #[test]
    fn a_finish_reason_has_the_same_name_as_in_records() {
        let text = || "x".to_owned();
        let reasons = [
            FinishReason::Stop,
            FinishReason::MaxTurns,
            FinishReason::Length,
            FinishReason::ContentFilter,
            FinishReason::Refused,
            FinishReason::UnknownTool(text()),
            FinishReason::ToolError,
            FinishReason::Budget(BudgetKind::Cost),
            FinishReason::Deadline,
            FinishReason::InvalidAnswer(text()),
            FinishReason::Cancelled,
            FinishReason::Clarify,
            FinishReason::ClientTools,
            FinishReason::Failed(text()),
            FinishReason::Interrupted(text()),
        ];
        for (reason, expected) in reasons.iter().zip(FinishReason::NAMES) {
            let written = serde_json::to_value(reason).unwrap();
            let object = written.as_object().and_then(|object| object.keys().next());
            let recorded = written.as_str().or(object.map(String::as_str));
            assert_eq!((reason.name(), recorded), (expected, Some(expected)));
        }
    }
}
